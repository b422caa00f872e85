// event.cpp: a flag, and a list of those who wait for it.
//
// The flag alone is one step, so that one who sees it may destroy the event at once. Only when
// somebody is on the list does set() take the lock; the event stays until those are woken.

#include <magpie/event.h>

#include "sched/waiting.h"

namespace magpie {

using namespace rt;

void event::set() {
  std::uint32_t found = state_.load(relaxed);  // relaxed: the exchange decides
  for (;;) {
    if ((found & k_waiting) == 0) {
      // release pairs with the acquire of is_set().
      if (state_.compare_exchange_weak(found, k_set, release, relaxed)) return;
      continue;
    }
    const entry inside;
    wake_list woken;
    {
      const object_guard held(lock_);
      woken.add_all(waiting_);
      // Nobody left: their time was up, and the list is none of our business any more.
      if (woken.empty()) {
        found = state_.fetch_and(~k_waiting, relaxed) & ~k_waiting;  // relaxed: as above
        continue;
      }
      state_.store(k_set, release);  // pairs with is_set()
    }
    return woken.wake_all(inside.m());
  }
}

void event::reset() noexcept {
  state_.fetch_and(~k_set, relaxed);  // relaxed: says nothing about what happened before
}

bool event::wait_slow(time_point deadline) {
  entry inside;
  waiter me;
  me.object = this;
  me.contested = deadline != never;
  wait_node node{me};
  object_guard held(lock_);
  std::uint32_t found = state_.load(relaxed);  // relaxed: the exchange decides
  do {
    if ((found & k_set) != 0) return (void)state_.load(acquire), true;  // pairs with set()
    // relaxed: who sees the bit takes the lock.
  } while (!state_.compare_exchange_weak(found, found | k_waiting, relaxed));
  push_back(waiting_, node);
  if (deadline == never) {
    inside.block(me, wait_reason::event_wait, held);
    return true;
  }
  if (inside.block_until(me, wait_reason::event_wait, held, to_nanos(deadline))) return true;
  const object_guard again(lock_);
  remove(waiting_, node);
  // relaxed: the list is under the lock.
  if (waiting_.first == nullptr) state_.fetch_and(~k_waiting, relaxed);
  return false;
}

}  // namespace magpie
