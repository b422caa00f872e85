// The submitting side of idle.cpp, where the essay is: short, and part of every way to make a
// goroutine runnable.
#pragma once

#include "os/fence.h"
#include "sched/scheduler.h"

namespace magpie::rt {

inline void scheduler::wake_p() {
  os::light_fence();  // [fence], after the caller's [publish]
  // relaxed: ordered by the fence. [look]
  if (idle_count_.load(relaxed) == 0) return poke_monitor();
  if (spinning_.load(relaxed) == 0) wake_one();  // as above
}

}  // namespace magpie::rt
