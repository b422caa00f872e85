// once.cpp: who does it, who waits.
//
// One who failed hands the task to the first who waits; the others wait on. The step that says
// "done" is the last touch of the one who did it, because whoever sees it may destroy the object.
// So k_ending comes before it: nobody goes on the list any more, but waits for that step.

#include <magpie/once.h>

#include "os/thread.h"
#include "sched/waiting.h"

namespace magpie {

using namespace rt;

namespace {

constexpr std::uint32_t k_running = 1;
constexpr std::uint32_t k_waiting = 2;  // somebody is on the list; under the lock
constexpr std::uint32_t k_ending = 8;   // it is done, and the list was taken; under the lock

struct once_waiter : waiter {
  wait_node node{*this};
  bool is_next = false;
};

}  // namespace

bool once::begin() {
  entry inside;
  object_guard held(lock_);
  std::uint32_t found = state_.load(acquire);  // pairs with end()
  for (;;) {
    if (found == k_done) return false;
    if ((found & k_ending) != 0) {
      held.unlock();
      while (!done()) os::yield_thread();
      return false;
    }
    const std::uint32_t next = found == 0 ? k_running : found | k_waiting;
    // acquire: what a failed attempt left; on failure it may be done.
    if (state_.compare_exchange_weak(found, next, acquire, acquire)) break;
  }
  if (found == 0) return true;
  once_waiter me;
  me.object = this;
  push_back(waiting_, me.node);
  inside.block(me, wait_reason::once_call, held);
  return me.is_next;
}

void once::end(bool succeeded) noexcept {
  std::uint32_t alone = k_running;
  // release pairs with the acquire in done() and begin().
  if (state_.compare_exchange_strong(alone, succeeded ? k_done : 0, release, relaxed)) return;
  const entry inside;
  wake_list woken;
  {
    const object_guard held(lock_);
    if (succeeded) {
      woken.add_all(waiting_);
      state_.fetch_or(k_ending, relaxed);  // relaxed: seen under the lock only
    } else {
      auto& next = *static_cast<once_waiter*>(pop_front(waiting_)->who);
      next.is_next = true;
      woken.add(next);
      // relaxed: the next one learns everything from the wake.
      if (waiting_.first == nullptr) state_.store(k_running, relaxed);
    }
  }
  if (succeeded) state_.store(k_done, release);  // as above
  woken.wake_all(inside.m());
}

}  // namespace magpie
