#include "sched/latency.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include <magpie/magpie.h>

#include "sched/meters.h"

namespace magpie::rt {
namespace {

using namespace std::chrono_literals;

std::uint64_t timed(const meters& now) {
  std::uint64_t all = 0;
  for (const std::uint64_t count : now.latencies) all += count;
  return all;
}

// How many waited for at least so long.
std::uint64_t timed_from(const meters& now, os::nanos least) {
  std::uint64_t all = 0;
  for (int b = latency_histogram::bucket_of(least); b < latency_histogram::k_buckets; ++b) {
    all += now.latencies[static_cast<std::size_t>(b)];
  }
  return all;
}

TEST(LatencyHistogram, BucketsAreThoseOfGo) {
  const os::nanos k_begins[] = {0,   64,  128, 192, 256,  320,  384,  448,
                                512, 640, 768, 896, 1024, 1280, 1536, 1792};
  int bucket = 0;
  for (const os::nanos begin : k_begins) {
    EXPECT_EQ(latency_histogram::begin_of(bucket), begin);
    EXPECT_EQ(latency_histogram::bucket_of(begin), bucket);
    if (bucket > 0) {
      EXPECT_EQ(latency_histogram::bucket_of(begin - 1), bucket - 1);
    }
    ++bucket;
  }
  EXPECT_EQ(latency_histogram::k_buckets, 161);
  EXPECT_EQ(latency_histogram::begin_of(160), os::nanos{1} << 47);
  EXPECT_EQ(latency_histogram::bucket_of((os::nanos{1} << 47) - 1), 159);
  EXPECT_EQ(latency_histogram::bucket_of(os::nanos{1} << 47), 160);
  EXPECT_EQ(latency_histogram::bucket_of(os::k_never), 160);
}

TEST(LatencyHistogram, EveryBucketBeginsWhereTheOneBeforeEnds) {
  for (int b = 1; b < latency_histogram::k_buckets; ++b) {
    EXPECT_EQ(latency_histogram::bucket_of(latency_histogram::begin_of(b)), b);
    EXPECT_EQ(latency_histogram::bucket_of(latency_histogram::begin_of(b) - 1), b - 1);
  }
}

TEST(LatencyHistogram, CountsEverySampleInItsBucket) {
  latency_histogram h;
  std::uint64_t sum = 0;
  for (int b = 0; b < latency_histogram::k_buckets; ++b) {
    const os::nanos first = latency_histogram::begin_of(b);
    for (int i = 0; i < b; ++i) h.add(first, 1);
    h.add(first, 2);
    sum += static_cast<std::uint64_t>(first) * static_cast<std::uint64_t>(b + 2);
  }
  for (int b = 0; b < latency_histogram::k_buckets; ++b) {
    EXPECT_EQ(h.count(b), static_cast<std::uint64_t>(b + 2));
  }
  EXPECT_EQ(h.sum(), sum);
}

TEST(Latency, AllThatComeSlowlyAreTimed) {
  runtime r({.procs = 2});
  const std::uint64_t before = timed(read_meters(r));
  constexpr int k_rounds = 50;
  r.run([] {
    for (int i = 0; i < k_rounds; ++i) this_goroutine::sleep_for(1ms);
  });
  EXPECT_GE(timed(read_meters(r)) - before, static_cast<std::uint64_t>(k_rounds));
}

// Each of those that are timed stands for those that are not.
TEST(Latency, TheCountIsAboutTheNumberOfTurnsWhateverThePace) {
  runtime r({.procs = 1, .preempt = false});
  constexpr int k_rounds = 400'000;
  r.run([] {
    wait_group two;
    for (int i = 0; i < 2; ++i) {
      two.go([] {
        for (int k = 0; k < k_rounds; ++k) this_goroutine::yield();
      });
    }
    two.wait();
  });
  const meters now = read_meters(r);
  EXPECT_GE(now.turns, 1u * k_rounds);  // the one that is left alone at the end has none
  EXPECT_GT(timed(now), now.turns / 2);
  EXPECT_LT(timed(now), now.turns * 2);
}

TEST(Latency, OneThatWaitsBehindAHogIsSeenToWait) {
  runtime r({.procs = 1, .preempt = false});
  r.run([] {
    go([] {});  // behind the caller, who does not give way
    for (const auto end = clock::now() + 20ms; clock::now() < end;) {
    }
  });
  while (r.read_stats().goroutines != 0) std::this_thread::yield();
  EXPECT_GE(timed_from(read_meters(r), 10'000'000), 1u);
}

TEST(Latency, OneThatAThreadSpawnsIsTimed) {
  runtime r({.procs = 1});
  const std::uint64_t before = timed(read_meters(r));
  std::atomic<int> ran{0};
  for (int i = 0; i < 10; ++i) r.go([&] { ++ran; });
  while (ran != 10) std::this_thread::yield();
  const meters now = read_meters(r);
  EXPECT_GE(timed(now) - before, 10u);
  // Once more for one that was stopped, or lost its P, on a busy machine.
  EXPECT_LE(timed(now) - before, 10u + now.all.preemptions + now.all.retakes);
}

TEST(Latency, OneThatIsStoppedByASignalIsTimed) {
  runtime r({.procs = 1, .time_slice = 2ms});
  r.run([] {
    std::atomic<bool> over{false};
    wait_group hogs;
    for (int i = 0; i < 2; ++i) {
      hogs.go([&] {
        while (!over.load(std::memory_order_relaxed)) {
        }
      });
    }
    this_goroutine::sleep_for(50ms);
    over = true;
    hogs.wait();
  });
  const meters now = read_meters(r);
  if (now.all.preemptions == 0) GTEST_SKIP() << "nobody was stopped";
  EXPECT_GE(timed_from(now, 500'000), 1u);
}

}  // namespace
}  // namespace magpie::rt
