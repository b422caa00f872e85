// Section F of Go's behaviours: locks, wait groups, once and conditions. The rows about sync.Pool,
// sync.Map, OnceFunc and Go's internal locks have nothing to stand for here.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <type_traits>

#include <magpie/magpie.h>

#include "support/stress.h"
#include "support/subprocess.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;
using rt::testing::run_program;

// A mutex that a waiter starved for is handed over along with the processor: the waiter runs
// before the one who unlocked it goes on. With a second P that one may go on there at once; but it
// does not get the mutex back.
void expect_hand_off(int ps, int rounds) {
  runtime r({.procs = ps});
  int handed_over = 0;
  r.run([&] {
    for (int i = 0; i < rounds; ++i) {
      mutex guard;
      std::atomic<int> first{0};
      wait_group all;
      guard.lock();
      const auto parks = r.read_stats().parks;
      all.go([&] {
        guard.lock();
        int nobody = 0;
        first.compare_exchange_strong(nobody, 1);
        guard.unlock();
      });
      // Nobody else could park.
      while (r.read_stats().parks == parks) this_goroutine::yield();
      const auto starved = std::chrono::steady_clock::now() + 2ms;
      while (std::chrono::steady_clock::now() < starved) this_goroutine::yield();
      guard.unlock();
      int nobody = 0;
      if (ps == 1) {
        first.compare_exchange_strong(nobody, 2);
      } else if (guard.try_lock()) {
        first.compare_exchange_strong(nobody, 2);
        guard.unlock();
      }
      all.wait();
      if (first == 1) ++handed_over;
    }
  });
  EXPECT_EQ(handed_over, rounds);
}

// Every try takes as long as it takes to starve: the rows' 10000 are MAGPIE_STRESS=100.
TEST(Conformance, F01_SemaHandoff) { expect_hand_off(1, rt::testing::rounds(100)); }
TEST(Conformance, F03_SemaHandoff2) { expect_hand_off(2, rt::testing::rounds(100)); }

TEST(Conformance, F06_Semaphore) {
  runtime r({.procs = 2});
  r.run([] {
    semaphore s(1);
    wait_group all;
    for (int g = 0; g < 10; ++g) {
      all.go([&] {
        for (int i = 0; i < 1000; ++i) {
          s.acquire();
          s.release();
        }
      });
    }
    all.wait();
    EXPECT_TRUE(s.try_acquire());
  });
}

TEST(Conformance, F07_Mutex) {
  runtime r({.procs = 4});
  r.run([] {
    mutex guard;
    guard.lock();
    EXPECT_FALSE(guard.try_lock());
    guard.unlock();
    EXPECT_TRUE(guard.try_lock());
    guard.unlock();
    wait_group all;
    for (int g = 0; g < 10; ++g) {
      all.go([&] {
        for (int i = 0; i < 1000; ++i) {
          if (i % 3 == 0) {
            if (guard.try_lock()) guard.unlock();
            continue;
          }
          guard.lock();
          guard.unlock();
        }
      });
    }
    all.wait();
  });
}

void expect_fatal(const char* way) {
  const auto end = run_program("sync_misuse", {way});
  EXPECT_EQ(end.signal, SIGABRT) << way;
  EXPECT_THAT(end.output, ::testing::HasSubstr("unlocked")) << way;
}

TEST(Conformance, F08_MutexMisuse) {
  expect_fatal("mutex_unlock");
  expect_fatal("mutex_unlock_twice");
}

TEST(Conformance, F10_SharedMutexMisuse) {
  expect_fatal("shared_unlock");
  expect_fatal("shared_unlock_read_locked");
  expect_fatal("shared_unlock_shared");
  expect_fatal("shared_unlock_shared_write_locked");
  expect_fatal("shared_unlock_shared_twice");
}

TEST(Conformance, F12_ParallelReaders) {
  for (const auto& [readers, ps] : {std::pair{1, 4}, {3, 4}, {4, 2}}) {
    runtime r({.procs = ps});
    r.run([readers = readers] {
      shared_mutex guard;
      latch inside(readers);
      event leave;
      wait_group all;
      for (int i = 0; i < readers; ++i) {
        all.go([&] {
          const std::shared_lock hold(guard);
          inside.count_down();
          leave.wait();
        });
      }
      inside.wait();
      leave.set();
      all.wait();
    });
  }
}

void hammer_shared_mutex(int ps, int readers, int rounds) {
  runtime r({.procs = ps});
  r.run([=] {
    shared_mutex guard;
    std::atomic<int> activity{0}, wrong{0};  // readers, plus 10000 for each writer
    const auto reader = [&] {
      for (int i = 0; i < rounds; ++i) {
        if (i % 2 == 0) {
          while (!guard.try_lock_shared()) this_goroutine::yield();
        } else {
          guard.lock_shared();
        }
        const int n = ++activity;
        if (n < 1 || n >= 10000) ++wrong;
        for (int k = 0; k < 100; ++k) asm volatile("");
        --activity;
        guard.unlock_shared();
      }
    };
    const auto writer = [&] {
      for (int i = 0; i < rounds; ++i) {
        if (i % 2 == 0) {
          while (!guard.try_lock()) this_goroutine::yield();
        } else {
          guard.lock();
        }
        if ((activity += 10000) != 10000) ++wrong;
        for (int k = 0; k < 100; ++k) asm volatile("");
        activity -= 10000;
        guard.unlock();
      }
    };
    wait_group all;
    all.go(writer);
    for (int i = 0; i < readers / 2; ++i) all.go(reader);
    all.go(writer);
    for (int i = readers / 2; i < readers; ++i) all.go(reader);
    all.wait();
    EXPECT_EQ(wrong, 0);
  });
}

TEST(Conformance, F13_SharedMutex) {
  shared_mutex guard;
  guard.lock();
  EXPECT_FALSE(guard.try_lock());
  EXPECT_FALSE(guard.try_lock_shared());
  guard.unlock();
  ASSERT_TRUE(guard.try_lock());
  guard.unlock();
  guard.lock_shared();
  EXPECT_TRUE(guard.try_lock_shared());
  EXPECT_FALSE(guard.try_lock());
  guard.unlock_shared();
  guard.unlock_shared();
  for (const int ps : {1, 4, 10}) {
    for (const int readers : {1, 3, 10}) hammer_shared_mutex(ps, readers, 300);
  }
}

TEST(Conformance, F15_WaitGroup) {
  runtime r({.procs = 4});
  r.run([] {
    constexpr int k_members = 16;
    wait_group first, second;
    for (int round = 0; round < 8; ++round) {
      first.add(k_members);
      second.add(k_members);
      latch out(k_members);
      std::atomic<bool> released{false}, wrong{false};
      for (int i = 0; i < k_members; ++i) {
        go([&] {
          first.done();
          second.wait();
          if (!released) wrong = true;
          out.count_down();
        });
      }
      first.wait();
      released = true;
      for (int i = 0; i < k_members; ++i) second.done();
      out.wait();
      EXPECT_FALSE(wrong);
    }
  });
}

TEST(Conformance, F16_WaitGroupMisuse) {
  wait_group w;
  w.add(1);
  w.done();
  try {
    w.done();
    FAIL() << "counted below zero";
  } catch (const misuse& e) {
    EXPECT_STREQ(e.what(), "negative wait_group counter");
  }
}

TEST(Conformance, F18_WaitGroupAlign) {
  struct {
    char before = 0;
    wait_group group;
  } x;
  runtime r({.procs = 1});
  r.run([&] {
    x.group.add(1);
    go([&] { x.group.done(); });
    x.group.wait();
  });
}

TEST(Conformance, F19_WaitGroupGo) {
  runtime r({.procs = 2});
  r.run([] {
    wait_group w;
    int value = 0;
    w.go([&] { value = 1; });
    w.wait();
    EXPECT_EQ(value, 1);
  });
}

TEST(Conformance, F21_CondSignal) {
  runtime r({.procs = 2});
  r.run([] {
    mutex guard;
    condition_variable cv;
    semaphore running(0), awake(0);
    for (int i = 0; i < 2; ++i) {
      go([&] {
        std::unique_lock hold(guard);
        running.release();
        cv.wait(hold);
        awake.release();
      });
    }
    running.acquire(2);
    for (int left = 2; left > 0; --left) {
      EXPECT_FALSE(awake.try_acquire());
      {
        const std::scoped_lock hold(guard);
        cv.notify_one();
      }
      awake.acquire();
      EXPECT_FALSE(awake.try_acquire());
    }
    cv.notify_one();
  });
}

TEST(Conformance, F23_CondBroadcast) {
  runtime r({.procs = 4});
  r.run([] {
    constexpr int k_waiters = 200, k_rounds = 200;
    mutex guard;
    condition_variable cv;
    semaphore running(0), awake(0);
    std::atomic<bool> exit{false};
    wait_group all;
    for (int i = 0; i < k_waiters; ++i) {
      all.go([&] {
        std::unique_lock hold(guard);
        while (!exit) {
          running.release();
          cv.wait(hold);
          awake.release();
        }
      });
    }
    for (int round = 0; round < k_rounds; ++round) {
      running.acquire(k_waiters);
      if (round == k_rounds - 1) exit = true;
      {
        const std::scoped_lock hold(guard);
        EXPECT_FALSE(awake.try_acquire());
        cv.notify_all();
      }
      awake.acquire(k_waiters);
    }
    all.wait();
    EXPECT_FALSE(awake.try_acquire());
  });
}

// One waits; a second one comes at the moment of the broadcast. The first is woken in any case.
TEST(Conformance, F25_CondSignalStealing) {
  runtime r({.procs = 4});
  r.run([] {
    for (int round = 0; round < 1000; ++round) {
      mutex guard;
      condition_variable cv;
      event first_waits, first_woken;
      wait_group all;
      all.go([&] {
        std::unique_lock hold(guard);
        first_waits.set();
        cv.wait(hold);
        first_woken.set();
      });
      first_waits.wait();
      { const std::scoped_lock hold(guard); }
      std::atomic<bool> done{false};
      all.go([&] {
        std::unique_lock hold(guard);
        while (!done) cv.wait(hold);
      });
      cv.notify_all();
      first_woken.wait();
      {
        const std::scoped_lock hold(guard);
        done = true;
      }
      cv.notify_all();
      all.wait();
    }
  });
}

static_assert(!std::is_copy_constructible_v<condition_variable> &&
                  !std::is_copy_assignable_v<condition_variable>,
              "F26 CondCopy");

TEST(Conformance, F27_Once) {
  runtime r({.procs = 4});
  r.run([] {
    once o;
    int calls = 0;
    wait_group all;
    for (int i = 0; i < 10; ++i) {
      all.go([&] {
        o.call([&] { ++calls; });
        EXPECT_EQ(calls, 1);
      });
    }
    all.wait();
  });
}

}  // namespace
}  // namespace magpie
