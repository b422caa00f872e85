// condition_variable.cpp: unlock a mutex and wait, with nothing in between.
//
// One who waits goes on the list first and unlocks the mutex afterwards; so whoever changes what
// it waits for, under the mutex, finds it there. But it cannot be woken before it sleeps, and so
// both sides say how far they are in one word: the waiter that it sleeps, the notifier that it has
// taken it off the list. Whoever comes second knows of the other: the notifier then wakes, the
// waiter does not go to sleep.
//
// Lifetime. Once everybody was notified the object may go away. So a notifier tells those it has
// taken off the list when it does not touch the object any more, and one who was notified does not
// either. For one whose time is up see leaving.h; it does not say, either, that nobody waits any
// more: a notifier that saw that would not wait for its last touch.

#include <magpie/condition_variable.h>

#include <magpie/errors.h>

#include "sync/leaving.h"

namespace magpie {

using namespace rt;

struct condition_variable::waiting : leaving_waiter {
  enum class progress {
    listed,
    asleep,
    notified
  };

  atomic<progress> reached{progress::listed};
  waiting* next_taken = nullptr;  // off the list

  static waiting& of(const wait_node& n) { return *static_cast<waiting*>(n.who); }

  // False: there is nothing to wait for any more.
  static bool fall_asleep(void* self) {
    progress found = progress::listed;
    // release: the record is complete for who wakes; acquire: what the notifier did.
    return static_cast<waiting*>(self)->reached.compare_exchange_strong(found, progress::asleep,
                                                                        acq_rel, acquire);
  }
  // True: it sleeps, and has to be woken. Otherwise it may be gone.
  bool notify() {
    // acq_rel: as above.
    return reached.exchange(progress::notified, acq_rel) == progress::asleep;
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
  me.leave(lock_, waiting_);
  return false;
}

// At most so many; 0: everybody.
void condition_variable::notify_slow(int count) noexcept {
  const entry inside;
  waiting* first_taken = nullptr;
  waiting** last_link = &first_taken;
  bool somebody_was_late = false;
  {
    const object_guard held(lock_);
    int taken = 0;
    for (wait_node* node = waiting_.first; node != nullptr && (count == 0 || taken < count);) {
      waiting& next = waiting::of(*node);
      node = node->next;
      if (take_off(waiting_, next)) {
        ++taken;
        *std::exchange(last_link, &next.next_taken) = &next;
      } else {
        somebody_was_late = true;
      }
    }
    if (waiting_.first == nullptr) waits_.store(false, relaxed);  // relaxed: under the lock
  }
  if (somebody_was_late) wait_for_leavers(lock_, waiting_);
  wake_list woken;
  for (waiting* w = first_taken; w != nullptr;) {
    waiting& next = *std::exchange(w, w->next_taken);  // before it is told: it may be gone then
    if (next.notify()) woken.add(next);
  }
  woken.wake_all(inside.m());
}

}  // namespace magpie
