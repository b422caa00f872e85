// stand_in.cpp: the spawner looks after timers and descriptors when no thread is left that could.
//
// Comes from: a P that rests although it was wanted, because there can be no more threads.
//
// An idle P means, everywhere else, that some M sleeps, or is being made, which watches the timers
// and the descriptors (idle.cpp, polling.cpp). At the limit of threads it may mean that every one
// is in a call, or busy, or sleeps until the goroutine that is locked to it has its turn; and that
// turn may depend on a timer. So the spawner, which has no thread to make then, takes their place.
//
// Why it does not miss the moment: whoever wants somebody to look, for a timer, for work, or
// because it watched until now, wakes one by wake_one(), which ends in rest_without_thread_locked()
// when there is neither an M asleep nor one to be made; and that calls the spawner. So does who
// hands off a P that nobody wants. Nobody else begins to wait for a descriptor: a goroutine that is
// not locked has no thread to run on until somebody is there who asks.
//
// While it stands in it is woken only for what it would not see to by itself: those who have a
// thread come here with every goroutine that they make runnable, as long as a P is idle.

#include <algorithm>

#include "sched/scheduler.h"

namespace magpie::rt {
namespace {

// Between two looks at descriptors, when the last has found something, and at most.
constexpr os::nanos k_shortest_look = 100'000;
constexpr os::nanos k_longest_look = 4'000'000;

}  // namespace

bool scheduler::nobody_can_watch_locked() const {
  // relaxed: who misses that a thread was refused relies on the spawner, which looks after that.
  const bool was_refused = ask_again_at_.load(relaxed) != os::k_never;
  const bool no_more_threads = threads_ >= settings.max_threads || was_refused;
  return no_more_threads && threads_to_make_ == 0 && idle_ms_.empty() && !idle_ps_.empty() &&
         !paused_ && !stopping_;
}

void scheduler::call_stand_in_locked() {
  const bool sees_to_it = standing_in_.lasts && earliest_timer() >= standing_in_.until &&
                          (standing_in_.asks_poller || io_waiters() == 0);
  if (!sees_to_it) wake_spawner();
}

// The spawner's. Returns when to look again, unless it is woken before: by all who come between the
// first step and the last.
os::nanos scheduler::stand_in() {
  {
    const os::lock_guard hold(lock_);
    standing_in_ = {};
    if (!nobody_can_watch_locked()) {
      check_interval_ = k_first_check;
      return os::k_never;
    }
  }
  run_timers_of_all(nullptr, 0);
  os::nanos next = earliest_timer();
  const bool asks_poller = descriptors.started() && io_waiters() != 0;
  if (asks_poller) {
    const os::nanos later = ask_poller(nullptr) ? k_shortest_look : 2 * look_interval_;
    look_interval_ = std::clamp(later, k_shortest_look, k_longest_look);
    next = std::min(next, os::now() + look_interval_);
  }
  // Who was woken may have no thread; and as in sleep_until_work(), others may fall asleep later.
  if (check_deadlock()) {
    next = std::min(next, os::now() + check_interval_);
    check_interval_ = std::min(2 * check_interval_, k_longest_check);
  }
  const os::lock_guard hold(lock_);
  standing_in_ = {true, asks_poller, next};
  return next;
}

}  // namespace magpie::rt
