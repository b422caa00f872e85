// The scheduler under load, with 1 to 64 Ps. Short by default; MAGPIE_STRESS=N makes every test N
// times as long. A wake-up that is lost shows as a test that does not end.

#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

#include "base/random.h"
#include "os/clock.h"
#include "support/baton.h"
#include "support/stress.h"

namespace magpie {
namespace {

using rt::random_source;
using rt::testing::baton;
using rt::testing::rounds;

void spin_for(rt::os::nanos time) {
  for (const rt::os::nanos until = rt::os::now() + time; rt::os::now() < until;) rt::cpu_relax();
}

class SchedStress : public rt::testing::with_ps {
 protected:
  // At the end of a test: nothing is left, and everything that began has ended.
  static void expect_all_over(const runtime& r, std::uint64_t spawned) {
    while (r.read_stats().goroutines != 0) std::this_thread::yield();
    const stats s = r.read_stats();
    EXPECT_EQ(s.spawned, spawned);
    EXPECT_EQ(s.finished, spawned);
    EXPECT_EQ(s.global_queue_length, 0u);
    for (const std::size_t length : s.local_queue_lengths) EXPECT_EQ(length, 0u);
  }
};
INSTANTIATE_TEST_SUITE_P(Ps, SchedStress, ::testing::Values(1, 2, 4, 16, 64));

TEST_P(SchedStress, SpawnsFromEightPlainThreads) {
  constexpr int k_threads = 8;
  const int each = rounds(20'000);
  runtime r({.procs = ps()});
  std::atomic<std::uint64_t> sum{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < k_threads; ++t) {
    threads.emplace_back([&, t] {
      random_source random(static_cast<std::uint64_t>(t) + 1);
      for (int i = 1; i <= each; ++i) {
        r.go(
            [&sum, i] { sum.fetch_add(static_cast<std::uint64_t>(i), std::memory_order_relaxed); });
        if (random.below(1000) == 0) spin_for(random.below(100'000));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto n = static_cast<std::uint64_t>(each);
  expect_all_over(r, n * k_threads);
  EXPECT_EQ(sum, n * (n + 1) / 2 * k_threads);
}

// Joins from plain threads, each of which sleeps and is woken.
TEST_P(SchedStress, RunsFromEightPlainThreads) {
  constexpr int k_threads = 8;
  const int each = rounds(1'000);
  runtime r({.procs = ps()});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < k_threads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < each; ++i) {
        const int got = r.run([=] { return t + i; });
        if (got != t + i) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  expect_all_over(r, static_cast<std::uint64_t>(each) * k_threads);
}

std::uint64_t sum_of_tree(std::uint64_t number, std::uint64_t size, int branches) {
  if (size == 1) return number;
  const std::uint64_t part = size / static_cast<std::uint64_t>(branches);
  std::vector<future<std::uint64_t>> children;
  for (int i = 0; i < branches; ++i) {
    children.push_back(
        async(sum_of_tree, number + static_cast<std::uint64_t>(i) * part, part, branches));
  }
  std::uint64_t sum = 0;
  for (auto& child : children) sum += child.get();
  return sum;
}

TEST_P(SchedStress, TreesThatJoin) {
  runtime r({.procs = ps()});
  std::uint64_t spawned = 0;
  for (int i = 0; i < rounds(10); ++i) {
    ASSERT_EQ(r.run([] { return sum_of_tree(0, 10'000, 10); }), 9'999u * 10'000 / 2);
    ASSERT_EQ(r.run([] { return sum_of_tree(0, 8'192, 2); }), 8'191u * 8'192 / 2);
    spawned += 1 + 10 + 100 + 1'000 + 10'000 + 16'383;
  }
  expect_all_over(r, spawned);
}

// The same, joined in another order than they were spawned in, with yields in between: what runs
// on the stack of whom changes all the time.
std::uint64_t untidy_tree(std::uint64_t seed, int depth) {
  random_source random(seed);
  if (depth == 0) {
    if (random.below(4) == 0) this_goroutine::yield();
    return 1;
  }
  future<std::uint64_t> children[3];
  for (auto& child : children) {
    const std::uint64_t its_seed = random.next();
    child = async([=] { return untidy_tree(its_seed, depth - 1); });
    if (random.below(8) == 0) this_goroutine::yield();
  }
  std::uint64_t sum = 0;
  const std::uint32_t first = random.below(3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    sum += children[(first + i * (1 + first % 2)) % 3].get();
    if (random.below(8) == 0) this_goroutine::yield();
  }
  return sum;
}

TEST_P(SchedStress, UntidyTrees) {
  runtime r({.procs = ps()});
  for (int i = 0; i < rounds(10); ++i) {
    const auto seed = static_cast<std::uint64_t>(i) + 1;
    ASSERT_EQ(r.run([=] { return untidy_tree(seed, 8); }), 6'561u);
  }
}

// Who asks and who ends meet in every way: the one comes first or the other, or both at once; the
// result is wanted, wanted only for a moment, or not at all. Whoever is the last one cleans up.
TEST_P(SchedStress, FuturesDroppedAndTaken) {
  struct counted {
    explicit counted(std::atomic<int>& n) : alive(&n) { ++n; }
    counted(counted&& other) noexcept : alive(other.alive) { ++*alive; }
    ~counted() { --*alive; }
    std::atomic<int>* alive;
  };
  std::atomic<int> alive{0};
  {
    runtime r({.procs = ps()});
    const auto ask = [&alive](std::uint64_t seed, int times) {
      random_source random(seed);
      for (int i = 0; i < times; ++i) {
        const rt::os::nanos length = random.below(2'000);
        const bool fails = random.below(8) == 0;
        future<counted> f = async([&alive, length, fails] {
          spin_for(length);
          if (fails) throw counted(alive);
          return counted(alive);
        });
        spin_for(random.below(4'000));
        switch (random.below(4)) {
          case 0:
            break;
          case 1:
            (void)f.wait_for(std::chrono::nanoseconds(random.below(3'000)));
            break;
          case 2:
            f = {};
            break;
          default:
            try {
              (void)f.get();
              EXPECT_FALSE(fails);
            } catch (const counted&) {
              EXPECT_TRUE(fails);
            }
        }
      }
    };
    const int times = rounds(5'000);
    std::vector<std::thread> threads;
    for (std::uint64_t t = 1; t <= 2; ++t) {
      threads.emplace_back([&r, ask, t, times] { r.run([=] { ask(t, times); }); });
      threads.emplace_back([&r, ask, t, times] {
        for (int i = 0; i < times / 100; ++i) r.run([=] { ask(t * 1000 + i, 100); });
      });
    }
    for (auto& thread : threads) thread.join();
    ask(99, times / 4);  // of the default runtime, by a plain thread
    while (goroutine_count() != 0) std::this_thread::yield();
  }
  EXPECT_EQ(alive, 0);
}

// Nobody waits for anybody: every goroutine spawns two until there are enough.
TEST_P(SchedStress, TreesThatDoNotJoin) {
  struct splits {
    std::atomic<std::uint64_t>& leaves;
    int depth;
    void operator()() const {
      if (depth == 0) {
        leaves.fetch_add(1, std::memory_order_relaxed);
        return;
      }
      go(splits{leaves, depth - 1});
      go(splits{leaves, depth - 1});
    }
  };
  runtime r({.procs = ps()});
  const int times = rounds(10);
  std::atomic<std::uint64_t> leaves{0};
  for (int i = 0; i < times; ++i) r.go(splits{leaves, 14});
  const auto n = static_cast<std::uint64_t>(times);
  expect_all_over(r, n * 32'767);
  EXPECT_EQ(leaves, n * 16'384);
}

TEST_P(SchedStress, YieldStorm) {
  const int goroutines = 100, yields = rounds(2'000);
  runtime r({.procs = ps()});
  std::atomic<std::uint64_t> turns{0};
  r.run([&] {
    std::vector<future<void>> all;
    for (int i = 0; i < goroutines; ++i) {
      all.push_back(async([&] {
        for (int n = 0; n < yields; ++n) this_goroutine::yield();
        turns.fetch_add(static_cast<std::uint64_t>(yields), std::memory_order_relaxed);
      }));
    }
    for (auto& one : all) one.get();
  });
  EXPECT_EQ(turns, static_cast<std::uint64_t>(goroutines) * static_cast<std::uint64_t>(yields));
  expect_all_over(r, static_cast<std::uint64_t>(goroutines) + 1);
}

TEST_P(SchedStress, NumberOfPsChangesContinually) {
  constexpr int k_goroutines = 64;
  const int turns = rounds(200);
  runtime r({.procs = ps()});
  std::atomic<int> left{k_goroutines};
  std::atomic<std::uint64_t> done{0};
  for (int i = 0; i < k_goroutines; ++i) {
    r.go([&, i] {
      random_source random(static_cast<std::uint64_t>(i) + 1);
      for (int n = 0; n < turns; ++n) {
        switch (random.below(4)) {
          case 0:
            this_goroutine::yield();
            break;
          case 1:
            async([&] { done.fetch_add(1, std::memory_order_relaxed); }).get();
            break;
          case 2:
            go([&] { done.fetch_add(1, std::memory_order_relaxed); });
            break;
          default:
            blocking([&] { spin_for(random.below(20'000)); });
        }
      }
      --left;
    });
  }
  random_source random(7);
  while (left != 0) {
    r.set_procs(static_cast<int>(1 + random.below(static_cast<std::uint32_t>(ps()))));
    spin_for(random.below(200'000));
  }
  while (r.read_stats().goroutines != 0) std::this_thread::yield();
  const stats s = r.read_stats();
  EXPECT_EQ(s.spawned, s.finished);
  EXPECT_EQ(done, s.spawned - k_goroutines);
}

TEST_P(SchedStress, RuntimesCreatedAndDestroyed) {
  for (int i = 0; i < rounds(100); ++i) {
    std::atomic<int> count{0};
    {
      runtime r({.procs = ps()});
      random_source random(static_cast<std::uint64_t>(i) + 1);
      const std::uint32_t goroutines = random.below(20);
      for (std::uint32_t n = 0; n < goroutines; ++n) {
        r.go([&] {
          this_goroutine::yield();
          ++count;
          go([&] { ++count; });
        });
      }
      if (random.below(2) == 0) {
        EXPECT_EQ(r.run([] { return 1; }), 1);
      }
      count -= static_cast<int>(2 * goroutines);
    }
    ASSERT_EQ(count, 0);
  }
}

// Two goroutines that wake each other: a million times through batons, fewer through futures.
TEST_P(SchedStress, PingPong) {
  const int strokes = rounds(500'000);
  runtime r({.procs = ps()});
  int count = 0;  // not atomic: the baton is what orders the accesses
  r.run([&] {
    baton ping, pong;
    future<void> other = async([&] {
      for (int i = 0; i < strokes; ++i) {
        ping.take();
        ++count;
        pong.give();
      }
    });
    for (int i = 0; i < strokes; ++i) {
      ping.give();
      pong.take();
      ++count;
    }
    other.get();
  });
  EXPECT_EQ(count, 2 * strokes);
}

// Many pairs at once: their partners are on other Ps, awake and asleep.
TEST_P(SchedStress, ManyPingPongs) {
  constexpr int k_pairs = 16;
  const int strokes = rounds(10'000);
  struct pair {
    baton ping, pong;
    int count = 0;
  };
  runtime r({.procs = ps()});
  std::vector<pair> pairs(k_pairs);
  r.run([&] {
    std::vector<future<void>> all;
    for (pair& p : pairs) {
      all.push_back(async([&] {
        for (int i = 0; i < strokes; ++i) {
          p.ping.take();
          ++p.count;
          p.pong.give();
        }
      }));
      all.push_back(async([&] {
        for (int i = 0; i < strokes; ++i) {
          p.ping.give();
          p.pong.take();
          ++p.count;
        }
      }));
    }
    for (auto& one : all) one.get();
  });
  for (const pair& p : pairs) EXPECT_EQ(p.count, 2 * strokes);
}

// A ring of goroutines passes one baton on; between stations somebody computes or yields.
TEST_P(SchedStress, BatonInARing) {
  constexpr std::size_t k_stations = 100;
  const int laps = rounds(200);
  runtime r({.procs = ps()});
  std::vector<baton> batons(k_stations);
  std::uint64_t passed = 0;
  r.run([&] {
    std::vector<future<void>> all;
    for (std::size_t station = 0; station < k_stations; ++station) {
      all.push_back(async([&, station] {
        random_source random(station + 1);
        for (int lap = 0; lap < laps; ++lap) {
          batons[station].take();
          ++passed;
          const std::uint32_t what = random.below(16);
          if (what == 0) this_goroutine::yield();
          if (what == 1) spin_for(2'000);
          if (station + 1 < k_stations || lap + 1 < laps) {
            batons[(station + 1) % k_stations].give();
          }
        }
      }));
    }
    batons[0].give();
    for (auto& one : all) one.get();
  });
  EXPECT_EQ(passed, k_stations * static_cast<std::uint64_t>(laps));
}

TEST_P(SchedStress, ForksAndJoinsInTurn) {
  const int times = rounds(100'000);
  runtime r({.procs = ps()});
  r.run([&] {
    for (int i = 0; i < times; ++i) {
      ASSERT_EQ(async([i] { return i; }).get(), i);
    }
  });
  expect_all_over(r, static_cast<std::uint64_t>(times) + 1);
}

// A plain thread and a goroutine wake each other: every stroke crosses the border.
TEST_P(SchedStress, PingPongWithAPlainThread) {
  const int strokes = rounds(5'000);
  runtime r({.procs = ps()});
  baton ping, pong;
  int count = 0;
  r.go([&] {
    for (int i = 0; i < strokes; ++i) {
      ping.take();
      ++count;
      pong.give();
    }
  });
  for (int i = 0; i < strokes; ++i) {
    ping.give();
    pong.take();
    ++count;
  }
  expect_all_over(r, 1);
  EXPECT_EQ(count, 2 * strokes);
}

// One goroutine at a time, after pauses around the time in which a thread falls asleep.
TEST_P(SchedStress, BurstsOfOneWithGaps) {
  runtime r({.procs = ps()});
  random_source random(3);
  const int bursts = rounds(3'000);
  for (int i = 0; i < bursts; ++i) {
    baton ran;
    r.go([&] { ran.give(); });
    ran.take();
    spin_for(random.below(200'000));
  }
  expect_all_over(r, static_cast<std::uint64_t>(bursts));
}

// The same from inside: a goroutine readies one other, then keeps its P for a while. The other
// must be run elsewhere, when there is more than one P, or afterwards.
TEST_P(SchedStress, BurstsOfOneBehindABusyGoroutine) {
  runtime r({.procs = ps()});
  random_source random(5);
  const int bursts = rounds(3'000);
  r.run([&] {
    for (int i = 0; i < bursts; ++i) {
      std::atomic<bool> ran{false};
      future<void> other = async([&] { ran = true; });
      if (ps() > 1 && random.below(4) == 0) {
        while (!ran) std::this_thread::yield();
      } else {
        spin_for(random.below(50'000));
      }
      other.get();
      ASSERT_TRUE(ran);
    }
  });
}

TEST_P(SchedStress, BlockingCallsShortAndLong) {
  constexpr int k_goroutines = 32;
  const int calls = rounds(200);
  runtime r({.procs = ps()});
  std::atomic<std::uint64_t> done{0};
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> others{0};
  r.go([&] {
    while (!stop) {
      ++others;
      this_goroutine::yield();
    }
  });
  r.run([&] {
    std::vector<future<void>> all;
    for (int i = 0; i < k_goroutines; ++i) {
      all.push_back(async([&, i] {
        random_source random(static_cast<std::uint64_t>(i) + 1);
        for (int n = 0; n < calls; ++n) {
          const std::uint32_t kind = random.below(100);
          if (kind == 0) {
            blocking([] {
              const timespec pause{0, 1'000'000};
              nanosleep(&pause, nullptr);
            });
          } else if (kind < 10) {
            blocking(hand_off_now, [&] { spin_for(random.below(10'000)); });
          } else if (kind < 20) {
            blocking([&] { spin_for(random.below(40'000)); });
          } else {
            blocking([] {});
          }
          done.fetch_add(1, std::memory_order_relaxed);
        }
      }));
    }
    for (auto& one : all) one.get();
  });
  stop = true;
  EXPECT_EQ(done, static_cast<std::uint64_t>(k_goroutines) * static_cast<std::uint64_t>(calls));
  EXPECT_GT(others, 0u);
  expect_all_over(r, k_goroutines + 2);
}

TEST_P(SchedStress, ThreadLocksComeAndGo) {
  const int goroutines = rounds(300);
  runtime r({.procs = ps()});
  std::atomic<int> done{0};
  r.run([&] {
    std::vector<future<void>> all;
    for (int i = 0; i < goroutines; ++i) {
      all.push_back(async([&, i] {
        for (int n = 0; n < 3; ++n) {
          if (i % 3 != 0) {
            this_goroutine::yield();
            continue;
          }
          const thread_lock lock;
          this_goroutine::yield();
          async([] {}).get();
        }
        ++done;
      }));
    }
    for (auto& one : all) one.get();
  });
  EXPECT_EQ(done, goroutines);
}

// The thread of a locked goroutine gives its P away while it sleeps, and the P finds nothing to do:
// somebody else has to watch the timer. A goroutine that sleeps beside it would hide that nobody
// does.
TEST_P(SchedStress, ALockedGoroutineSleeps) {
  const int sleeps = rounds(300);
  runtime r({.procs = ps()});
  int done = 0;
  r.run([&] {
    random_source random(5);
    const thread_lock lock;
    for (; done < sleeps; ++done) {
      this_goroutine::sleep_for(std::chrono::microseconds(random.below(200)));
      if (random.below(4) == 0) async([] { this_goroutine::yield(); }).get();
    }
  });
  EXPECT_EQ(done, sleeps);
}

// Everything at once, for as long as it takes.
TEST_P(SchedStress, AllOfItAtOnce) {
  const int each = rounds(150);
  runtime r({.procs = ps()});
  std::atomic<int> left{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      random_source random(static_cast<std::uint64_t>(t) + 11);
      for (int i = 0; i < each; ++i) {
        ++left;
        const std::uint64_t seed = random.next();
        r.go([&, seed] {
          random_source mine(seed);
          for (int n = 0; n < 20; ++n) {
            switch (mine.below(6)) {
              case 0:
                this_goroutine::yield();
                break;
              case 1:
                EXPECT_EQ(untidy_tree(mine.next(), 3), 27u);
                break;
              case 2:
                blocking([&] { spin_for(mine.below(30'000)); });
                break;
              case 3: {
                baton b;
                go([&] { b.give(); });
                b.take();
                break;
              }
              case 4:
                this_goroutine::checkpoint();
                spin_for(mine.below(5'000));
                break;
              default:
                EXPECT_THROW(async([] { throw 1; }).get(), int);
            }
          }
          --left;
        });
        if (random.below(10) == 0) r.set_procs(1 + static_cast<int>(random.below(64)));
        if (random.below(4) == 0) spin_for(random.below(100'000));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (left != 0) std::this_thread::yield();
  while (r.read_stats().goroutines != 0) std::this_thread::yield();
}

// The tests above whose subject is waking, without the monitor: nothing may need it.
class SchedStressWithoutMonitor : public ::testing::TestWithParam<std::string> {};

TEST_P(SchedStressWithoutMonitor, Ends) {
  rt::testing::expect_to_end_without_monitor("Ps/SchedStress." + GetParam() + "/*");
}
INSTANTIATE_TEST_SUITE_P(Of, SchedStressWithoutMonitor,
                         ::testing::Values("PingPong", "ManyPingPongs", "BatonInARing",
                                           "PingPongWithAPlainThread", "BurstsOfOneWithGaps",
                                           "BurstsOfOneBehindABusyGoroutine",
                                           "SpawnsFromEightPlainThreads", "UntidyTrees",
                                           "YieldStorm", "FuturesDroppedAndTaken",
                                           "ThreadLocksComeAndGo", "ALockedGoroutineSleeps"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace magpie
