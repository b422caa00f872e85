#include "os/futex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <thread>
#include <vector>

#include "interrupt.h"
#include "os/memory.h"
#include "support/asleep.h"
#include "support/subprocess.h"

namespace magpie::rt::os {

void PrintTo(futex_outcome outcome, std::ostream* out) {
  *out << (outcome == futex_outcome::woken     ? "woken"
           : outcome == futex_outcome::changed ? "changed"
                                               : "timed out");
}

namespace {

TEST(Futex, WordThatIsNotAsExpectedDoesNotBlock) {
  futex_word word{1};
  EXPECT_EQ(futex_wait(word, 0), futex_outcome::changed);
  EXPECT_EQ(futex_wait(word, 0, now() + 1'000'000'000), futex_outcome::changed);
  EXPECT_EQ(futex_wait(word, UINT32_MAX), futex_outcome::changed);
}

TEST(Futex, AllBitsOfTheWordAreCompared) {
  futex_word word{0x80000000U};
  EXPECT_EQ(futex_wait(word, 0), futex_outcome::changed);
  EXPECT_EQ(futex_wait(word, 0x80000000U, now()), futex_outcome::timed_out);
}

TEST(Futex, DeadlineInThePastTimesOutAtOnce) {
  futex_word word{0};
  EXPECT_EQ(futex_wait(word, 0, 0), futex_outcome::timed_out);
  EXPECT_EQ(futex_wait(word, 0, -1), futex_outcome::timed_out);
  EXPECT_EQ(futex_wait(word, 0, INT64_MIN), futex_outcome::timed_out);
  EXPECT_EQ(futex_wait(word, 0, now() - 1), futex_outcome::timed_out);
}

TEST(Futex, DeadlineIsNotReportedBeforeItPassed) {
  futex_word word{0};
  for (const nanos wait : {1'000, 100'000, 3'000'000}) {
    const nanos deadline = now() + wait;
    EXPECT_EQ(futex_wait(word, 0, deadline), futex_outcome::timed_out);
    EXPECT_GE(now(), deadline);
  }
}

TEST(Futex, FarDeadlinesAreWaitedFor) {
  for (const nanos deadline : {k_never - 1, now() + 3600L * 1'000'000'000}) {
    futex_word word{0};
    std::atomic<thread_id> sleeper{0};
    futex_outcome outcome{};
    std::thread waiter([&] {
      sleeper = current_thread_id();
      outcome = futex_wait(word, 0, deadline);
    });
    testing::wait_until_asleep(sleeper);
    word = 1;
    futex_wake(&word, 1);
    waiter.join();
    EXPECT_NE(outcome, futex_outcome::timed_out);
  }
}

TEST(Futex, WakesNoMoreThanAskedForAndSaysHowMany) {
  constexpr int k_waiters = 6;
  futex_word word{0};
  std::atomic<thread_id> sleepers[k_waiters] = {};
  std::atomic<int> returned{0};
  std::vector<std::thread> waiters;
  for (auto& sleeper : sleepers) {
    waiters.emplace_back([&] {
      sleeper = current_thread_id();
      while (futex_wait(word, 0) != futex_outcome::woken) {
      }
      returned.fetch_add(1);
    });
  }
  for (const auto& sleeper : sleepers) testing::wait_until_asleep(sleeper);
  int woken = 0;
  for (const int count : {1, 2, INT_MAX}) {
    int now_woken = 0;
    while (now_woken == 0) now_woken = futex_wake(&word, count);
    EXPECT_LE(now_woken, count);
    woken += now_woken;
    while (returned.load() < woken) std::this_thread::yield();
    EXPECT_EQ(returned.load(), woken) << "somebody returned who was not woken";
  }
  while (woken < k_waiters) woken += futex_wake(&word, 1);
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(woken, k_waiters);
}

TEST(Futex, WakeWithoutWaitersWakesNobody) {
  futex_word word{0};
  errno = EXDEV;
  EXPECT_EQ(futex_wake(&word, 1), 0);
  EXPECT_EQ(futex_wake(&word, INT_MAX), 0);
  EXPECT_EQ(errno, EXDEV);
}

TEST(Futex, WaitersOnOtherWordsSleepOn) {
  futex_word words[2] = {};
  std::atomic<thread_id> sleeper{0};
  std::atomic<bool> done{false};
  std::thread waiter([&] {
    sleeper = current_thread_id();
    while (words[0].load() == 0) futex_wait(words[0], 0);
    done = true;
  });
  testing::wait_until_asleep(sleeper);
  EXPECT_EQ(futex_wake(&words[1], INT_MAX), 0);
  EXPECT_FALSE(done.load());
  words[0] = 1;
  futex_wake(&words[0], 1);
  waiter.join();
}

TEST(Futex, WakeOfAWordThatIsGoneWakesNobody) {
  const result<void*> page = allocate_records(page_size());
  ASSERT_TRUE(page);
  auto* const word = static_cast<futex_word*>(*page);
  ASSERT_EQ(mprotect(*page, page_size(), PROT_NONE), 0);
  errno = EXDEV;
  EXPECT_EQ(futex_wake(word, 1), 0) << "not even readable";
  ASSERT_FALSE(unmap({*page, page_size()}));
  EXPECT_EQ(futex_wake(word, 1), 0) << "unmapped";
  EXPECT_EQ(errno, EXDEV);
}

TEST(Futex, WakeOfAnAddressThatNobodyCanHaveWakesNobody) {
  errno = EXDEV;
  EXPECT_EQ(futex_wake(reinterpret_cast<futex_word*>(~std::uintptr_t{0xfff}), 1), 0);
  EXPECT_EQ(errno, EXDEV) << "the kernel said EFAULT, and that is nobody's business";
}

TEST(Futex, ErrnoIsKept) {
  futex_word word{1};
  errno = EXDEV;
  EXPECT_EQ(futex_wait(word, 0), futex_outcome::changed);
  EXPECT_EQ(errno, EXDEV);
  EXPECT_EQ(futex_wait(word, 1, 0), futex_outcome::timed_out);
  EXPECT_EQ(errno, EXDEV);
}

TEST(Futex, InterruptionBySignalIsReportedAsWoken) {
  const counted_interrupts interrupts;
  for (const nanos deadline : {k_never, now() + 3600L * 1'000'000'000}) {
    futex_word word{0};
    std::atomic<bool> returned{false};
    futex_outcome outcome{};
    std::thread waiter([&] {
      outcome = futex_wait(word, 0, deadline);
      returned = true;
    });
    counted_interrupts::interrupt_until(waiter, [&] { return returned.load(); });
    waiter.join();
    EXPECT_EQ(outcome, futex_outcome::woken);
  }
}

// The store and the wake may come anywhere around the compare and the falling asleep. A wake that
// is lost hangs the test.
TEST(Futex, WakeAfterAStoreIsNeverLost) {
  constexpr std::uint32_t k_rounds = 20'000;
  futex_word ping{0}, pong{0};
  std::thread other([&] {
    for (std::uint32_t round = 0; round < k_rounds; ++round) {
      while (ping.load() == round) futex_wait(ping, round);
      pong = round + 1;
      futex_wake(&pong, 1);
    }
  });
  for (std::uint32_t round = 0; round < k_rounds; ++round) {
    ping = round + 1;
    futex_wake(&ping, 1);
    while (pong.load() == round) futex_wait(pong, round);
    ASSERT_EQ(pong.load(), round + 1);
  }
  other.join();
}

TEST(Futex, MisalignedWordIsReported) {
  const auto end =
      testing::run_program("misuse", {"misaligned_futex"}, {"UBSAN_OPTIONS=halt_on_error=0"});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_THAT(end.output, ::testing::HasSubstr("futex wake refused by the kernel"));
}

}  // namespace
}  // namespace magpie::rt::os
