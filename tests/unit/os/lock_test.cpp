#include "os/lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "os/memory.h"
#include "os/note.h"
#include "os/signal.h"
#include "support/asleep.h"
#include "support/subprocess.h"

namespace magpie::rt::os {
namespace {

using ::testing::HasSubstr;

constexpr int k_threads = 8;

template <class Body>
void run_threads(int count, Body body) {
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      ready.fetch_add(1);
      while (ready.load() < count) std::this_thread::yield();
      body(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Lock, OneThreadInsideAtATime) {
  constexpr int k_rounds = 20'000;
  lock l(lock_rank::leaf);
  long plain = 0;  // not atomic: an increment that is not alone gets lost
  std::atomic<int> inside{0};
  std::atomic<int> crowds{0};
  run_threads(k_threads, [&](int) {
    for (int i = 0; i < k_rounds; ++i) {
      const lock_guard hold(l);
      if (inside.fetch_add(1) != 0) crowds.fetch_add(1);
      ++plain;
      inside.fetch_sub(1);
    }
  });
  EXPECT_EQ(plain, long{k_threads} * k_rounds);
  EXPECT_EQ(crowds.load(), 0);
}

// A holder that gives up the CPU makes the others fall asleep, which a short section does not.
TEST(Lock, OneThreadInsideAtATimeWhenTheOthersSleep) {
  constexpr int k_rounds = 500;
  lock l(lock_rank::leaf);
  long plain = 0;
  run_threads(k_threads, [&](int) {
    for (int i = 0; i < k_rounds; ++i) {
      const lock_guard hold(l);
      const long before = plain;
      std::this_thread::yield();
      plain = before + 1;
    }
  });
  EXPECT_EQ(plain, long{k_threads} * k_rounds);
}

TEST(Lock, TriersAndWaitersShareIt) {
  constexpr int k_rounds = 5'000;
  lock l(lock_rank::leaf);
  long plain = 0;
  run_threads(k_threads, [&](int i) {
    for (int round = 0; round < k_rounds; ++round) {
      if (i % 2 == 0) {
        l.acquire();
      } else {
        while (!l.try_acquire()) std::this_thread::yield();
      }
      ++plain;
      l.release();
    }
  });
  EXPECT_EQ(plain, long{k_threads} * k_rounds);
}

TEST(Lock, WaitersAreWokenOneByOne) {
  constexpr int k_waiters = 4;
  lock l(lock_rank::leaf);
  std::atomic<thread_id> sleepers[k_waiters] = {};
  std::atomic<int> entered{0};
  std::atomic<int> may_leave{0};
  std::vector<std::thread> threads;
  l.acquire();
  for (auto& sleeper : sleepers) {
    threads.emplace_back([&] {
      sleeper = current_thread_id();
      l.acquire();
      sleeper = 0;
      const int turn = entered.fetch_add(1) + 1;
      while (may_leave.load() < turn) std::this_thread::yield();
      l.release();
    });
  }
  for (const auto& sleeper : sleepers) testing::wait_until_asleep(sleeper);
  EXPECT_EQ(entered.load(), 0);
  l.release();
  for (int turn = 1; turn <= k_waiters; ++turn) {
    while (entered.load() < turn) std::this_thread::yield();
    const auto asleep = std::count_if(
        std::begin(sleepers), std::end(sleepers),
        [](const auto& sleeper) { return sleeper != 0 && testing::sleeps_on_a_futex(sleeper); });
    EXPECT_EQ(asleep, k_waiters - turn) << "one release wakes one thread";
    EXPECT_EQ(entered.load(), turn) << "the next must wait for its turn";
    may_leave = turn;
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Lock, TryFailsWhileHeldAndSucceedsAfter) {
  lock l(lock_rank::leaf);
  EXPECT_TRUE(l.try_acquire());
  bool taken = true;
  std::thread([&] {
    taken = l.try_acquire();
    assert_no_locks_held();  // a failed attempt is not remembered
  }).join();
  EXPECT_FALSE(taken);
  l.release();
  std::thread([&] {
    taken = l.try_acquire();
    if (taken) l.release();
  }).join();
  EXPECT_TRUE(taken);
}

TEST(Lock, GuardReleasesAtTheEndOfItsScope) {
  lock l(lock_rank::leaf);
  { const lock_guard hold(l); }
  EXPECT_TRUE(l.try_acquire());
  l.release();
}

// The waiter destroys the lock as soon as it has it, while the one who released it may still be
// on the way to the wake.
TEST(Lock, NextHolderMayDestroyIt) {
  for (int round = 0; round < 500; ++round) {
    const result<void*> page = allocate_records(page_size());
    ASSERT_TRUE(page);
    lock* const l = new (*page) lock(lock_rank::leaf);
    l->acquire();
    std::atomic<thread_id> sleeper{0};
    std::thread waiter([&] {
      sleeper = current_thread_id();
      l->acquire();
      l->release();
      l->~lock();
      EXPECT_FALSE(unmap({l, page_size()}));
    });
    if (round % 2 == 0) testing::wait_until_asleep(sleeper);
    l->release();
    waiter.join();
  }
}

TEST(Lock, RisingRanksMayBeHeldTogetherAndReleasedInAnyOrder) {
  lock low(lock_rank::stack_pool);
  lock high(lock_rank::leaf);
  low.acquire();
  high.acquire();
  low.release();
  high.release();
  assert_no_locks_held();
  low.acquire();
  high.acquire();
  high.release();
  high.acquire();
  high.release();
  low.release();
  assert_no_locks_held();
  high.acquire();
  high.release();
  low.acquire();
  low.release();
  EXPECT_TRUE(low.try_acquire() && high.try_acquire());
  high.release();
  low.release();
}

TEST(Lock, RanksHeldByOtherThreadsDoNotCount) {
  lock low(lock_rank::stack_pool);
  lock high(lock_rank::leaf);
  const lock_guard hold(high);
  std::thread([&] {
    assert_no_locks_held();
    const lock_guard also(low);
  }).join();
}

std::atomic<int> g_handler_runs{0};
thread_timer* g_ticks = nullptr;

// A handler on the thread that may take other locks while none is held sees every one that is,
// from before its rank is noted: or its own would be out of order.
TEST(Lock, IsCountedForAHandlerAtWhateverInstructionItComes) {
  thread_timer ticks;
  const int number = SIGRTMIN + 4;
  struct sigaction action {};
  action.sa_handler = [](int) {
    if (locks_held() == 0) assert_no_locks_held();
    // Long enough for the thread to get somewhere before the next one.
    g_ticks->set(20'000 + g_handler_runs.fetch_add(1) % 1'000);
  };
  ASSERT_EQ(sigaction(number, &action, nullptr), 0);
  ASSERT_TRUE(ticks.make(thread_timer::clock::real, number));
  g_ticks = &ticks;
  ticks.set(1'000);
  lock l{lock_rank::leaf};
  while (g_handler_runs.load() < 10'000) {
    for (int i = 0; i < 100; ++i) const lock_guard hold(l);
  }
  ticks.stop();
  signal(number, SIG_IGN);
}

// Held by a thread of the parent, it would never be free.
TEST(Lock, WaitingInAForkedChildForAThreadOfTheParentIsAClearError) {
  for (const char* way : {"lock_of_the_parent", "object_of_the_parent"}) {
    const auto end = testing::run_program("misuse", {way});
    EXPECT_EQ(end.signal, SIGABRT) << way;
    EXPECT_THAT(end.output, HasSubstr("a runtime was used in a child made by fork()")) << way;
  }
}

#ifdef NDEBUG

TEST(Lock, ReleaseOfAFreeLockIsReportedInReleaseBuildsToo) {
  const auto end = testing::run_program("misuse", {"release_unheld"});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_THAT(end.output, HasSubstr("release of a runtime lock that is not held"));
}

#else

struct lock_misuse {
  const char* way;
  const char* words;
};

class LockMisuse : public ::testing::TestWithParam<lock_misuse> {};

TEST_P(LockMisuse, IsReported) {
  const auto end = testing::run_program("misuse", {GetParam().way});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_THAT(end.output, HasSubstr(std::string("magpie: internal error: ") + GetParam().words));
  EXPECT_THAT(end.output, HasSubstr(" at src/os/linux/lock.cpp:"));
}

constexpr const char* k_order = "runtime locks taken out of rank order";
constexpr const char* k_not_held = "a runtime lock released by a thread that does not hold it";

INSTANTIATE_TEST_SUITE_P(
    Ways, LockMisuse,
    ::testing::Values(
        lock_misuse{"falling_ranks", k_order}, lock_misuse{"falling_ranks_tried", k_order},
        lock_misuse{"falling_ranks_after_unordered_release", k_order},
        lock_misuse{"same_rank", k_order}, lock_misuse{"acquire_twice", k_order},
        lock_misuse{"release_unheld", k_not_held},
        lock_misuse{"release_on_another_thread", k_not_held},
        lock_misuse{"lock_destroyed_while_held", "a runtime lock destroyed while held"},
        lock_misuse{"lock_held_where_none_may_be", "a runtime lock is held where none may be"}),
    [](const auto& misuse) { return std::string(misuse.param.way); });

#endif

}  // namespace
}  // namespace magpie::rt::os
