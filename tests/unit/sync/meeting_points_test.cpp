// latch, barrier and event.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

namespace magpie {
namespace {

using namespace std::chrono_literals;

TEST(Latch, OpensWhenCountedDown) {
  for (const int ps : {1, 2}) {
    runtime r({.procs = ps});
    r.run([] {
      latch l(3);
      std::atomic<int> before{0};
      wait_group all;
      for (int i = 0; i < 3; ++i) {
        all.go([&] {
          ++before;
          l.arrive_and_wait();
          EXPECT_EQ(before, 3);
        });
      }
      std::thread outside([&] {
        l.wait();
        EXPECT_EQ(before, 3);
      });
      all.wait();
      blocking([&] { outside.join(); });
      EXPECT_TRUE(l.try_wait());
      l.wait();
    });
  }
}

TEST(Latch, RefusesWrongNumbers) {
  EXPECT_THROW(latch(-1), misuse);
  latch l(2);
  EXPECT_THROW(l.count_down(3), misuse);
  EXPECT_THROW(l.count_down(-1), misuse);
  EXPECT_FALSE(l.try_wait());
  l.count_down(2);
  EXPECT_TRUE(l.try_wait());
  EXPECT_THROW(l.count_down(), misuse);
  l.wait();
}

TEST(Barrier, NobodyPassesBeforeTheCompletion) {
  for (const int ps : {1, 2, 4}) {
    runtime r({.procs = ps});
    r.run([] {
      constexpr int k_members = 5, k_phases = 200;
      int completed = 0;
      std::atomic<int> arrived{0}, wrong{0};
      barrier step(k_members, [&]() noexcept {
        if (arrived.exchange(0) != k_members) ++wrong;
        ++completed;
      });
      wait_group all;
      for (int m = 0; m < k_members; ++m) {
        all.go([&] {
          for (int phase = 1; phase <= k_phases; ++phase) {
            ++arrived;
            step.arrive_and_wait();
            // The next completion needs this one, too, so it cannot have happened yet.
            if (completed != phase) ++wrong;
          }
        });
      }
      all.wait();
      EXPECT_EQ(completed, k_phases);
      EXPECT_EQ(wrong, 0);
    });
  }
}

TEST(Barrier, TokensAndThoseWhoDropOut) {
  runtime r({.procs = 2});
  r.run([] {
    barrier step(3);
    auto token = step.arrive(2);
    wait_group all;
    all.go([&] { step.arrive_and_drop(); });
    step.wait(std::move(token));
    all.wait();
    token = step.arrive();  // two are expected from now on
    all.go([&] { step.arrive_and_wait(); });
    step.wait(std::move(token));
    all.wait();
    EXPECT_THROW((void)step.arrive(3), misuse);
    EXPECT_THROW((void)step.arrive(0), misuse);
    EXPECT_THROW(barrier(-1), misuse);
  });
}

TEST(Event, ReleasesAllAndStaysSet) {
  runtime r({.procs = 2});
  r.run([] {
    event e;
    EXPECT_FALSE(e.is_set());
    EXPECT_FALSE(e.wait_for(-1s));
    EXPECT_FALSE(e.wait_for(1ms));
    EXPECT_FALSE(e.wait_until(std::chrono::system_clock::now() + 1ms));
    std::atomic<int> released{0};
    wait_group all;
    for (int i = 0; i < 10; ++i) {
      all.go([&] {
        if (released % 2 == 0) {
          e.wait();
        } else {
          EXPECT_TRUE(e.wait_for(std::chrono::hours::max()));
        }
        ++released;
      });
    }
    std::thread outside([&] { e.wait(); });
    this_goroutine::yield();
    e.set();
    e.set();
    all.wait();
    blocking([&] { outside.join(); });
    EXPECT_EQ(released, 10);
    e.wait();
    e.reset();
    EXPECT_FALSE(e.is_set());
    EXPECT_FALSE(e.wait_for(1ms));
  });
}

TEST(Event, ResetRightAfterSetHoldsNobodyBack) {
  runtime r({.procs = 1});
  r.run([] {
    event e;
    wait_group all;
    for (int i = 0; i < 3; ++i) all.go([&] { e.wait(); });
    this_goroutine::yield();
    e.set();
    e.reset();
    all.wait();
    EXPECT_FALSE(e.is_set());
  });
}

}  // namespace
}  // namespace magpie
