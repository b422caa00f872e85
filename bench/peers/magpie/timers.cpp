// Sleep and timers.

#include "workloads.h"

#include <cstdint>
#include <vector>

namespace workloads {
namespace {

// Numbers that look random, the same ones in every run and in every peer.
class numbers {
 public:
  nanoseconds below(nanoseconds limit) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return nanoseconds(state_ % static_cast<std::uint64_t>(limit.count()));
  }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15;
};

// Sleepers: a million goroutines that each sleep once, for 1 to 100 ms.
void sleepers() {
  const long goroutines = count(1'000'000);
  numbers random;
  completion all;
  const nanoseconds used_before = cpu_time();
  const instant start = now();
  all.add(goroutines);
  for (long i = 0; i < goroutines; ++i) {
    const nanoseconds length = milliseconds(1) + random.below(milliseconds(99));
    magpie::go([&all, length] {
      magpie::this_goroutine::sleep_for(length);
      all.done();
    });
  }
  all.wait();
  const nanoseconds used = cpu_time() - used_before;
  const nanoseconds elapsed = now() - start;
  report("sleepers_wall", in_milliseconds(elapsed), "ms");
  report("sleepers_cpu", in_milliseconds(used), "ms");
}

// Short sleep: how long 50 us are when nothing else goes on.
void short_sleep() {
  std::vector<nanoseconds> lengths(static_cast<std::size_t>(count(2000)));
  for (nanoseconds& length : lengths) {
    const instant start = now();
    magpie::this_goroutine::sleep_for(microseconds(50));
    length = now() - start;
  }
  std::sort(lengths.begin(), lengths.end());
  report("short_sleep", static_cast<double>(lengths[lengths.size() / 2].count()) / 1e3, "us");
}

// Timers: a million that are far from due are made, in no order, and stopped again.
struct timer_times {
  nanoseconds added, stopped;
};

timer_times timers_all(long number) {
  using std::chrono::hours;
  numbers random;
  std::vector<magpie::timer> pending;
  pending.reserve(static_cast<std::size_t>(number));
  instant start = now();
  for (long i = 0; i < number; ++i) {
    pending.push_back(magpie::after_func(hours(1) + random.below(hours(1)), [] {}));
  }
  const nanoseconds added = now() - start;
  start = now();
  for (magpie::timer& timer : pending) {
    if (!timer.stop()) fail("timers: one was not pending");
  }
  return {added, now() - start};
}

void timers() {
  const long number = count(1'000'000);
  timers_all(std::max(1L, number / 10));
  const timer_times times = timers_all(number);
  report("timers_add", per_operation(times.added, number), "ns/op");
  report("timers_stop", per_operation(times.stopped, number), "ns/op");
}

// Fire: a million timers become due within a millisecond, in no order. Timed from the first that
// is due to the end of the last goroutine, if all were made before that.
std::optional<nanoseconds> fire_all(long number, nanoseconds lead) {
  numbers random;
  completion all;
  all.add(number);
  const instant due = now() + lead;
  for (long i = 0; i < number; ++i) {
    magpie::after_func(due - now() + random.below(milliseconds(1)), [&all] { all.done(); });
  }
  const bool in_time = now() < due;
  all.wait();
  if (!in_time) return std::nullopt;
  return now() - due;
}

void timers_fire() {
  const long number = count(1'000'000);
  nanoseconds lead = window(milliseconds(1500));
  fire_all(number, lead);  // all of them run at once: the next pass finds their stacks
  std::optional<nanoseconds> elapsed = fire_all(number, lead);
  while (!elapsed) elapsed = fire_all(number, lead *= 2);
  report("timers_fire", per_operation(*elapsed, number), "ns/op");
}

}  // namespace

void add_timers(table& to) {
  to["sleepers"] = sleepers;
  to["short_sleep"] = short_sleep;
  to["timers"] = timers;
  to["timers_fire"] = timers_fire;
}

}  // namespace workloads
