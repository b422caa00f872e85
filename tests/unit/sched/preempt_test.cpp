// Goroutines that never call into the runtime, beside others that want to run.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

namespace magpie {
namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

// No call in the loop, not even a function of ours.
void spin_until(const std::atomic<bool>& flag) {
  while (!flag.load(std::memory_order_relaxed)) {
  }
}

// Counts in plain memory, which others may look at.
void count_until(const std::atomic<bool>& flag, std::atomic<std::uint64_t>& rounds) {
  while (!flag.load(std::memory_order_relaxed)) {
    rounds.store(rounds.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
}

void spin_for(steady::duration time) {
  for (const auto end = steady::now() + time; steady::now() < end;) {
  }
}

class Preempt : public ::testing::TestWithParam<int> {
 protected:
  int ps() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Ps, Preempt, ::testing::Values(1, 2, 4));

TEST_P(Preempt, TightLoopsOnEveryPDoNotStopTheOneWhoEndsThem) {
  runtime r({.procs = ps()});
  r.run([&] {
    std::atomic<bool> over{false};
    wait_group hogs;
    for (int i = 0; i < 2 * ps(); ++i) hogs.go([&] { spin_until(over); });
    this_goroutine::sleep_for(50ms);
    over = true;
    hogs.wait();
  });
  EXPECT_GE(r.read_stats().preemptions, 1u);
}

TEST_P(Preempt, EveryHogGetsItsTurns) {
  runtime r({.procs = ps(), .time_slice = 2ms});
  std::vector<std::atomic<std::uint64_t>> rounds(6);
  r.run([&] {
    std::atomic<bool> over{false};
    wait_group hogs;
    for (auto& mine : rounds) hogs.go([&] { count_until(over, mine); });
    const auto all_have_run = [&] {
      return std::all_of(rounds.begin(), rounds.end(), [](auto& n) { return n.load() != 0; });
    };
    while (!all_have_run()) this_goroutine::sleep_for(1ms);
    std::vector<std::uint64_t> before;
    for (auto& n : rounds) before.push_back(n.load());
    const auto all_have_run_again = [&] {
      for (std::size_t i = 0; i < rounds.size(); ++i) {
        if (rounds[i].load() == before[i]) return false;
      }
      return true;
    };
    while (!all_have_run_again()) this_goroutine::sleep_for(1ms);
    over = true;
    hogs.wait();
  });
}

// Timers that are overdue while every P is busy go before the others in the global queue. Where
// there are always some, those who come back from calls have to get on all the same.
TEST(Preempt, OverdueTimersDoNotKeepOthersWaitingForEver) {
  runtime r({.procs = 4});
  r.run([&] {
    std::atomic<bool> over{false};
    std::atomic<int> calls{0};
    channel<int> questions, answers;
    wait_group workers, all;
    for (int i = 0; i < 8; ++i) {
      workers.go([&] {
        while (const auto question = questions.receive()) {
          spin_for(30us);
          answers.send(*question);
        }
      });
    }
    all.go([&] {
      while (!over) questions.send(1);
      questions.close();
    });
    all.go([&] {
      while (answers.receive()) {
      }
    });
    for (int i = 0; i < 3; ++i) all.go([&] { spin_until(over); });
    for (int i = 0; i < 200; ++i) {
      all.go([&] {
        while (!over) this_goroutine::sleep_for(3ms);
      });
    }
    for (int i = 0; i < 5; ++i) {
      all.go([&] {
        while (!over) {
          blocking(hand_off_now, [] { usleep(1000); });
          ++calls;
        }
      });
    }
    const auto patience = steady::now() + 60s;
    while (calls < 500 && steady::now() < patience) this_goroutine::sleep_for(10ms);
    EXPECT_GE(calls, 500);
    over = true;
    workers.wait();
    answers.close();
    all.wait();
  });
}

// With nobody else who wants to run, nobody is stopped.
TEST(Preempt, ALonelyHogIsLeftAlone) {
  runtime r({.procs = 1, .time_slice = 1ms});
  r.run([] { spin_for(50ms); });
  EXPECT_EQ(r.read_stats().preemptions, 0u);
}

TEST(Preempt, CanBeSwitchedOff) {
  runtime r({.procs = 1, .time_slice = 1ms, .preempt = false});
  bool other_ran = false;
  r.run([&] {
    go([&] { other_ran = true; });
    spin_for(50ms);
    EXPECT_FALSE(other_ran);
  });
}

TEST(Preempt, NotInsideACriticalSection) {
  runtime r({.procs = 1, .time_slice = 1ms});
  std::atomic<bool> other_ran{false};
  r.run([&] {
    go([&] { other_ran = true; });
    // The end of a section is a checkpoint, at some of which it has been asked to yield.
    while (!other_ran) {
      const no_preempt section;
      const bool before = other_ran;
      { const no_preempt nested; }
      spin_for(10ms);
      this_goroutine::checkpoint();
      EXPECT_EQ(other_ran.load(), before);
    }
  });
}

TEST(Preempt, CheckpointsYieldWhenTheSliceIsOver) {
  runtime r({.procs = 1, .time_slice = 1ms, .preempt = false});
  std::atomic<bool> other_ran{false};
  r.run([&] {
    go([&] { other_ran = true; });
    while (!other_ran) this_goroutine::checkpoint();
  });
  EXPECT_GE(r.read_stats().preemptions, 1u);
}

TEST(Preempt, ByAnotherSignal) {
  runtime r({.procs = 1, .time_slice = 1ms, .preempt_signal = SIGUSR2});
  r.run([&] {
    std::atomic<bool> over{false};
    auto other = async([&] { over = true; });
    spin_until(over);
    other.get();
  });
  EXPECT_GE(r.read_stats().preemptions, 1u);
  EXPECT_THROW(runtime({.preempt_signal = SIGSEGV}), misuse);
  EXPECT_THROW(runtime({.preempt_signal = 65}), misuse);
  for (const int stops : {SIGTSTP, SIGTTIN, SIGTTOU}) {  // the process, once it is not ours
    EXPECT_THROW(runtime({.preempt_signal = stops}), misuse);
  }
}

TEST(Preempt, ByATimerOfTheThreadsOwnTime) {
  runtime r({.procs = 1, .time_slice = 1ms, .preempt_by = preempt_trigger::cpu_timer});
  r.run([&] {
    std::atomic<bool> over{false};
    auto other = async([&] { over = true; });
    spin_until(over);
    other.get();
  });
  EXPECT_GE(r.read_stats().preemptions, 1u);
}

std::atomic<int> g_foreign_signals{0};

// SIGRTMIN + 3, which nothing else in this program uses.
TEST(Preempt, AnEarlierHandlerStillGetsItsSignals) {
  g_foreign_signals = 0;
  const int number = SIGRTMIN + 3;
  struct sigaction earlier {};
  earlier.sa_handler = [](int) { g_foreign_signals.fetch_add(1); };
  ASSERT_EQ(sigaction(number, &earlier, nullptr), 0);
  runtime r({.procs = 1, .time_slice = 1ms, .preempt_signal = number});
  r.run([&] {
    std::atomic<bool> over{false};
    auto other = async([&] { over = true; });
    spin_until(over);
    other.get();
  });
  EXPECT_GE(r.read_stats().preemptions, 1u);
  EXPECT_EQ(g_foreign_signals.load(), 0) << "ours were passed on";
  ASSERT_EQ(kill(getpid(), number), 0);  // to this thread or a goroutine's
  while (g_foreign_signals.load() == 0) std::this_thread::yield();
}

// The goroutine that holds the lock is stopped, and all Ps run into it.
TEST_P(Preempt, TheHolderOfALockGoesOnThoughEverybodyWaitsForIt) {
  for (int round = 0; round < 3; ++round) {
    runtime r({.procs = ps(), .time_slice = 1ms});
    std::mutex lock;
    int inside = 0;
    r.run([&] {
      wait_group all;
      for (int i = 0; i < 8; ++i) {
        all.go([&] {
          const std::scoped_lock hold(lock);
          EXPECT_EQ(++inside, 1);
          spin_for(5ms);
          EXPECT_EQ(--inside, 0);
        });
      }
      for (int i = 0; i < 2 * ps(); ++i) all.go([] { spin_for(20ms); });
      all.wait();
    });
  }
}

// The same with a lock on which others spin.
TEST_P(Preempt, TheHolderOfASpinLockGoesOn) {
  runtime r({.procs = ps(), .time_slice = 1ms});
  std::atomic<bool> locked{false};
  int inside = 0;
  r.run([&] {
    wait_group all;
    for (int i = 0; i < 8; ++i) {
      all.go([&] {
        while (locked.exchange(true)) {
        }
        EXPECT_EQ(++inside, 1);
        spin_for(3ms);
        EXPECT_EQ(--inside, 0);
        locked = false;
      });
    }
    all.wait();
  });
}

TEST(Preempt, ErrnoAndTheThreadStayAcrossAStop) {
  runtime r({.procs = 1, .time_slice = 1ms});
  r.run([&] {
    std::atomic<int> ran{0};
    wait_group all;
    for (int i = 1; i <= 3; ++i) {
      all.go([&, i] {
        errno = i;
        const pid_t thread = gettid();
        ran.fetch_add(1);
        while (ran.load(std::memory_order_relaxed) != 3) {
        }
        EXPECT_EQ(errno, i);
        EXPECT_EQ(gettid(), thread);
      });
    }
    all.wait();
  });
  EXPECT_GE(r.read_stats().preemptions, 2u);
}

TEST(Preempt, FewerPsWhileEveryPSpins) {
  runtime r({.procs = 4});
  r.run([&] {
    std::atomic<bool> over{false};
    std::vector<std::atomic<std::uint64_t>> rounds(8);
    wait_group hogs;
    for (auto& mine : rounds) hogs.go([&] { count_until(over, mine); });
    for (const int count : {1, 3, 2, 4, 1}) {
      set_procs(count);
      this_goroutine::sleep_for(20ms);
    }
    // Fewer Ps do not lose anybody.
    std::vector<std::uint64_t> before;
    for (auto& n : rounds) before.push_back(n.load());
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      while (rounds[i].load() == before[i]) this_goroutine::sleep_for(1ms);
    }
    over = true;
    hogs.wait();
  });
}

// A thread that comes back from the kernel without its P, and computes on.
TEST(Preempt, AnOrphanThatDoesNotComeToTheGateIsStopped) {
  runtime r({.procs = 1, .time_slice = 2ms});
  std::atomic<bool> over{false};
  r.run([&] {
    auto orphan = async([&] {
      usleep(20'000);  // loses its P to the hog below
      spin_until(over);
    });
    auto hog = async([&] { spin_until(over); });
    for (int i = 0; i < 20; ++i) this_goroutine::sleep_for(5ms);
    over = true;
    orphan.get();
    hog.get();
  });
  EXPECT_GE(r.read_stats().retakes, 1u);
}

TEST(Preempt, AGoroutineLockedToItsThreadIsStoppedLikeOthers) {
  runtime r({.procs = 1, .time_slice = 1ms});
  r.run([&] {
    std::atomic<bool> over{false};
    auto hog = async([&] {
      const thread_lock stay;
      const pid_t thread = gettid();
      spin_until(over);
      this_goroutine::yield();
      EXPECT_EQ(gettid(), thread);
    });
    this_goroutine::sleep_for(10ms);
    over = true;
    hog.get();
  });
}

}  // namespace
}  // namespace magpie
