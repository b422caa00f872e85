// condition_variable.cpp: unlock a mutex and wait, with nothing in between.
//
// One who waits goes on the list first and unlocks the mutex afterwards; so whoever changes what
// it waits for, under the mutex, finds it there. But it cannot be woken before it sleeps, and so
// both sides say how far they are in one word: the waiter that it sleeps, the notifier that it has
// taken it off the list. Whoever comes second knows of the other: the notifier then wakes, the
// waiter does not go to sleep.

#include <magpie/condition_variable.h>

#include <magpie/errors.h>

#include "sched/waiting.h"

namespace magpie {

using namespace rt;

struct condition_variable::waiting : waiter {
  enum class progress {
    listed,
    asleep,
    notified
  };

  wait_node node{*this};
  atomic<progress> at{progress::listed};

  static waiting& of(const wait_node& n) { return *static_cast<waiting*>(n.who); }

  // False: there is nothing to wait for any more.
  static bool fall_asleep(void* self) {
    progress found = progress::listed;
    // release: the record is complete for who wakes; acquire: what the notifier did.
    return static_cast<waiting*>(self)->at.compare_exchange_strong(found, progress::asleep, acq_rel,
                                                                   acquire);
  }
  // True: it sleeps, and has to be woken. Otherwise it may be gone.
  bool notify() {
    // acq_rel: as above.
    return at.exchange(progress::notified, acq_rel) == progress::asleep;
  }
};

// False: the time is up.
bool condition_variable::wait_slow(std::unique_lock<mutex>& lock, time_point deadline) {
  if (!lock.owns_lock()) throw misuse("condition_variable: wait without the lock held");
  waiting me;
  me.object = this;
  me.contested = deadline != never;
  {
    const entry inside;
    const object_guard held(lock_);
    push_back(waiting_, me.node);
    waits_.store(true, seq_cst);  // see somebody_waits()
  }
  lock.mutex()->unlock();
  const bool notified = sleep(me, deadline);
  lock.mutex()->lock();
  return notified;
}

bool condition_variable::sleep(waiting& me, time_point deadline) {
  entry inside;
  if (deadline == never) {
    inside.block(me, wait_reason::condition_wait, waiting::fall_asleep, &me);
    return true;
  }
  if (inside.block_until(me, wait_reason::condition_wait, waiting::fall_asleep, &me,
                         to_nanos(deadline))) {
    return true;
  }
  const object_guard held(lock_);
  remove(waiting_, me.node);
  if (waiting_.first == nullptr) waits_.store(false, relaxed);  // relaxed: under the lock
  return false;
}

// At most so many; 0: everybody.
void condition_variable::notify_slow(int count) noexcept {
  const entry inside;
  wake_list woken;
  {
    const object_guard held(lock_);
    for (int left = count; count == 0 || left > 0; --left) {
      wait_node* const first = pop_front(waiting_);
      if (first == nullptr) break;
      waiting& next = waiting::of(*first);
      if (next.notify()) woken.add(next);
    }
    if (waiting_.first == nullptr) waits_.store(false, relaxed);  // relaxed: under the lock
  }
  woken.wake_all(inside.m());
}

}  // namespace magpie
