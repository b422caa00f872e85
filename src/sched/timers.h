// What expired timers leave to be done once the heap's lock is released.
#pragma once

#include "sched/waiting.h"
#include "timer/timer.h"

namespace magpie::rt {

// Something to be called for an expired timer. `m`: the caller's, or null. Inside the gate, so:
// short, nothing that waits.
struct timed_call {
  explicit timed_call(void (*function)(M* m, timed_call&)) : call(function) {}
  void (*const call)(M* m, timed_call&);
  timed_call* next = nullptr;
};

struct harvest {
  wake_list woken;
  intrusive_queue<timed_call, &timed_call::next> calls;
};

}  // namespace magpie::rt
