// Goroutines stopped all the time, and many of them. Short by default; MAGPIE_STRESS=N makes the
// storms N times as long.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <magpie/magpie.h>

#include "fiber/sanitizer.h"
#include "support/process_counts.h"
#include "support/subprocess.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;

constexpr bool k_sanitized = rt::sanitizer::k_thread || rt::sanitizer::k_address;

int times_longer() {
  const char* const text = std::getenv("MAGPIE_STRESS");
  return text != nullptr ? std::max(1, std::atoi(text)) : 1;
}

void expect_calm_in_storm(const std::string& what, int seconds,
                          std::vector<std::string> settings = {}, int ps = 2) {
  settings.push_back("MAGPIE_DEBUG=preemptstorm=25");
  const auto end = rt::testing::run_program(
      "storm", {std::to_string(seconds * times_longer()), what, std::to_string(ps)},
      std::move(settings));
  EXPECT_EQ(end.exit_code, 0) << end.output << "ended by signal " << end.signal;
  EXPECT_THAT(end.output, ::testing::ContainsRegex("stopped [0-9][0-9]+ times")) << "no storm";
}

TEST(PreemptStress, HeapExceptionsStreamsLocksAndRegisters) { expect_calm_in_storm("all", 3); }

// Who waits for somebody's next step must not keep the only P from that one.
TEST(PreemptStress, EndsWithOneP) { expect_calm_in_storm("ends", 2, {}, 1); }

TEST(PreemptStress, Forks) {
  if (k_sanitized) GTEST_SKIP() << "a sanitizer's child of a fork may not do much";
  expect_calm_in_storm("forks", 1);
}

// Everybody wants the one lock of the one arena, again and again, and some are stopped with it.
TEST(PreemptStress, OneLockInMalloc) {
  if (k_sanitized) GTEST_SKIP() << "a sanitizer has a heap of its own";
  expect_calm_in_storm("heap", 1, {"MALLOC_ARENA_MAX=1"});
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * 4096;
}

// All at once, each stopped in the middle most of the time: fair, cheap, and gone afterwards.
TEST(PreemptStress, AThousandHogs) {
  const int count = k_sanitized ? 100 : 1000;
  runtime({.procs = 1}).run([] {});  // a sanitizer makes a thread of its own with the first
  const std::size_t threads_before = rt::testing::thread_count();
  {
    runtime r({.procs = 2, .time_slice = 1ms});
    r.run([&] {
      std::atomic<bool> over{false};
      std::atomic<int> started{0};
      // Time is counted, not rounds: the machine may have other things to do.
      std::vector<std::atomic<std::uint64_t>> rounds(static_cast<std::size_t>(count));
      wait_group hogs;
      const std::size_t memory_before = resident_bytes();
      for (auto& mine : rounds) {
        hogs.go([&] {
          started.fetch_add(1);
          while (!over.load(std::memory_order_relaxed)) {
            mine.store(mine.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
          }
        });
      }
      // Turns of this goroutine, which goes before all others, are not taken from those who have
      // yet to begin.
      while (started.load() != count) this_goroutine::sleep_for(1ms);
      EXPECT_LT(r.read_stats().preemptions, static_cast<std::uint64_t>(count) * 8);
      std::vector<std::uint64_t> before;
      for (auto& n : rounds) before.push_back(n.load());
      const auto end = std::chrono::steady_clock::now() + (k_sanitized ? 2s : 6s);
      while (std::chrono::steady_clock::now() < end) this_goroutine::sleep_for(10ms);
      std::vector<std::uint64_t> share;
      for (std::size_t i = 0; i < rounds.size(); ++i) share.push_back(rounds[i].load() - before[i]);
      const std::size_t memory = resident_bytes() - memory_before;
      over = true;
      hogs.wait();
      std::sort(share.begin(), share.end());
      const std::uint64_t tenth = share[share.size() / 10];
      const std::uint64_t last_tenth = share[share.size() - share.size() / 10];
      RecordProperty("bytes_each", std::to_string(memory / static_cast<std::size_t>(count)));
      RecordProperty("shares", std::to_string(share.front()) + " " + std::to_string(tenth) + " " +
                                   std::to_string(share[share.size() / 2]) + " " +
                                   std::to_string(last_tenth) + " " + std::to_string(share.back()));
      std::printf("%zu bytes each; rounds: least %llu, median %llu, most %llu\n",
                  memory / static_cast<std::size_t>(count),
                  static_cast<unsigned long long>(share.front()),
                  static_cast<unsigned long long>(share[share.size() / 2]),
                  static_cast<unsigned long long>(share.back()));
      EXPECT_GT(share.front(), 0u) << "somebody had no turn at all";
      if (!k_sanitized && !trace::enabled()) {  // a trace has buffers for every thread
        EXPECT_LT(memory / static_cast<std::size_t>(count), 32u * 1024);
      }
    });
    // The threads are idle now, for the next ones.
    const stats s = r.read_stats();
    EXPECT_GE(s.threads_peak, count);
    EXPECT_GE(s.preemptions, static_cast<std::uint64_t>(count) / 2);
  }
  EXPECT_TRUE(rt::testing::thread_count_becomes(threads_before));
}

}  // namespace
}  // namespace magpie
