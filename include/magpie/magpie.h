// All of magpie. Each header below also stands alone.
#pragma once

#include <magpie/async.h>
#include <magpie/barrier.h>
#include <magpie/blocking.h>
#include <magpie/channel.h>
#include <magpie/condition_variable.h>
#include <magpie/context.h>
#include <magpie/errors.h>
#include <magpie/event.h>
#include <magpie/export.h>
#include <magpie/file.h>
#include <magpie/go.h>
#include <magpie/group.h>
#include <magpie/latch.h>
#include <magpie/metrics.h>
#include <magpie/mutex.h>
#include <magpie/net.h>
#include <magpie/once.h>
#include <magpie/poll.h>
#include <magpie/runtime.h>
#include <magpie/select.h>
#include <magpie/semaphore.h>
#include <magpie/shared_mutex.h>
#include <magpie/time.h>
#include <magpie/version.h>
#include <magpie/wait_group.h>
