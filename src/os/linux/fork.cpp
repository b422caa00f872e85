#include "os/fork.h"

#include <pthread.h>

#include "base/check.h"

namespace magpie::rt::os {

namespace detail {
atomic<bool> g_forked{false};
}

void fail_in_forked_child() {
  fatal(
      "a runtime was used in a child made by fork(): its threads are not there. Use"
      " posix_spawn, or exec right after fork.");
}

void watch_forks() {
  static const int failed = pthread_atfork(nullptr, nullptr, [] {
    detail::g_forked.store(true, relaxed);  // relaxed: the child has this thread only
  });
  (void)failed;
}

}  // namespace magpie::rt::os
