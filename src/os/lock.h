// The runtime's own lock: a futex behind one word. It blocks the thread, not a goroutine, so it
// guards only short sections inside the runtime; users get magpie::mutex.
//
// Locks have ranks. A thread takes them in rising order only, which makes a deadlock between
// them impossible; debug builds check it at every lock(). The table below is the order.
#pragma once

#include <cstdint>

#include "os/futex.h"

namespace magpie::rt::os {

// Lower ranks are taken first. Two locks of one rank are never held together.
enum class lock_rank : std::uint8_t {
  runtimes,       // the default runtime, and whether it has started
  service,        // the thread for dumps, and whether there is one
  registry,       // which runtimes there are; one dump at a time
  trace_sources,  // the runtimes that a trace is about
  scheduler,      // one runtime's idle lists, global queue and threads
  stack_pool,     // free slots, slabs
  timers_end,     // runtimes end, with their timers, one at a time
  trace_streams,  // whose events are recorded
  trace_outside,  // events of threads that are no Ms
  leaf,           // guards something that calls nothing
};

// Nothing happens at its end: threads go on while the process ends, and with them those locks that
// have static storage.
class lock {
 public:
  explicit constexpr lock(lock_rank rank) : rank_(rank) {}
  lock(const lock&) = delete;
  lock& operator=(const lock&) = delete;

  // Any thread; not in signal handlers, whose thread may hold the lock already.
  void acquire();
  bool try_acquire();
  void release();

  // The same for one who reports how the process ends, and may hold any other: rank does not
  // count, because nobody is waited for.
  bool try_seize();
  void let_go();

 private:
  enum state : std::uint32_t {
    free = 0,
    held = 1,
    held_with_waiters = 2,  // release() must wake one
  };

  friend class member_lock;
  void acquire_slow();

  futex_word word_{free};
  const lock_rank rank_;
};

// Part of something that is destroyed, which nobody may use any more by then. Checked in debug
// builds.
class member_lock : public lock {
 public:
  using lock::lock;
  ~member_lock();
};

// Holds the lock until the end of the scope.
class [[nodiscard]] lock_guard {
 public:
  explicit lock_guard(lock& l) : lock_(l) { lock_.acquire(); }
  ~lock_guard() { lock_.release(); }
  lock_guard(const lock_guard&) = delete;
  lock_guard& operator=(const lock_guard&) = delete;

 private:
  lock& lock_;
};

// How many locks the calling thread holds, or is about to take: a thread is not stopped with one.
// Signal-safe.
int locks_held();

// Checks that the calling thread holds no lock: before it sleeps or leaves its stack. Debug
// builds only; otherwise nothing.
void assert_no_locks_held();

}  // namespace magpie::rt::os
