// Signals that interrupt system calls, for the tests of EINTR.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <thread>

namespace magpie::rt::os {

// While it lives, SIGUSR2 is counted and, without SA_RESTART, ends blocking calls with EINTR.
class counted_interrupts {
 public:
  counted_interrupts() {
    count_ = 0;
    struct sigaction action = {};
    action.sa_handler = [](int) { count_.fetch_add(1); };
    sigaction(SIGUSR2, &action, &previous_);
  }
  ~counted_interrupts() { sigaction(SIGUSR2, &previous_, nullptr); }
  counted_interrupts(const counted_interrupts&) = delete;
  counted_interrupts& operator=(const counted_interrupts&) = delete;

  static int count() { return count_.load(); }

  // Interrupts `thread`, which must not have been joined, until `enough` returns true.
  template <class Condition>
  static void interrupt_until(std::thread& thread, Condition enough) {
    while (!enough()) {
      pthread_kill(thread.native_handle(), SIGUSR2);
      std::this_thread::yield();
    }
  }

 private:
  static inline std::atomic<int> count_{0};
  struct sigaction previous_ = {};
};

}  // namespace magpie::rt::os
