#include "os/fork.h"

#include <pthread.h>

namespace magpie::rt::os {

namespace detail {
atomic<bool> g_forked{false};
}

void watch_forks() {
  static const int failed = pthread_atfork(nullptr, nullptr, [] {
    detail::g_forked.store(true, relaxed);  // relaxed: the child has this thread only
  });
  (void)failed;
}

}  // namespace magpie::rt::os
