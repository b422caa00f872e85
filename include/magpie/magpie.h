// All of magpie. Each header below also stands alone.
#pragma once

#include <magpie/async.h>
#include <magpie/blocking.h>
#include <magpie/channel.h>
#include <magpie/errors.h>
#include <magpie/export.h>
#include <magpie/go.h>
#include <magpie/runtime.h>
#include <magpie/select.h>
#include <magpie/time.h>
#include <magpie/version.h>
