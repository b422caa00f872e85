// thread_lock.cpp: a goroutine that stays on its thread, and a thread that runs nobody else.
//
// Comes from: thread_lock's constructor. While it lasts the goroutine (G) and the thread (M)
// belong to each other:
//
//   - G stops: M gives its P away and sleeps, instead of looking for other work.
//   - Somebody else finds G runnable: it gives its own P to M, wakes it, and looks for another.
//   - G ends: M ends with it. What G did to the thread (mask, namespace, affinity) goes, too: new
//     threads are made by the spawner, which nobody can spoil.

#include <algorithm>

#include "sched/idle.h"
#include "sched/local.h"
#include "sched/scheduler.h"

namespace magpie::rt {

// M's own stack only, after its goroutine has stopped: sleeps until that one's turn comes.
void scheduler::wait_for_locked_turn(M& m) {
  announce_own_timer(m);  // whoever gets the P may have nothing to do with it
  {
    const os::lock_guard hold(lock_);
    ++locked_sleepers_;  // before the P goes: it may come back at once
  }
  if (m.p != nullptr) {
    hand_off_p(release_p(m));
  } else {
    wake_p();  // at the limit of threads, one that came too early has found nobody asleep
  }
  // As in sleep_until_work(): the last one that falls asleep goes on looking.
  for (os::nanos pause = k_first_check; check_deadlock();) {
    if (m.wake.wait_until(os::now() + pause)) break;
    pause = std::min(2 * pause, k_longest_check);
  }
  m.wake.wait();
  m.wake.clear();
  {
    const os::lock_guard hold(lock_);
    --locked_sleepers_;
  }
  acquire_p(m, m.handed_p);
}

// `g` was found by m but belongs to another thread: that one gets the P.
void scheduler::hand_p_to_locked(M& m, G* g) {
  M* const owner = g->extra->locked_to;
  announce_own_timer(m);
  if (m.spinning) stop_spinning(m);
  owner->handed_p = release_p(m);
  owner->wake.wake();
}

}  // namespace magpie::rt
