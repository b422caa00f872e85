#include "os/clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace magpie::rt::os {
namespace {

constexpr std::uint64_t k_second = 1'000'000'000;

nanos steady_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

TEST(Clock, NowNeverGoesBack) {
  nanos last = now();
  for (int i = 0; i < 100'000; ++i) {
    const nanos next = now();
    ASSERT_GE(next, last);
    last = next;
  }
}

TEST(Clock, NowIsTheTimeOfTheSteadyClock) {
  for (int i = 0; i < 1000; ++i) {
    const nanos before = steady_now();
    const nanos between = now();
    const nanos after = steady_now();
    ASSERT_LE(before, between);
    ASSERT_LE(between, after);
  }
}

TEST(Clock, NowGoesOn) {
  const nanos start = now();
  while (now() == start) std::this_thread::yield();
  EXPECT_GT(now(), start);
  EXPECT_LT(now(), k_never);
}

TEST(Clock, TicksNeverGoBackOnOneThread) {
  const std::uint64_t first = ticks();
  std::uint64_t last = first;
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t next = ticks();
    ASSERT_GE(next, last);
    last = next;
  }
  EXPECT_GT(last, first);
}

TEST(Clock, TicksWithoutACounterAreNow) {
  if (ticks_are_cheap()) GTEST_SKIP() << "ticks() is the processor's counter here";
  const nanos before = now();
  const auto between = static_cast<nanos>(ticks());
  EXPECT_LE(before, between);
  EXPECT_LE(between, now());
  EXPECT_EQ(ticks_per_second(), k_second);
}

TEST(Clock, RateIsOneNumberForAllThreads) {
  std::vector<std::uint64_t> rates(8);
  std::atomic<bool> go{false};
  std::vector<std::thread> threads;
  for (std::uint64_t& rate : rates) {
    threads.emplace_back([&] {
      while (!go.load()) std::this_thread::yield();
      rate = ticks_per_second();
    });
  }
  go = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(rates[0], 0u);
  for (const std::uint64_t rate : rates) EXPECT_EQ(rate, rates[0]);
  EXPECT_EQ(ticks_per_second(), rates[0]);
}

// Both clocks are read around the same 20 ms of work, however long they take. A reading that an
// interruption tore apart can be off by that much, so the best of a few decides.
TEST(Clock, TicksAndNanosecondsAgree) {
  double best = 0;
  for (int attempt = 0; attempt < 20; ++attempt) {
    const nanos start_time = now();
    const std::uint64_t start_ticks = ticks();
    while (now() - start_time < 20'000'000) {
    }
    const nanos by_ticks = ticks_to_nanos(ticks() - start_ticks);
    const nanos by_time = now() - start_time;
    best = static_cast<double>(by_ticks) / static_cast<double>(by_time);
    if (best > 0.8 && best < 1.2) break;
  }
  EXPECT_NEAR(best, 1.0, 0.2);
}

TEST(Clock, ConversionIsExactAndLinear) {
  EXPECT_EQ(ticks_to_nanos(0), 0);
  const std::uint64_t rate = ticks_per_second();
  EXPECT_EQ(ticks_to_nanos(rate), static_cast<nanos>(k_second));
  EXPECT_EQ(ticks_to_nanos(rate * 3600), static_cast<nanos>(k_second) * 3600)
      << "an hour of ticks times a thousand million does not fit 64 bits";
  EXPECT_LE(ticks_to_nanos(rate - 1), static_cast<nanos>(k_second));
}

// With a counter of more than 2 GHz even the largest difference fits.
TEST(Clock, ConversionSaturatesAtNever) {
  const std::uint64_t rate = ticks_per_second();
  const auto most = static_cast<unsigned __int128>(UINT64_MAX) * k_second / rate;
  if (most > static_cast<unsigned __int128>(k_never)) {
    EXPECT_EQ(ticks_to_nanos(UINT64_MAX), k_never);
    EXPECT_EQ(ticks_to_nanos(UINT64_MAX - 1), k_never);
  } else {
    EXPECT_EQ(ticks_to_nanos(UINT64_MAX), static_cast<nanos>(most));
  }
  EXPECT_GT(ticks_to_nanos(UINT64_MAX), 0) << "not negative";
}

}  // namespace
}  // namespace magpie::rt::os
