// Two clocks: now() is the kernel's monotonic time; ticks() is a counter that costs a few
// nanoseconds, for stamps taken on hot paths (trace events, time slices).
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace magpie::rt::os {

using nanos = std::int64_t;

inline constexpr nanos k_never = INT64_MAX;

// CLOCK_MONOTONIC, the clock of std::chrono::steady_clock. Signal-safe; about 30 ns.
nanos now();

// Whether ticks() is the processor's counter. False where the TSC stops or changes its rate, and
// in builds that emulate the processor; ticks() is then now().
bool ticks_are_cheap();

namespace detail {
struct tick_source {
  tick_source();
  bool is_counter;
  std::uint64_t start_ticks;  // both clocks when the process started
  nanos start_time;
};
extern const tick_source g_tick_source;
}  // namespace detail

// Monotonic on one thread; between threads as far apart as the processors' counters are, which
// is less than a cache miss where the counter is invariant. Signal-safe.
inline std::uint64_t ticks() {
  if (!detail::g_tick_source.is_counter) return static_cast<std::uint64_t>(now());
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  std::uint64_t counter;
  asm volatile("mrs %0, cntvct_el0" : "=r"(counter));
  return counter;
#endif
}

// How many ticks a second has. The first call compares both clocks since the process started
// and waits until there is a millisecond to compare; later calls are a load. Any thread.
std::uint64_t ticks_per_second();

// A difference of ticks as nanoseconds; saturates at k_never.
nanos ticks_to_nanos(std::uint64_t difference);

}  // namespace magpie::rt::os
