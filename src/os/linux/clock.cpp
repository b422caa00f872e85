#include "os/clock.h"

#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/atomic.h"
#include "base/check.h"

namespace magpie::rt::os {
namespace {

constexpr std::uint64_t k_nanos_per_second = 1'000'000'000;

// Invariant means: same rate in all power states, never stopped. Without that promise a tick is
// no measure of time.
bool counter_is_invariant() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1U << 8)) != 0;
#elif defined(__aarch64__)
  return true;  // the generic timer is, by definition
#endif
}

struct clock_pair {
  std::uint64_t ticks;
  nanos time;
};

// Both clocks at one moment. The pair whose two tick readings lie closest together is the one
// that no interrupt came between.
clock_pair read_both() {
  clock_pair best{};
  std::uint64_t best_gap = UINT64_MAX;
  for (int i = 0; i < 5; ++i) {
    const std::uint64_t before = ticks();
    const nanos time = now();
    const std::uint64_t gap = ticks() - before;
    if (gap >= best_gap) continue;
    best_gap = gap;
    best = {before + gap / 2, time};
  }
  return best;
}

atomic<std::uint64_t> g_ticks_per_second{0};

std::uint64_t measure_ticks_per_second() {
  constexpr nanos k_shortest_baseline = 1'000'000;
  const detail::tick_source& start = detail::g_tick_source;
  clock_pair end = read_both();
  while (end.time - start.start_time < k_shortest_baseline) {
    cpu_relax();
    end = read_both();
  }
  const auto elapsed_ticks = static_cast<unsigned __int128>(end.ticks - start.start_ticks);
  const auto elapsed_nanos = static_cast<unsigned __int128>(end.time - start.start_time);
  return static_cast<std::uint64_t>(elapsed_ticks * k_nanos_per_second / elapsed_nanos);
}

}  // namespace

namespace detail {

// Early: a program may start goroutines from the constructors of its globals.
[[gnu::init_priority(101)]] const tick_source g_tick_source;

tick_source::tick_source() : is_counter(counter_is_invariant()) {
  const clock_pair start = read_both();
  start_ticks = start.ticks;
  start_time = start.time;
}

}  // namespace detail

nanos now() {
  timespec time;
  const int failed = clock_gettime(CLOCK_MONOTONIC, &time);
  MAGPIE_DCHECK(failed == 0, "CLOCK_MONOTONIC cannot be read");
  return static_cast<nanos>(time.tv_sec) * static_cast<nanos>(k_nanos_per_second) + time.tv_nsec;
}

bool ticks_are_cheap() { return detail::g_tick_source.is_counter; }

std::uint64_t ticks_per_second() {
  // relaxed: the rate is a number of its own, nothing else is published with it.
  std::uint64_t rate = g_ticks_per_second.load(relaxed);
  if (rate != 0) return rate;
  std::uint64_t measured = ticks_are_cheap() ? measure_ticks_per_second() : k_nanos_per_second;
  // The first measurement stays, so that one difference always is the same time.
  return g_ticks_per_second.compare_exchange_strong(rate, measured, relaxed) ? measured : rate;
}

nanos ticks_to_nanos(std::uint64_t difference) {
  const unsigned __int128 time =
      static_cast<unsigned __int128>(difference) * k_nanos_per_second / ticks_per_second();
  return time > static_cast<unsigned __int128>(k_never) ? k_never : static_cast<nanos>(time);
}

}  // namespace magpie::rt::os
