#include <magpie/mutex.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include <magpie/magpie.h>

#include "support/subprocess.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;
using rt::testing::run_program;

static_assert(!std::is_copy_constructible_v<mutex> && !std::is_move_constructible_v<mutex>);
static_assert(std::is_trivially_destructible_v<mutex>);
[[maybe_unused]] constinit mutex g_in_static_storage;

class MutexWithPs : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ps, MutexWithPs, ::testing::Values(1, 2, 4));

TEST_P(MutexWithPs, OneAtATime) {
  runtime r({.procs = GetParam()});
  mutex guard;
  long sum = 0;
  r.run([&] {
    wait_group all;
    for (int g = 0; g < 20; ++g) {
      all.go([&] {
        for (int i = 0; i < 500; ++i) {
          const std::scoped_lock hold(guard);
          const long seen = sum;
          if (i % 10 == 0) this_goroutine::yield();
          sum = seen + 1;
        }
      });
    }
    all.wait();
  });
  EXPECT_EQ(sum, 20 * 500);
}

TEST_P(MutexWithPs, GoroutinesAndThreadsExcludeEachOther) {
  runtime r({.procs = GetParam()});
  mutex guard;
  long sum = 0;
  const auto work = [&] {
    for (int i = 0; i < 2000; ++i) {
      const std::scoped_lock hold(guard);
      ++sum;
      if (i % 100 == 0) this_goroutine::yield();
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) threads.emplace_back(work);
  r.run([&] {
    wait_group all;
    for (int g = 0; g < 5; ++g) all.go(work);
    all.wait();
  });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(sum, 8 * 2000);
}

TEST(Mutex, TryLockFailsOnlyWhileItIsLocked) {
  mutex guard;
  ASSERT_TRUE(guard.try_lock());
  EXPECT_FALSE(guard.try_lock());
  EXPECT_FALSE(guard.try_lock_for(-1s));
  EXPECT_FALSE(guard.try_lock_for(0s));
  guard.unlock();
  EXPECT_TRUE(guard.try_lock_for(-1s));
  guard.unlock();
  EXPECT_TRUE(guard.try_lock_until(std::chrono::system_clock::time_point::min()));
  guard.unlock();
}

TEST(Mutex, ATimedLockGivesUpInTimeAndLeavesNothingBehind) {
  runtime r({.procs = 2});
  mutex guard;
  guard.lock();
  r.run([&] {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_FALSE(guard.try_lock_for(20ms));
    EXPECT_GE(std::chrono::steady_clock::now() - start, 20ms);
  });
  EXPECT_FALSE(guard.try_lock_for(5ms));  // a plain thread
  EXPECT_FALSE(guard.try_lock_until(std::chrono::system_clock::now() + 5ms));
  guard.unlock();
  EXPECT_TRUE(guard.try_lock());
  guard.unlock();
}

TEST(Mutex, ATimedLockGetsItWhenItIsUnlockedInTime) {
  runtime r({.procs = 2});
  mutex guard;
  guard.lock();
  event waits;
  auto got = false;
  r.run([&] {
    wait_group all;
    all.go([&] {
      waits.set();
      got = guard.try_lock_for(std::chrono::hours::max());
      guard.unlock();
    });
    waits.wait();
    guard.unlock();
    all.wait();
  });
  EXPECT_TRUE(got);
}

TEST(Mutex, AnotherGoroutineMayUnlockIt) {
  runtime r({.procs = 2});
  mutex guard;
  r.run([&] {
    guard.lock();
    async([&] { guard.unlock(); }).get();
    guard.lock();
    std::thread([&] { guard.unlock(); }).join();
    EXPECT_TRUE(guard.try_lock());
    guard.unlock();
  });
}

TEST(Mutex, WorksWithTheLocksOfTheStandardLibrary) {
  mutex a, b;
  {
    const std::scoped_lock both(a, b);
    EXPECT_FALSE(a.try_lock());
    EXPECT_FALSE(b.try_lock());
  }
  std::unique_lock first(a, std::defer_lock), second(b, std::defer_lock);
  std::lock(first, second);
  EXPECT_EQ(std::try_lock(a, b), 0);
  first.unlock();
  EXPECT_TRUE(first.try_lock_for(1ms));
}

// The one who holds it takes it again at once, over and over: the other gets it all the same.
TEST(Mutex, OneWhoWaitsLongIsGivenIt) {
  for (const int ps : {1, 2}) {
    runtime r({.procs = ps});
    r.run([&] {
      mutex guard;
      std::atomic<bool> got{false};
      wait_group all;
      guard.lock();
      all.go([&] {
        guard.lock();
        got = true;
        guard.unlock();
      });
      this_goroutine::yield();
      while (!got) {
        const auto until = std::chrono::steady_clock::now() + 2ms;
        while (std::chrono::steady_clock::now() < until) {
        }
        guard.unlock();
        guard.lock();
      }
      guard.unlock();
      all.wait();
    });
  }
}

TEST(Mutex, UnlockingAnUnlockedOneEndsTheProcess) {
  for (const char* const way :
       {"mutex_unlock", "mutex_unlock_twice", "mutex_unlock_in_goroutine"}) {
    const auto end = run_program("sync_misuse", {way});
    EXPECT_EQ(end.signal, SIGABRT) << way;
    EXPECT_THAT(end.output, ::testing::HasSubstr("unlock of unlocked mutex")) << way;
  }
}

}  // namespace
}  // namespace magpie
