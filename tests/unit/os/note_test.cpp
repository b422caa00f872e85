#include "os/note.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <new>
#include <thread>

#include "interrupt.h"
#include "os/memory.h"
#include "support/asleep.h"
#include "support/subprocess.h"

namespace magpie::rt::os {
namespace {

TEST(Note, WakeBeforeWaitIsNotLost) {
  note n;
  EXPECT_FALSE(n.woken());
  n.wake();
  EXPECT_TRUE(n.woken());
  n.wait();
  EXPECT_TRUE(n.woken()) << "until it is cleared";
  n.wait();
}

TEST(Note, SleeperIsWoken) {
  note n;
  std::atomic<thread_id> sleeper{0};
  int plain = 0;
  int seen = 0;
  std::thread waiter([&] {
    sleeper = current_thread_id();
    n.wait();
    seen = plain;
  });
  testing::wait_until_asleep(sleeper);
  plain = 42;
  n.wake();
  waiter.join();
  EXPECT_EQ(seen, 42) << "what the waker wrote before must be visible";
}

TEST(Note, ClearedNoteIsNewAgain) {
  note n;
  n.wake();
  n.clear();
  EXPECT_FALSE(n.woken());
  EXPECT_FALSE(n.wait_until(now()));
  n.wake();
  EXPECT_TRUE(n.wait_until(now()));
}

TEST(Note, DeadlinePassesWithoutAWake) {
  note n;
  EXPECT_FALSE(n.wait_until(0));
  EXPECT_FALSE(n.wait_until(-1));
  const nanos deadline = now() + 2'000'000;
  EXPECT_FALSE(n.wait_until(deadline));
  EXPECT_GE(now(), deadline);
  EXPECT_FALSE(n.woken());
  n.wake();
  EXPECT_TRUE(n.wait_until(deadline)) << "woken is woken, however late";
}

TEST(Note, WakeComesBeforeAFarDeadline) {
  note n;
  std::atomic<thread_id> sleeper{0};
  bool woken = false;
  std::thread waiter([&] {
    sleeper = current_thread_id();
    woken = n.wait_until(now() + 3600L * 1'000'000'000);
  });
  testing::wait_until_asleep(sleeper);
  n.wake();
  waiter.join();
  EXPECT_TRUE(woken);
}

TEST(Note, SignalsDoNotEndTheWait) {
  const counted_interrupts interrupts;
  note n;
  std::atomic<thread_id> sleeper{0};
  std::atomic<bool> returned{false};
  std::thread waiter([&] {
    sleeper = current_thread_id();
    n.wait();
    returned = true;
  });
  testing::wait_until_asleep(sleeper);
  counted_interrupts::interrupt_until(
      waiter, [&] { return counted_interrupts::count() >= 50 || returned.load(); });
  EXPECT_FALSE(returned.load());
  n.wake();
  waiter.join();
}

TEST(Note, WakesFromASignalHandler) {
  static note* target;
  note n;
  target = &n;
  struct sigaction action = {};
  struct sigaction previous = {};
  action.sa_handler = [](int) { target->wake(); };
  sigaction(SIGUSR1, &action, &previous);
  std::thread waiter([&] { n.wait(); });
  raise(SIGUSR1);
  waiter.join();
  sigaction(SIGUSR1, &previous, nullptr);
  EXPECT_TRUE(n.woken());
}

TEST(Note, TwoThreadsTakeTurnsForManyRounds) {
  constexpr int k_rounds = 20'000;
  note ping, pong;
  int plain = 0;  // handed to and fro, never locked
  std::thread other([&] {
    for (int round = 0; round < k_rounds; ++round) {
      ping.wait();
      ping.clear();
      ++plain;
      pong.wake();
    }
  });
  for (int round = 0; round < k_rounds; ++round) {
    ASSERT_EQ(plain, round);
    ping.wake();
    pong.wait();
    pong.clear();
  }
  other.join();
  EXPECT_EQ(plain, k_rounds);
}

// The deadline and the wake race; whoever wins, both sides must agree.
TEST(Note, WakeAtTheDeadlineIsEitherSeenOrLeftForLater) {
  for (int round = 0; round < 1000; ++round) {
    note n;
    const nanos deadline = now() + 50'000;
    std::thread waker([&] {
      while (now() < deadline) {
      }
      n.wake();
    });
    if (!n.wait_until(deadline)) n.wait();
    EXPECT_TRUE(n.woken());
    waker.join();
  }
}

// The memory is gone right after wait() returns: a wake() that touched it once more would fault.
TEST(Note, SleeperMayFreeItRightAway) {
  constexpr int k_rounds = 3'000;
  std::atomic<note*> shared{nullptr};
  std::thread waker([&] {
    for (int round = 0; round < k_rounds; ++round) {
      note* n = nullptr;
      while ((n = shared.exchange(nullptr)) == nullptr) std::this_thread::yield();
      n->wake();
    }
  });
  for (int round = 0; round < k_rounds; ++round) {
    const result<void*> page = allocate_records(page_size());
    ASSERT_TRUE(page);
    note* const n = new (*page) note;
    shared = n;
    n->wait();
    ASSERT_FALSE(unmap({n, page_size()}));
  }
  waker.join();
}

TEST(Note, WokenTwiceIsReported) {
  const auto end = testing::run_program("misuse", {"wake_twice"});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_THAT(end.output, ::testing::HasSubstr("magpie: internal error: a note woken twice"));
}

}  // namespace
}  // namespace magpie::rt::os
