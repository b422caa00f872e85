// Two descriptors of ours that are connected with each other.
#pragma once

#include <sys/socket.h>

#include <cstdlib>

#include "io/descriptor.h"

namespace magpie::rt::testing {

struct connected_pair {
  connected_pair() {
    int fds[2];
    constexpr int k_type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    if (::socketpair(AF_UNIX, k_type, 0, fds) != 0) std::abort();
    for (int i = 0; i < 2; ++i) {
      if (descriptor::open(fds[i], ends[i]) != 0) std::abort();
    }
  }
  ~connected_pair() {
    for (descriptor* const d : ends) d->destroy();
  }
  connected_pair(const connected_pair&) = delete;
  connected_pair& operator=(const connected_pair&) = delete;

  descriptor* ends[2] = {};
};

}  // namespace magpie::rt::testing
