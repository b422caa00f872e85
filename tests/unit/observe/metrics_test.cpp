#include <magpie/metrics.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

#include "support/prometheus.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;
using rt::testing::parse_prometheus;
using rt::testing::prometheus_metrics;

std::map<std::string, double> read_map() {
  std::map<std::string, double> all;
  for (const metrics::sample& one : metrics::read()) {
    EXPECT_TRUE(all.emplace(one.name, one.value).second) << one.name << " is there twice";
  }
  return all;
}

constexpr const char* k_all = "/sched/goroutines:goroutines";
constexpr const char* k_running = "/sched/goroutines/running:goroutines";
constexpr const char* k_runnable = "/sched/goroutines/runnable:goroutines";
constexpr const char* k_waiting = "/sched/goroutines/waiting:goroutines";
constexpr const char* k_in_calls = "/sched/goroutines/not-in-go:goroutines";

// Until the numbers are as they must become; a hang otherwise.
template <class Condition>
void wait_until(Condition is_true) {
  while (!is_true()) this_goroutine::sleep_for(1ms);
}

TEST(Metrics, ParkedGoroutinesAreCountedOneByOne) {
  runtime r({.procs = 2});
  r.run([] {
    constexpr int k_count = 137;
    event done;
    wait_group all;
    for (int i = 0; i < k_count; ++i) all.go([&] { done.wait(); });
    wait_until([] { return read_map()[k_waiting] == k_count; });
    const auto now = read_map();
    EXPECT_EQ(now.at(k_all), k_count + 1);
    EXPECT_EQ(now.at(k_running), 1);
    EXPECT_EQ(now.at(k_runnable), 0);
    EXPECT_EQ(now.at(k_in_calls), 0);
    done.set();
    all.wait();
    wait_until([] { return read_map()[k_all] == 1; });
    EXPECT_EQ(read_map()[k_waiting], 0);
  });
}

TEST(Metrics, RunnableOnesAreThoseInTheQueues) {
  runtime r({.procs = 1, .preempt = false});
  r.run([] {
    constexpr int k_count = 600;  // more than a ring holds
    for (int i = 0; i < k_count; ++i) go([] {});
    const auto now = read_map();
    EXPECT_EQ(now.at(k_runnable), k_count);
    EXPECT_EQ(now.at(k_running), 1);
    EXPECT_EQ(now.at(k_waiting), 0);
    EXPECT_GE(now.at("/magpie/queues/global:goroutines"), 1);
    EXPECT_GE(now.at("/magpie/procs/0/queued:goroutines"), 1);
  });
}

TEST(Metrics, BlockingCallsAreOutsideOfGo) {
  runtime r({.procs = 2});
  r.run([] {
    std::atomic<int> inside{0};
    std::atomic<bool> over{false};
    wait_group callers;
    for (int i = 0; i < 3; ++i) {
      callers.go([&] {
        blocking([&] {
          ++inside;
          while (!over) std::this_thread::sleep_for(1ms);
        });
      });
    }
    wait_until([&] { return inside == 3; });
    EXPECT_EQ(read_map()[k_in_calls], 3);
    over = true;
    callers.wait();
    EXPECT_EQ(read_map()[k_in_calls], 0);
    EXPECT_EQ(read_map()["/magpie/calls:events"], 3);
  });
}

// The call of a thread that sleeps and does not say so.
TEST(Metrics, StalledGoroutinesAreOutsideOfGo) {
  runtime r({.procs = 1});
  r.run([] {
    std::atomic<bool> over{false};
    wait_group sleeper;
    sleeper.go([&] {
      while (!over) std::this_thread::sleep_for(50ms);
    });
    wait_until([] { return read_map()["/magpie/stalls:events"] >= 1; });
    over = true;
    sleeper.wait();
    EXPECT_GE(read_map()["/magpie/retakes:events"], 1);
  });
}

TEST(Metrics, StatesAddUpWhileEverythingMoves) {
  runtime r({.procs = 4});
  r.run([] {
    std::atomic<bool> over{false};
    wait_group movers;
    channel<int> to(0);
    for (int i = 0; i < 8; ++i) {
      movers.go([&] {
        while (!over) {
          async([] { this_goroutine::yield(); }).get();
          int got = 0;
          to.try_receive(got);
          to.try_send(i);
        }
      });
    }
    for (int i = 0; i < 300; ++i) {
      const auto now = read_map();
      EXPECT_EQ(now.at(k_running) + now.at(k_runnable) + now.at(k_waiting) + now.at(k_in_calls),
                now.at(k_all));
      EXPECT_LE(now.at(k_running), 4);
      this_goroutine::yield();
    }
    over = true;
    movers.wait();
  });
}

TEST(Metrics, CountersCountWhatHappened) {
  runtime r({.procs = 3});
  r.run([] {
    const auto before = read_map();
    constexpr int k_count = 100;
    wait_group all;
    for (int i = 0; i < k_count; ++i) all.go([] { this_goroutine::sleep_for(1ms); });
    all.wait();
    const auto after = read_map();
    const auto grown = [&](const char* name) { return after.at(name) - before.at(name); };
    EXPECT_EQ(grown("/sched/goroutines-created:goroutines"), k_count);
    EXPECT_EQ(grown("/magpie/timers/fired:events"), k_count);
    EXPECT_GE(grown("/magpie/parks:events"), k_count);
    EXPECT_GE(grown("/magpie/turns:events"), 2 * k_count);
    EXPECT_GE(grown("/sched/latencies:seconds.count"), 1);
    EXPECT_GT(grown("/sched/latencies:seconds.sum"), 0);
    EXPECT_GT(grown("/magpie/uptime:seconds"), 0);
    EXPECT_EQ(after.at("/sched/gomaxprocs:threads"), 3);
    EXPECT_GE(after.at("/sched/threads/total:threads"), 1);
    EXPECT_GE(after.at("/magpie/stacks/in-use:stacks"), 1);
    EXPECT_GT(after.at("/magpie/stacks/reserved:bytes"), 0);
  });
}

TEST(Metrics, PendingTimersAndWaitersForDescriptorsAreCounted) {
  runtime r({.procs = 2});
  r.run([] {
    timer later(1h), later_still(2h);
    EXPECT_EQ(read_map()["/magpie/timers:timers"], 2);
    auto listener = net::tcp_listener::listen("127.0.0.1:0");
    auto accepted = async([&] {
      std::error_code gone;
      (void)listener.accept(gone);
    });
    wait_until([] { return read_map()["/magpie/polls/waiters:goroutines"] == 1; });
    listener.close();
    accepted.get();
    EXPECT_EQ(read_map()["/magpie/polls/waiters:goroutines"], 0);
  });
}

constexpr const char* k_mutex_wait = "/sync/mutex/wait/total:seconds";

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

// Two clocks, of which one was compared with the other for a millisecond.
constexpr double k_same_rate = 0.99;

// `lock` is held by the caller, who waits for so long with it while another goroutine wants it.
template <class Acquire, class Release>
void expect_wait_is_counted(Acquire acquire, Release release) {
  constexpr auto k_held = 30ms;
  const double before = read_map()[k_mutex_wait];
  std::atomic<double> longest{0};
  wait_group other;
  other.go([&] {
    const auto begin = std::chrono::steady_clock::now();
    acquire();
    longest = seconds(std::chrono::steady_clock::now() - begin);
  });
  wait_until([] { return read_map()[k_waiting] == 1; });
  this_goroutine::sleep_for(k_held);
  release();
  other.wait();
  const double waited = read_map()[k_mutex_wait] - before;
  EXPECT_GE(waited, seconds(k_held) * k_same_rate);
  EXPECT_LE(waited * k_same_rate, longest);
}

TEST(Metrics, TimeInTheQueueOfAMutexIsCounted) {
  runtime r({.procs = 2});
  r.run([] {
    mutex m;
    m.lock();
    expect_wait_is_counted([&] { m.lock(); }, [&] { m.unlock(); });
    expect_wait_is_counted([&] { EXPECT_TRUE(m.try_lock_for(1h)); }, [&] { m.unlock(); });
    m.unlock();
  });
}

TEST(Metrics, TimeInTheQueuesOfASharedMutexIsCounted) {
  runtime r({.procs = 2});
  r.run([] {
    shared_mutex m;
    m.lock();
    expect_wait_is_counted([&] { m.lock(); }, [&] { m.unlock(); });
    expect_wait_is_counted([&] { m.lock_shared(); }, [&] { m.unlock(); });
    expect_wait_is_counted([&] { m.lock(); }, [&] { m.unlock_shared(); });
    expect_wait_is_counted([&] { EXPECT_TRUE(m.try_lock_shared_for(1h)); }, [&] { m.unlock(); });
    m.unlock_shared();
  });
}

TEST(Metrics, WaitsForAMutexThatEndInVainAreCounted) {
  runtime r({.procs = 2});
  r.run([] {
    mutex m;
    shared_mutex s;
    m.lock();
    s.lock();
    const auto begin = std::chrono::steady_clock::now();
    wait_group all;
    all.go([&] { EXPECT_FALSE(m.try_lock_for(10ms)); });
    all.go([&] { EXPECT_FALSE(s.try_lock_for(10ms)); });
    all.go([&] { EXPECT_FALSE(s.try_lock_shared_for(10ms)); });
    all.wait();
    const double elapsed = seconds(std::chrono::steady_clock::now() - begin);
    const double waited = read_map()[k_mutex_wait];
    EXPECT_GT(waited, 0);
    EXPECT_LE(waited * k_same_rate, 3 * elapsed);
    m.unlock();
    s.unlock();
  });
}

// Whoever wakes it: also a thread that is not the runtime's.
TEST(Metrics, WaitsOfGoroutinesForPlainThreadsAreCounted) {
  runtime r({.procs = 2});
  r.run([] {
    mutex m;
    std::atomic<int> step{0};
    std::thread holder([&] {
      m.lock();
      step = 1;
      while (step != 2) std::this_thread::sleep_for(1ms);
      m.unlock();
    });
    wait_until([&] { return step == 1; });
    expect_wait_is_counted([&] { m.lock(); }, [&] { step = 2; });
    holder.join();
    m.unlock();
  });
}

TEST(Metrics, OtherWaitsAreNotThoseForAMutex) {
  runtime r({.procs = 2});
  r.run([] {
    mutex m;
    m.lock();
    std::thread outside([&] {  // nor those of plain threads
      m.lock();
      m.unlock();
    });
    channel<int> never_sent(0);
    int got = 0;
    EXPECT_EQ(never_sent.receive_for(got, 5ms), channel_result::would_block);
    m.unlock();
    outside.join();
    EXPECT_EQ(read_map()[k_mutex_wait], 0);
  });
}

constexpr const char* k_user = "/cpu/classes/user:cpu-seconds";
constexpr const char* k_searching = "/cpu/classes/magpie/searching:cpu-seconds";
constexpr const char* k_idle = "/cpu/classes/idle:cpu-seconds";
constexpr const char* k_total = "/cpu/classes/total:cpu-seconds";

TEST(Metrics, TimeOfThePsAddsUpAndOnlyGrows) {
  runtime r({.procs = 4});
  r.run([] {
    std::atomic<bool> over{false};
    wait_group movers;
    for (int i = 0; i < 3; ++i) {
      movers.go([&] {
        while (!over) {
          async([] { this_goroutine::yield(); }).get();
          this_goroutine::sleep_for(20us);
          blocking([] {});
        }
      });
    }
    auto before = read_map();
    for (int i = 0; i < 300; ++i) {
      set_procs(1 + i % 4);
      auto now = read_map();
      EXPECT_NEAR(now.at(k_user) + now.at(k_searching) + now.at(k_idle), now.at(k_total), 1e-8);
      for (const char* const name : {k_user, k_searching, k_idle, k_total}) {
        EXPECT_GE(now.at(name), before.at(name)) << name;
      }
      before = std::move(now);
      this_goroutine::yield();
    }
    over = true;
    movers.wait();
  });
}

TEST(Metrics, EveryPHasTheTimeThatPasses) {
  constexpr int k_procs = 3;
  runtime r({.procs = k_procs});
  r.run([] {
    using clock = std::chrono::steady_clock;
    const auto outer_begin = clock::now();
    const double before = read_map()[k_total];
    const auto inner_begin = clock::now();
    this_goroutine::sleep_for(20ms);
    const auto inner_end = clock::now();
    const double passed = read_map()[k_total] - before;
    const auto outer_end = clock::now();
    EXPECT_GE(passed, k_procs * seconds(inner_end - inner_begin) * k_same_rate);
    EXPECT_LE(passed * k_same_rate, k_procs * seconds(outer_end - outer_begin));
  });
}

TEST(Metrics, TheOnlyPIsIdleWhileAllSleepAndNotWhileOneComputes) {
  runtime r({.procs = 1, .preempt = false});
  r.run([] {
    const auto before = read_map();
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < 20ms) {
    }
    const auto computed = read_map();
    const auto spent_on = [&](const char* use) { return computed.at(use) - before.at(use); };
    EXPECT_GE(spent_on(k_total), seconds(20ms) * k_same_rate);
    EXPECT_LT(spent_on(k_idle), spent_on(k_user) / 10);
    this_goroutine::sleep_for(20ms);
    EXPECT_GT(read_map().at(k_idle), computed.at(k_idle));
  });
}

TEST(Metrics, AreThoseOfTheCallersRuntime) {
  runtime r({.procs = 3});
  EXPECT_EQ(r.run([] { return read_map()["/sched/gomaxprocs:threads"]; }), 3);
  EXPECT_EQ(read_map()["/sched/gomaxprocs:threads"], procs());  // the default one's
}

TEST(Metrics, BucketsOfTheHistogramAreCumulative) {
  runtime r({.procs = 2});
  r.run([] {
    for (int i = 0; i < 100; ++i) async([] {}).get();
    double last = 0, buckets = 0, count = -1;
    for (const metrics::sample& one : metrics::read()) {
      if (one.name.starts_with("/sched/latencies:seconds{le=")) {
        EXPECT_GE(one.value, last) << one.name;
        last = one.value;
        ++buckets;
      }
      if (one.name == "/sched/latencies:seconds.count") count = one.value;
    }
    EXPECT_GE(buckets, 20);
    EXPECT_EQ(last, count);
  });
}

TEST(Prometheus, TextIsWellFormed) {
  runtime r({.procs = 2});
  const std::string text = r.run([] {
    for (int i = 0; i < 100; ++i) async([] {}).get();
    return metrics::prometheus();
  });
  prometheus_metrics all;
  ASSERT_NO_THROW(all = parse_prometheus(text)) << text;
  EXPECT_EQ(all.types.at("go_goroutines"), "gauge");
  EXPECT_EQ(all.types.at("go_threads"), "gauge");
  EXPECT_EQ(all.types.at("go_sched_latencies_seconds"), "histogram");
  EXPECT_EQ(all.types.at("magpie_steals_total"), "counter");
  EXPECT_EQ(all.types.at("go_sync_mutex_wait_total_seconds_total"), "counter");
  EXPECT_EQ(all.types.at("go_cpu_classes_idle_cpu_seconds_total"), "counter");
  EXPECT_GT(all.values.at("go_cpu_classes_total_cpu_seconds_total"), 0);
  EXPECT_EQ(all.values.at("go_sched_gomaxprocs_threads"), 2);
  EXPECT_EQ(all.values.at("go_goroutines"), 1);
  EXPECT_GE(all.values.at("go_sched_latencies_seconds_count"), 1);
  EXPECT_TRUE(all.values.contains(R"(magpie_proc_queue_length{proc="1"})"));
  EXPECT_TRUE(all.values.contains(R"(magpie_stacks{state="in_use"})"));
}

TEST(Prometheus, HasAsManyAsRead) {
  runtime r({.procs = 2});
  r.run([] {
    EXPECT_EQ(parse_prometheus(metrics::prometheus()).values.size(), metrics::read().size());
  });
}

// The checker first: it must refuse what Prometheus would.
TEST(PrometheusChecker, RefusesWhatIsNotWellFormed) {
  const char* const k_wrong[] = {
      "a 1\n",                                                   // no type
      "# HELP a b\n# TYPE a gauge\na 1",                         // no end of line
      "# HELP a b\n# TYPE a gauge\na  1\n",                      // two blanks
      "# HELP a b\n# TYPE a gauge\na 1\na 2\n",                  // twice
      "# HELP a b\n# TYPE a gauge\na x\n",                       // no number
      "# HELP a b\n# TYPE a gauge\n\na 1\n",                     // an empty line
      "# HELP a b\n# TYPE a thing\na 1\n",                       // no such type
      "# HELP a b\n# TYPE a counter\na 1\n",                     // a counter ends in _total
      "# HELP a_total b\n# TYPE a_total counter\na_total -1\n",  // and is never negative
      "# HELP 1a b\n# TYPE 1a gauge\n1a 1\n",                    // no name
      "# HELP a b\n# TYPE a gauge\na{x=y} 1\n",                  // no quotes
      "# HELP a b\n# TYPE a gauge\n",                            // no sample
      "# HELP a b\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_sum 1\na_count 1\n",  // no +Inf
      "# HELP a b\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\n"
      "a_sum 1\na_count 1\n",  // not cumulative
      "# HELP a b\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_bucket{le=\"+Inf\"} 2\n"
      "a_sum 1\na_count 1\n",  // the count is not that of +Inf
  };
  for (const char* const text : k_wrong)
    EXPECT_THROW(parse_prometheus(text), std::runtime_error) << text;
  EXPECT_NO_THROW(
      parse_prometheus("# HELP a b c\n# TYPE a gauge\na{x=\"y\"} 1\na{x=\"z\"} 1e-05\n"));
}

}  // namespace
}  // namespace magpie
