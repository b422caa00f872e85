// condition_variable.cpp: unlock a mutex and wait, with nothing in between.
//
// One who waits goes on the list first and unlocks the mutex afterwards; so whoever changes what
// it waits for, under the mutex, finds it there. A goroutine can be woken as soon as it is on the
// list, and therefore does both after its stack was left, in the commit of its park. There it
// must not yield or block, so the mutex is unlocked from inside the gate.

#include <magpie/condition_variable.h>

#include <magpie/errors.h>

#include "sched/waiting.h"

namespace magpie {

using namespace rt;

struct condition_variable::waiting : waiter {
  wait_node node{*this};
  condition_variable* on = nullptr;
  mutex* guard = nullptr;

  // After push_back() and the release of the lock, this record may be gone.
  static bool enlist(void* self) {
    auto& me = *static_cast<waiting*>(self);
    condition_variable& cv = *me.on;
    mutex& unlocked = *me.guard;
    {
      const object_guard held(cv.lock_);
      push_back(cv.waiting_, me.node);
      cv.waits_.store(true, seq_cst);  // see somebody_waits()
    }
    M* const m = current_m();
    unlocked.unlock_from(m != nullptr && !m->in_call ? m : nullptr);
    return true;
  }
};

// False: the time is up.
bool condition_variable::wait_slow(std::unique_lock<mutex>& lock, time_point deadline) {
  if (!lock.owns_lock()) throw misuse("condition_variable: wait without the lock held");
  bool notified = true;
  {
    entry inside;
    waiting me;
    me.on = this;
    me.guard = lock.mutex();
    me.object = this;
    me.contested = deadline != never;
    if (deadline == never) {
      inside.block(me, wait_reason::condition_wait, waiting::enlist, &me);
    } else {
      notified = inside.block_until(me, wait_reason::condition_wait, waiting::enlist, &me,
                                    to_nanos(deadline));
    }
    if (!notified) {
      const object_guard held(lock_);
      remove(waiting_, me.node);
      if (waiting_.first == nullptr) waits_.store(false, relaxed);  // relaxed: under the lock
    }
  }
  lock.mutex()->lock();
  return notified;
}

// At most so many; 0: everybody.
void condition_variable::notify_slow(int count) noexcept {
  const entry inside;
  wake_list woken;
  {
    const object_guard held(lock_);
    if (count == 0) {
      woken.add_all(waiting_);
    } else if (wait_node* const first = pop_front(waiting_)) {
      woken.add(*first->who);
    }
    if (waiting_.first == nullptr) waits_.store(false, relaxed);  // relaxed: under the lock
  }
  woken.wake_all(inside.m());
}

}  // namespace magpie
