// Goroutines that compute and never call into the runtime.

#include "workloads.h"

#include <array>
#include <cstdint>
#include <vector>

namespace workloads {
namespace {

// Only the arithmetic unit, and nothing that a compiler could leave out.
std::uint64_t compute(std::uint64_t rounds) {
  std::uint64_t x = rounds | 1;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    asm volatile("" : "+r"(x));
  }
  return x;
}

double percentile(const std::vector<nanoseconds>& sorted, double share) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return in_milliseconds(sorted[static_cast<std::size_t>(last * share)]);
}

// Ticker: how late a goroutine is that sleeps for 1 ms again and again, beside two hogs for each P.
void ticker() {
  std::atomic<bool> over{false};
  completion hogs;
  for (int i = 0; i < 2 * g_procs; ++i) {
    hogs.go([&over] {
      while (!over.load(std::memory_order_relaxed)) compute(1000);
    });
  }
  std::vector<nanoseconds> late;
  for (const instant end = now() + window(seconds(5)); now() < end;) {
    const instant due = now() + milliseconds(1);
    magpie::this_goroutine::sleep_for(milliseconds(1));
    late.push_back(now() - due);
  }
  over = true;
  hogs.wait();
  std::sort(late.begin(), late.end());
  report("ticker_p50", percentile(late, 0.5), "ms");
  report("ticker_p99", percentile(late, 0.99), "ms");
  report("ticker_max", percentile(late, 1.0), "ms");
}

// How long two goroutines for each P take for the same computation.
nanoseconds compute_with(bool preempt, nanoseconds slice, std::uint64_t rounds) {
  magpie::config config;
  config.procs = g_procs;
  config.preempt = preempt;
  config.time_slice = slice;
  magpie::runtime r(config);
  return r.run([rounds] { return together(2 * g_procs, [rounds] { compute(rounds); }); });
}

// Compute: throughput with slices of 10 and of 1 ms, as a share of that without preemption.
void computing() {
  // So long that the slice with which the last one is alone at the end does not matter.
  const auto rounds = static_cast<std::uint64_t>(count(600'000'000));
  struct {
    const char* name;
    bool preempt;
    nanoseconds slice;
    nanoseconds best = nanoseconds::max();
  } ways[] = {{"", false, milliseconds(10)},
              {"compute_10ms", true, milliseconds(10)},
              {"compute_1ms", true, milliseconds(1)}};
  for (int round = 0; round < 5; ++round) {
    for (auto& way : ways) {
      way.best = std::min(way.best, compute_with(way.preempt, way.slice, rounds));
    }
  }
  for (const auto& way : ways) {
    if (!way.preempt) continue;
    report(way.name, 100.0 * in_milliseconds(ways[0].best) / in_milliseconds(way.best), "percent");
  }
}

}  // namespace

void add_hogs(table& to) {
  to["ticker"] = ticker;
  to["compute"] = computing;
}

}  // namespace workloads
