// A runtime as a whole: started, resized under load, asked, ended.
#include <magpie/runtime.h>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

#include "fiber/sanitizer.h"
#include "sched/gate.h"
#include "support/asleep.h"
#include "support/baton.h"
#include "support/process_counts.h"

namespace magpie {
namespace {

using rt::testing::baton;

std::uint64_t sum(const std::vector<std::atomic<int>>& values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0},
                         [](std::uint64_t s, const auto& v) { return s + std::uint64_t(v); });
}

void wait_until_nobody_lives(const runtime& r) {
  while (r.read_stats().goroutines != 0) std::this_thread::yield();
}

// `count` goroutines each wait, without yielding, until all of them run. They can only end when
// that many Ps run at once.
void expect_parallel(runtime& r, int count) {
  std::atomic<int> running{0};
  r.run([&] {
    std::vector<future<void>> all;
    for (int i = 0; i < count; ++i) {
      all.push_back(async([&] {
        ++running;
        while (running < count) std::this_thread::yield();
      }));
    }
    for (auto& one : all) one.get();
  });
}

TEST(Runtime, HasAsManyPsAsAskedFor) {
  for (const int count : {1, 2, 3, 64}) {
    runtime r({.procs = count});
    EXPECT_EQ(r.procs(), count);
    EXPECT_EQ(r.run([] { return procs(); }), count);
    EXPECT_EQ(r.read_stats().procs, count);
  }
}

TEST(Runtime, RefusesSettingsThatCannotBe) {
  EXPECT_THROW(runtime({.procs = -1}), misuse);
  EXPECT_THROW(runtime({.procs = 1025}), misuse);
  EXPECT_THROW(runtime({.max_threads = 0}), misuse);
  EXPECT_THROW(runtime({.stack_size = ~std::size_t{0}}), misuse);
}

TEST(Runtime, WaitsForEveryGoroutineBeforeItEnds) {
  std::atomic<int> ended{0};
  {
    runtime r({.procs = 2});
    for (int i = 0; i < 1000; ++i) {
      r.go([&] {
        this_goroutine::yield();
        go([&] {
          this_goroutine::yield();
          ++ended;
        });
        ++ended;
      });
    }
  }
  EXPECT_EQ(ended, 2000);
}

TEST(Runtime, SeveralRunSideBySide) {
  runtime one({.procs = 1}), two({.procs = 2}), three({.procs = 3});
  std::atomic<int> count{0};
  for (runtime* r : {&one, &two, &three}) {
    r->go([&count, r] {
      EXPECT_EQ(&runtime::current(), r);
      go([&count, r] {
        EXPECT_EQ(&runtime::current(), r) << "go() stays in the runtime of its caller";
        ++count;
      });
    });
  }
  while (count != 3) std::this_thread::yield();
  EXPECT_EQ(one.run([&] { return two.run([&] { return three.run([] { return procs(); }); }); }), 3);
}

TEST(Runtime, GoroutinesOfOneSpawnInAnother) {
  runtime one({.procs = 1}), other({.procs = 2});
  std::atomic<int> count{0};
  one.run([&] {
    for (int i = 0; i < 1000; ++i) {
      other.go([&] {
        EXPECT_EQ(&runtime::current(), &other);
        ++count;
      });
    }
  });
  wait_until_nobody_lives(other);
  EXPECT_EQ(count, 1000);
  EXPECT_EQ(other.read_stats().spawned, 1000u);
}

TEST(Runtime, LeavesNoThreadNoDescriptorAndNoMappingBehind) {
  const auto live_and_die = [](int procs) {
    runtime r({.procs = procs});
    r.run([] {
      for (int i = 0; i < 20; ++i) go([] { this_goroutine::yield(); });
      blocking(hand_off_now, [] {});
    });
  };
  constexpr int k_rounds = 200;
  for (int i = 0; i < 20; ++i) live_and_die(1 + i % 4);  // caches of libc and of the stacks fill up
  const std::size_t descriptors = rt::testing::descriptor_count();
  const std::size_t mappings = rt::testing::mapping_count();
  std::size_t threads = rt::testing::thread_count();
  {
    std::thread probe([&] { threads = rt::testing::thread_count() - 1; });
    probe.join();
  }
  for (int i = 0; i < k_rounds; ++i) live_and_die(1 + i % 4);
  EXPECT_TRUE(rt::testing::thread_count_becomes(threads))
      << rt::testing::thread_count() << ", not " << threads;
  EXPECT_EQ(rt::testing::descriptor_count(), descriptors);
  EXPECT_LT(rt::testing::mapping_count(), mappings + k_rounds / 2)
      << "one per runtime would be a leak";
}

std::chrono::microseconds cpu_time_of_process() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto time = [](const timeval& t) {
    return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
  };
  return time(used.ru_utime) + time(used.ru_stime);
}

// Its end waits for those who sleep, in whatever, and does nothing meanwhile.
TEST(Runtime, WaitsForThoseWhoSleepWithoutUsingTheProcessor) {
  constexpr auto k_wait = std::chrono::milliseconds(700);
  std::thread([] {}).join();  // a sanitizer makes a thread of its own beside the first one
  const std::size_t threads = rt::testing::thread_count();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  std::atomic<int> ended{0};
  std::thread writer;
  const auto before = cpu_time_of_process();
  const auto start = clock::now();
  {
    runtime r({.procs = 2});
    for (int i = 0; i < 10; ++i) {
      r.go([&] {
        blocking([&] { std::this_thread::sleep_for(k_wait); });
        ++ended;
      });
      r.go([&] {
        blocking(hand_off_now, [&] { std::this_thread::sleep_for(k_wait); });
        ++ended;
      });
      r.go([&] {
        this_goroutine::sleep_for(k_wait);
        ++ended;
      });
    }
    r.go([&] {
      wait_readable(ends[0]);
      ++ended;
    });
    writer = std::thread([&] {
      std::this_thread::sleep_for(k_wait);
      EXPECT_EQ(write(ends[1], "x", 1), 1);
    });
  }
  EXPECT_EQ(ended, 31);
  EXPECT_GE(clock::now() - start, k_wait);
  // What it takes are a few milliseconds, of 700.
  constexpr int k_slower = rt::sanitizer::k_thread || rt::sanitizer::k_address ? 3 : 1;
  EXPECT_LT(cpu_time_of_process() - before, k_slower * std::chrono::milliseconds(150));
  writer.join();
  close(ends[0]);
  close(ends[1]);
  EXPECT_TRUE(rt::testing::thread_count_becomes(threads));
}

// The only thread belongs to one who waits for a plain thread.
TEST(Runtime, WaitsForAThreadWithoutUsingTheProcessor) {
  constexpr auto k_wait = std::chrono::milliseconds(700);
  runtime r({.procs = 1, .max_threads = 1});
  std::atomic<bool> locked{false}, other_ran{false};
  event go_on;
  r.go([&] {
    const thread_lock lock;
    locked = true;
    go_on.wait();
  });
  while (!locked) std::this_thread::yield();
  r.go([&] { other_ran = true; });
  const auto before = cpu_time_of_process();
  std::this_thread::sleep_for(k_wait);
  constexpr int k_slower = rt::sanitizer::k_thread || rt::sanitizer::k_address ? 3 : 1;
  EXPECT_LT(cpu_time_of_process() - before, k_slower * std::chrono::milliseconds(50));
  EXPECT_FALSE(other_ran) << "the premise of the test";
  go_on.set();
  while (!other_ran) std::this_thread::yield();
}

TEST(Runtime, EndsThoughNobodyEverUsedIt) {
  for (int i = 0; i < 50; ++i) const runtime r({.procs = 3});
}

TEST(Runtime, GoFromAPlainThreadReachesAnIdleP) {
  runtime r({.procs = 2});
  r.run([] {});
  for (int i = 0; i < 20; ++i) {
    while (r.read_stats().idle_procs != 2) std::this_thread::yield();
    baton ran;
    r.go([&] { ran.give(); });
    ran.take();
  }
}

TEST(Runtime, SpawnsOfOneGoroutineSpreadOverAllPs) {
  runtime r({.procs = 4});
  for (int i = 0; i < 10; ++i) expect_parallel(r, 4);
}

TEST(Runtime, GoroutinesThatAreReadiedSpreadOverAllPs) {
  runtime r({.procs = 3});
  for (int i = 0; i < 20; ++i) {
    r.run([&] {
      baton start[3];
      std::atomic<int> running{0};
      std::vector<future<void>> all;
      for (baton& b : start) {
        all.push_back(async([&] {
          b.take();
          ++running;
          while (running < 3) std::this_thread::yield();
        }));
      }
      for (baton& b : start) b.give();
      for (auto& one : all) one.get();
    });
  }
}

// It is in run_next, which nobody steals at once; but its P does not get to it either.
TEST(Runtime, AGoroutineBehindABusyParentIsRunByAnotherP) {
  runtime r({.procs = 2});
  for (int i = 0; i < 50; ++i) {
    r.run([] {
      std::atomic<bool> ran{false};
      future<void> child = async([&] { ran = true; });
      while (!ran) std::this_thread::yield();
      child.get();
    });
  }
}

// A thread that never called anything of the library before.
TEST(Runtime, AThreadNobodyKnowsMayWakeAGoroutine) {
  runtime r({.procs = 1});
  std::atomic<rt::os::thread_id> main_thread{rt::os::current_thread_id()};
  baton b;
  std::thread stranger([&] {
    // Long after everything has fallen asleep.
    rt::testing::wait_until_asleep(main_thread);
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    b.give();
  });
  r.run([&] { b.take(); });
  stranger.join();
}

TEST(SetProcs, ReturnsTheOldNumberAndOnlyAsksWhenNotPositive) {
  runtime r({.procs = 3});
  EXPECT_EQ(r.set_procs(0), 3);
  EXPECT_EQ(r.set_procs(-5), 3);
  EXPECT_EQ(r.procs(), 3);
  EXPECT_EQ(r.set_procs(5), 3);
  EXPECT_EQ(r.set_procs(1), 5);
  EXPECT_EQ(r.set_procs(1), 1);
  r.run([] {
    EXPECT_EQ(set_procs(2), 1) << "of the current runtime";
    EXPECT_EQ(procs(), 2);
  });
  EXPECT_EQ(r.procs(), 2);
}

TEST(SetProcs, NewPsAreUsed) {
  runtime r({.procs = 1});
  expect_parallel(r, 1);
  r.set_procs(4);
  expect_parallel(r, 4);
  r.set_procs(2);
  expect_parallel(r, 2);
  r.set_procs(3);
  expect_parallel(r, 3);
}

TEST(SetProcs, NewPsAreUsedForWorkThatWaitsAlready) {
  runtime r({.procs = 1});
  std::atomic<int> running{0};
  for (int i = 0; i < 3; ++i) {
    r.go([&] {
      ++running;
      while (running < 3) std::this_thread::yield();
    });
  }
  while (running == 0) std::this_thread::yield();
  EXPECT_EQ(r.set_procs(3), 1);
  wait_until_nobody_lives(r);
}

// Each goroutine counts itself while it runs and does not give its P up.
TEST(SetProcs, NoMoreThanThatManyRunAtOnceAfterwards) {
  runtime r({.procs = 8});
  std::atomic<int> running{0}, most{0};
  std::atomic<bool> stop{false};
  for (int i = 0; i < 16; ++i) {
    r.go([&] {
      while (!stop) {
        const int now = ++running;
        for (int before = most; before < now && !most.compare_exchange_weak(before, now);) {
        }
        --running;
        this_goroutine::yield();
      }
    });
  }
  r.set_procs(1);
  // Every P beyond the first is given up once its goroutine has yielded.
  while (most != 1 || r.read_stats().idle_procs != 0) {
    if (most != 1) most = 0;
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
  }
  stop = true;
}

// The P that will be retired, with so much loot; null on the other one.
rt::P* p_with_loot(std::size_t count) {
  rt::M* const m = rt::enter();
  rt::P* const p = m->p->id == 1 ? m->p : nullptr;
  if (p != nullptr) p->loot.count = count;
  rt::leave(m);
  return p;
}

// Its goroutines go elsewhere: when the P is used again, long after, all seems to have taken long.
TEST(SetProcs, WhatAPHadStolenIsNotJudgedAfterItWasRetired) {
  runtime r({.procs = 2});
  r.run([&r] {
    std::atomic<bool> over{false};
    const auto retire_where_it_runs = [&] {
      while (!over) {
        if (p_with_loot(0) == nullptr) continue;
        r.set_procs(1);
        const rt::P* const p = p_with_loot(5);
        if (p == nullptr) {  // it was stopped, and went on elsewhere
          r.set_procs(2);
          continue;
        }
        this_goroutine::yield();  // now the P is given up
        EXPECT_EQ(p->loot.count, 0u);
        over = true;
      }
    };
    wait_group all;
    for (int i = 0; i < 2; ++i) all.go(retire_where_it_runs);
    all.wait();
  });
}

TEST(SetProcs, UnderLoadLosesNoGoroutine) {
  constexpr int k_goroutines = 500, k_turns = 100;
  runtime r({.procs = 1});
  std::vector<std::atomic<int>> turns(k_goroutines);
  std::atomic<int> left{k_goroutines};
  for (int i = 0; i < k_goroutines; ++i) {
    r.go([&, i] {
      for (int n = 0; n < k_turns; ++n) {
        ++turns[static_cast<std::size_t>(i)];
        if (n % 4 == 0) {
          async([] {}).get();
        } else {
          this_goroutine::yield();
        }
      }
      --left;
    });
  }
  int changes = 0;
  constexpr int k_numbers[] = {64, 1, 2, 4, 1, 16, 3, 1, 1, 64, 63, 2};
  while (left != 0 || changes < 100) {
    r.set_procs(k_numbers[static_cast<std::size_t>(changes++) % std::size(k_numbers)]);
    std::this_thread::yield();
  }
  EXPECT_EQ(sum(turns), std::uint64_t{k_goroutines} * k_turns);
  wait_until_nobody_lives(r);
}

TEST(SetProcs, FromInsideAGoroutineThatLosesItsP) {
  runtime r({.procs = 4});
  r.run([] {
    for (int i = 0; i < 300; ++i) {
      set_procs(1 + i % 4);
      async([] {}).get();
      EXPECT_EQ(procs(), 1 + i % 4);
    }
  });
}

TEST(SetProcs, BetweenTheBeginningAndTheEndOfABlockingCall) {
  runtime r({.procs = 4});
  r.run([&] {
    for (int i = 0; i < 100; ++i) {
      std::vector<future<void>> calls;
      std::atomic<int> inside{0};
      std::atomic<bool> go_on{false};
      for (int n = 0; n < 4; ++n) {
        calls.push_back(async([&] {
          blocking([&] {
            ++inside;
            while (!go_on) std::this_thread::yield();
          });
        }));
      }
      while (inside != 4) this_goroutine::yield();
      set_procs(1);
      go_on = true;
      for (auto& call : calls) call.get();
      set_procs(4);
    }
  });
}

// Whoever looks for work with such a P does not leave it where the others find it: for one, nobody
// would see a deadlock then.
TEST(SetProcs, APThatIsNotToBeUsedIsNotIdle) {
  constexpr int k_rounds = 300;
  const auto comes_soon = [](auto condition) {
    const auto end = clock::now() + std::chrono::milliseconds(2);
    while (!condition() && clock::now() < end) {
    }
  };
  runtime r({.procs = 1});
  for (int i = 0; i < k_rounds; ++i) {
    r.set_procs(2);
    r.run([&] {
      std::atomic<bool> elsewhere{false};
      future<void> stolen = async([&] { elsewhere = true; });
      comes_soon([&] { return elsewhere.load(); });
      comes_soon([&] { return r.read_stats().spinning == 1; });  // the thief looks for more
      r.set_procs(1);
      stolen.get();
    });
    stats now = r.read_stats();
    while (now.idle_threads != now.threads || now.idle_procs == 0) now = r.read_stats();
    ASSERT_EQ(now.idle_procs, 1) << "in round " << i;
  }
}

TEST(Run, WithSettingsThatDoNotFitIsMisuse) {
  EXPECT_EQ(run(config{}, [] { return 1; }), 1);
  EXPECT_EQ(run(config{}, [] { return 2; }), 2) << "the same settings are fine";
  EXPECT_THROW(run(config{.procs = 17}, [] {}), misuse);
  EXPECT_THROW(run(config{.stack_size = 1 << 20}, [] {}), misuse);
  EXPECT_THROW(run(config{.seed = 1}, [] {}), misuse);
  EXPECT_EQ(run([] { return 3; }), 3);
}

TEST(Run, UsesTheOneDefaultRuntime) {
  runtime* const here = &runtime::current();
  EXPECT_EQ(run([] { return &runtime::current(); }), here);
  std::thread([&] { EXPECT_EQ(&runtime::current(), here); }).join();
}

// Conformance row B23.
TEST(GoroutineCount, ReturnsToWhereItStarted) {
  runtime r({.procs = 2});
  r.run([] {
    EXPECT_EQ(goroutine_count(), 1u);
    baton go_on, ended;
    go([&] {
      go_on.take();
      ended.give();
    });
    EXPECT_EQ(goroutine_count(), 2u);
    go_on.give();
    ended.take();
    while (goroutine_count() != 1) this_goroutine::yield();
  });
  wait_until_nobody_lives(r);
}

TEST(Stats, AddUpWhenNothingMoves) {
  runtime r({.procs = 3});
  r.run([] {
    for (int i = 0; i < 1000; ++i) go([] { this_goroutine::yield(); });
    async([] {}).get();
  });
  wait_until_nobody_lives(r);
  while (r.read_stats().idle_procs != 3) std::this_thread::yield();
  const stats s = r.read_stats();
  EXPECT_EQ(s.spawned, 1002u);
  EXPECT_EQ(s.finished, 1002u);
  EXPECT_EQ(s.goroutines, 0u);
  EXPECT_EQ(s.procs, 3);
  EXPECT_EQ(s.global_queue_length, 0u);
  EXPECT_THAT(s.local_queue_lengths, ::testing::ElementsAre(0, 0, 0));
  EXPECT_LE(s.stolen, s.spawned + s.readies + 1002) << "no more than ever became runnable";
  EXPECT_LE(s.steals, s.stolen);
  EXPECT_LE(s.steals, s.steal_attempts);
  EXPECT_LE(s.idle_threads, s.threads);
  EXPECT_LE(s.threads, s.threads_peak);
  EXPECT_LE(s.readies, s.parks);
}

TEST(Stats, NeverShowFewerGoroutinesThanThereAre) {
  runtime r({.procs = 2});
  std::atomic<bool> stop{false};
  for (int i = 0; i < 3; ++i) {
    r.go([&] {
      while (!stop) {
        std::vector<future<void>> children;
        for (int n = 0; n < 10; ++n) children.push_back(async([] {}));
        for (auto& child : children) child.get();
      }
    });
  }
  for (int i = 0; i < 20'000; ++i) {
    if (i % 1000 == 0) r.set_procs(1 + i / 1000);
    const std::uint64_t alive = r.read_stats().goroutines;
    ASSERT_GE(alive, 3u);
    ASSERT_LE(alive, 3u + 1'000'000u) << "below zero";
  }
  stop = true;
}

TEST(Stats, CountTheGoroutinesThatLive) {
  runtime r({.procs = 1});
  r.run([&] {
    baton go_on[5];
    std::vector<future<void>> all;
    for (baton& b : go_on) all.push_back(async([&] { b.take(); }));
    EXPECT_EQ(r.read_stats().goroutines, 6u);
    this_goroutine::yield();  // all of them wait now
    for (baton& b : go_on) b.give();
    for (auto& one : all) one.get();
  });
  wait_until_nobody_lives(r);
  const stats s = r.read_stats();
  EXPECT_EQ(s.spawned, 6u);
  EXPECT_GE(s.parks, 5u);
}

}  // namespace
}  // namespace magpie
