// A baton that is given and taken: the smallest thing goroutines and plain threads can wait for,
// built on park and ready like the library's own.
#pragma once

#include "base/atomic.h"
#include "base/check.h"
#include "sched/waiting.h"

namespace magpie::rt::testing {

class baton {
 public:
  // Waits until it is there, and takes it. One at a time.
  void take() {
    while (!try_take()) wait();
  }

  // Any thread; never while the baton is there already.
  void give() {
    void* seen = state_.load(acquire);  // pairs with the releases of enlist() and give()
    for (;;) {
      MAGPIE_CHECK(seen != here(), "a baton given twice");
      // acq_rel: the waiter, and what the giver did before.
      if (state_.compare_exchange_strong(seen, here(), acq_rel, acquire)) break;
    }
    if (seen == nullptr) return;
    const entry inside;
    static_cast<holder*>(seen)->wake(inside.m());
  }

  bool try_take() {
    void* seen = here();
    return state_.compare_exchange_strong(seen, nullptr, acq_rel, relaxed);  // as in give()
  }

 private:
  struct holder : waiter {
    atomic<void*>* state = nullptr;
    bool enlist() {
      void* nobody = nullptr;
      return state->compare_exchange_strong(nobody, this, release, relaxed);  // see give()
    }
  };

  void* here() { return this; }

  void wait() {
    holder me;
    me.state = &state_;
    entry inside;
    inside.block(
        me, wait_reason::future_wait,
        [](void* self) { return static_cast<holder*>(self)->enlist(); }, &me);
  }

  atomic<void*> state_{nullptr};  // null, who waits, or this: it is there
};

}  // namespace magpie::rt::testing
