// Sockets and addresses.
#pragma once

#include <magpie/net/address.h>
#include <magpie/net/resolve.h>
#include <magpie/net/socket.h>
#include <magpie/net/tcp.h>
#include <magpie/net/udp.h>
#include <magpie/net/unix.h>
