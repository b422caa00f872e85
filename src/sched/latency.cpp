#include "sched/latency.h"

#include <algorithm>

namespace magpie::rt {
namespace {

// Whether the registers are still unused.
bool is_fresh(const G& g) { return g.task != nullptr; }

}  // namespace

// The distance to the next one varies, or it would beat with programs that do things in powers of
// two and always the same goroutine would be timed: from 1 to twice the mean, less one.
[[gnu::noinline]] void latency_sampler::choose(G& g) {
  const std::uint64_t now = os::ticks();
  const std::uint64_t since_last = now - last_;
  const std::uint64_t wanted = os::ticks_per_second() / k_most_per_second;
  last_ = now;
  stamp(g, now, doublings_);
  if (since_last < wanted && doublings_ < k_most_doublings) ++doublings_;
  if (since_last > 4 * wanted && doublings_ > 0) --doublings_;
  const std::uint64_t mean = std::uint64_t{1} << doublings_;
  const std::uint64_t dice = (now * 0x9e3779b97f4a7c15u) >> 32;  // the low bits of a counter repeat
  left_ = static_cast<std::uint32_t>(1 + dice % (2 * mean - 1));
}

void latency_sampler::stamp(G& g, std::uint64_t now, std::uint8_t doublings) {
  g.timed = static_cast<std::uint8_t>(doublings + 1);
  if (is_fresh(g)) {
    g.fiber.registers.stack_pointer = reinterpret_cast<void*>(now);
  } else {
    g.fiber.stack->runnable_since = now;
  }
}

[[gnu::noinline]] void latency_sampler::finish(G& g, latency_histogram& to) {
  const std::uint64_t since = is_fresh(g)
                                  ? reinterpret_cast<std::uint64_t>(g.fiber.registers.stack_pointer)
                                  : g.fiber.stack->runnable_since;
  const std::uint64_t now = os::ticks();
  const std::uint64_t times = std::uint64_t{1} << (g.timed - 1);
  g.timed = 0;
  to.add(os::ticks_to_nanos(now - std::min(since, now)), times);  // counters may be apart
}

}  // namespace magpie::rt
