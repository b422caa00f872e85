// When to look again for a lock that is taken instead of waiting for it, and when one who waits has
// waited for too long.
#pragma once

#include <utility>

#include "base/atomic.h"
#include "os/clock.h"
#include "sched/scheduler.h"

namespace magpie::rt {

// Each pause is twice as long as the one before, about two microseconds in all. One who looks less
// often leaves the cache line to the processor that uses it, which gets more done that way; and a
// queue of those who wait costs more than that for a long time.
inline constexpr int k_spins = 4;

inline void pause_between_spins(int look) {
  constexpr int k_pauses = 10;
  for (int i = 0; i < k_pauses << look; ++i) cpu_relax();
}

// Whether the holder may be running on another processor. Also when others want this one: they
// would most likely come to the same lock, and a queue of those who wait is slower for all than a
// microsecond here. `m`: the caller's, or null on a plain thread.
inline bool spinning_pays(const M* m) { return m == nullptr || m->scheduler_.others_run(); }

// Whether others come and go so fast that one more would only be in the way: two processors that
// snatch the state from each other are slower together than one alone.
inline bool others_rush(const atomic<std::uint32_t>& state) {
  constexpr int k_looks = 24;                  // a third of a microsecond
  constexpr int k_many = 3;                    // somebody was in and out again
  std::uint32_t before = state.load(relaxed);  // relaxed, here and below: only to see it change
  for (int look = 0, changes = 0; look < k_looks; ++look) {
    cpu_relax();
    const std::uint32_t now = state.load(relaxed);
    if (std::exchange(before, now) != now && ++changes == k_many) return true;
  }
  return false;
}

// For as long as some hundred short sections take.
inline void stay_away() { pause_between_spins(k_spins + 2); }

// In ticks.
inline std::uint64_t patience() {
  static const std::uint64_t ticks = os::ticks_per_second() / 1000;
  return ticks;
}

}  // namespace magpie::rt
