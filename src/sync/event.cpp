// event.cpp: a flag, and a list of those who wait for it.
//
// The step that sets the flag is the last touch of set(), because whoever sees it may destroy the
// event at once. When somebody is on the list, k_setting comes before it: nobody goes on the list
// any more, but waits for that step, while set() takes everybody off. k_waiting and k_setting are
// set under the lock only. One whose time is up leaves k_waiting to set(): see leaving.h.

#include <magpie/event.h>

#include "os/thread.h"
#include "sync/leaving.h"

namespace magpie {

using namespace rt;

namespace {
constexpr std::uint32_t k_setting = 4;
}  // namespace

void event::set() {
  std::uint32_t found = state_.load(relaxed);  // relaxed: the exchange decides
  while ((found & (k_waiting | k_setting)) == 0) {
    // release pairs with the acquire of is_set().
    if (state_.compare_exchange_weak(found, k_set, release, relaxed)) return;
  }
  set_slow();
}

void event::set_slow() {
  const entry inside;
  wake_list woken;
  bool somebody_was_late = false;
  {
    object_guard held(lock_);
    // relaxed: under the lock.
    if ((state_.fetch_or(k_setting, relaxed) & k_setting) != 0) {
      held.unlock();
      return wait_until_set();  // by somebody else, just now
    }
    for (wait_node* node = waiting_.first; node != nullptr;) {
      auto& w = leaving_waiter::of(*node);
      node = node->next;
      if (take_off(waiting_, w)) {
        woken.add(w);
      } else {
        somebody_was_late = true;
      }
    }
  }
  if (somebody_was_late) wait_for_leavers(lock_, waiting_);
  state_.store(k_set, release);  // pairs with is_set(). The last touch
  woken.wake_all(inside.m());
}

// By one who has seen k_setting.
void event::wait_until_set() const {
  while ((state_.load(acquire) & k_setting) != 0) os::yield_thread();  // pairs with set()
}

void event::reset() noexcept {
  state_.fetch_and(~k_set, relaxed);  // relaxed: says nothing about what happened before
}

bool event::wait_slow(time_point deadline) {
  entry inside;
  leaving_waiter me;
  me.object = this;
  me.contested = deadline != never;
  object_guard held(lock_);
  std::uint32_t found = state_.load(acquire);  // pairs with set()
  do {
    if ((found & k_set) != 0) return true;
    if ((found & k_setting) != 0) {
      held.unlock();
      wait_until_set();
      return true;
    }
    // acquire: for when it fails, as above. Who sees the bit takes the lock.
  } while (!state_.compare_exchange_weak(found, found | k_waiting, acquire));
  push_back(waiting_, me.node);
  if (deadline == never) {
    inside.block(me, wait_reason::event_wait, held);
    return true;
  }
  if (inside.block_until(me, wait_reason::event_wait, held, to_nanos(deadline))) return true;
  me.leave(lock_, waiting_);
  return false;
}

}  // namespace magpie
