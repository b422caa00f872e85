// When to look again for a lock that is taken, instead of waiting for it.
#pragma once

#include "base/atomic.h"
#include "sched/scheduler.h"

namespace magpie::rt {

// As long as a short critical section on another processor takes, and not longer than half of
// what it costs to wait.
inline constexpr int k_spins = 4;

inline void pause_between_spins() {
  constexpr int k_pauses = 10;
  for (int i = 0; i < k_pauses; ++i) cpu_relax();
}

// Whether the holder may be running on another processor. Also when others want this one: they
// would most likely come to the same lock, and a queue of those who wait is slower for all than a
// microsecond here. `m`: the caller's, or null on a plain thread.
inline bool spinning_pays(const M* m) { return m == nullptr || m->scheduler_.others_run(); }

}  // namespace magpie::rt
