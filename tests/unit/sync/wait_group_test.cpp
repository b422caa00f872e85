#include <magpie/wait_group.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include <magpie/magpie.h>

#include "support/subprocess.h"

namespace magpie {
namespace {

using rt::testing::run_program;

static_assert(!std::is_copy_constructible_v<wait_group>);
[[maybe_unused]] constinit wait_group g_in_static_storage;

std::string what_of(auto f) {
  try {
    f();
  } catch (const misuse& e) {
    return e.what();
  }
  return "nothing thrown";
}

TEST(WaitGroup, WaitsForAll) {
  for (const int ps : {1, 2, 4}) {
    runtime r({.procs = ps});
    r.run([] {
      wait_group all;
      std::atomic<int> ran{0};
      for (int round = 1; round <= 3; ++round) {
        for (int i = 0; i < 1000; ++i) all.go([&ran] { ++ran; });
        all.wait();
        EXPECT_EQ(ran, 1000 * round);
      }
    });
  }
}

TEST(WaitGroup, OfNothingDoesNotWait) {
  wait_group none;
  none.wait();
  none.add(0);
  none.wait();
  none.add(2);
  none.add(-2);
  none.wait();
}

TEST(WaitGroup, ReleasesEverybodyWhoWaits) {
  runtime r({.procs = 2});
  r.run([] {
    wait_group work, waiters;
    work.add(1);
    std::thread outside([&] { work.wait(); });
    for (int i = 0; i < 10; ++i) waiters.go([&] { work.wait(); });
    this_goroutine::yield();
    work.done();
    waiters.wait();
    blocking([&] { outside.join(); });
  });
}

TEST(WaitGroup, CountingBelowZeroThrowsAndChangesNothing) {
  wait_group w;
  EXPECT_EQ(what_of([&] { w.done(); }), "negative wait_group counter");
  w.wait();
  w.add(1);
  EXPECT_THROW(w.add(-2), misuse);
  EXPECT_THROW(w.add(PTRDIFF_MIN), misuse);
  EXPECT_THROW(w.add(PTRDIFF_MAX), misuse);
  w.done();
  w.wait();
}

TEST(WaitGroup, CountingBelowZeroWhileSomebodyWaitsChangesNothing) {
  runtime r({.procs = 1});
  r.run([] {
    wait_group w, other;
    bool returned = false;
    w.add(1);
    other.go([&] {
      w.wait();
      returned = true;
    });
    this_goroutine::yield();
    EXPECT_THROW(w.add(-2), misuse);
    this_goroutine::yield();
    EXPECT_FALSE(returned);
    w.done();
    other.wait();
  });
}

// On one P the woken goroutine runs after the add(). It must not look: the group may be gone.
TEST(WaitGroup, MayBeUsedAgainWhileThoseWokenAreOnTheirWayOut) {
  runtime r({.procs = 1});
  r.run([] {
    wait_group w, other;
    bool returned = false;
    w.add(1);
    other.go([&] {
      w.wait();
      returned = true;
    });
    this_goroutine::yield();
    w.done();
    w.add(1);
    EXPECT_FALSE(returned);
    other.wait();
    w.done();
    w.wait();
  });
}

// The number is zero, and whoever made it so is about to wake those who wait.
TEST(WaitGroup, CountingUpFromAZeroThatIsWaitedForIsMisuse) {
  using detail::countdown;
  runtime r({.procs = 1});
  r.run([] {
    countdown number(1);
    wait_group other;
    other.go([&] { number.wait(countdown::kind::wait_group); });
    this_goroutine::yield();
    const auto zero = number.change(-countdown::k_one) - countdown::k_one;
    ASSERT_EQ(zero, countdown::k_wake);
    const std::string said =
        what_of([&] { end_of_change(number, countdown::k_one, number.change(countdown::k_one)); });
    EXPECT_EQ(said, "wait_group: add called concurrently with wait");
    // The one who was refused was back at zero, and has woken those who wait for that.
    EXPECT_TRUE(number.is_over());
    end_of_change(number, -countdown::k_one, zero + countdown::k_one);
    EXPECT_TRUE(number.is_over());
    other.wait();
  });
}

// One more who waits comes while a count that will be refused is there.
TEST(WaitGroup, OneWhoWaitsForWhatIsRefusedIsNotForgotten) {
  using detail::countdown;
  runtime r({.procs = 1});
  r.run([] {
    countdown number(1);
    wait_group others;
    const auto wait = [&] { number.wait(countdown::kind::wait_group); };
    others.go(wait);
    this_goroutine::yield();
    const auto before = number.change(-countdown::k_one);  // to zero
    const auto zero = number.change(countdown::k_one);     // up from there
    end_of_change(number, -countdown::k_one, before);
    others.go(wait);
    this_goroutine::yield();
    EXPECT_THROW(end_of_change(number, countdown::k_one, zero), misuse);
    others.wait();
    EXPECT_TRUE(number.is_over());
  });
}

// The same below zero.
TEST(WaitGroup, OneWhoWaitsWhileOneCountsTooMuchIsNotForgotten) {
  using detail::countdown;
  runtime r({.procs = 1});
  r.run([] {
    countdown number(1);
    wait_group others;
    others.go([&] { number.wait(countdown::kind::wait_group); });
    this_goroutine::yield();
    const auto before = number.change(-countdown::k_one);  // to zero
    const auto zero = number.change(-countdown::k_one);    // below
    end_of_change(number, -countdown::k_one, before);
    EXPECT_THROW(end_of_change(number, -countdown::k_one, zero), misuse);
    others.wait();
    EXPECT_TRUE(number.is_over());
  });
}

TEST(WaitGroup, TheFunctionIsGoneBeforeItCountsAsDone) {
  for (const int ps : {1, 2}) {
    runtime r({.procs = ps});
    r.run([] {
      for (int i = 0; i < 200; ++i) {
        auto alive = std::make_shared<int>(0);
        wait_group w;
        w.go([alive] { ++*alive; });
        w.wait();
        EXPECT_EQ(alive.use_count(), 1);
      }
    });
  }
}

TEST(WaitGroup, ExitCountsAsDone) {
  runtime r({.procs = 2});
  r.run([] {
    wait_group w;
    w.go([] { this_goroutine::exit(); });
    w.go([big = std::vector<int>(100)] { this_goroutine::exit(); });
    w.wait();
  });
}

TEST(WaitGroup, AFailedSpawnIsNotWaitedFor) {
  struct cannot_be_copied {
    cannot_be_copied() = default;
    cannot_be_copied(const cannot_be_copied&) { throw 1; }
    void operator()() const {}
  };
  runtime r({.procs = 1});
  r.run([] {
    wait_group w;
    const cannot_be_copied f;
    EXPECT_THROW(w.go(f), int);
    w.wait();
  });
}

TEST(WaitGroup, AnExceptionEndsTheProcessBeforeWaitReturns) {
  const auto end = run_program("sync_misuse", {"wait_group_exception"});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_THAT(end.output, ::testing::HasSubstr("thrown in a wait_group"));
  EXPECT_THAT(end.output, ::testing::Not(::testing::HasSubstr("wait returned")));
}

TEST(WaitGroup, MayGoAsSoonAsWaitReturned) {
  for (const int ps : {1, 2, 4}) {
    runtime r({.procs = ps});
    r.run([] {
      for (int i = 0; i < 2000; ++i) {
        auto w = std::make_unique<wait_group>();
        for (int g = 0; g < 3; ++g) w->go([] {});
        w->wait();
      }
    });
  }
}

// ---- Misuse at the same time as use -----------------------------------------------------------

// Counts, and says whether it was allowed to.
bool allowed(wait_group& w, std::ptrdiff_t by) {
  try {
    w.add(by);
    return true;
  } catch (const misuse&) {
    return false;
  }
}

bool done(wait_group& w) {
  try {
    w.done();
    return true;
  } catch (const misuse&) {
    return false;
  }
}

struct misuse_outcome {
  std::atomic<long> refused_dones{0};
  std::atomic<long> stolen{0};
};

// Some count up and down, some wait, some do what is not allowed; everybody gets to the end.
template <class Offend>
void use_beside(int ps, misuse_outcome& seen, Offend offend) {
  runtime r({.procs = ps});
  r.run([&] {
    constexpr int k_each = 3, k_rounds = 5000;
    wait_group subject, all;
    std::atomic<bool> over{false};
    wait_group workers;
    for (int i = 0; i < k_each; ++i) {
      workers.go([&] {
        for (int round = 0; round < k_rounds; ++round) {
          if (!allowed(subject, 1)) continue;  // somebody waits for the zero just now
          if (round % 16 == 0) this_goroutine::yield();
          if (!done(subject)) ++seen.refused_dones;
        }
      });
      all.go([&] {
        while (!over) {
          subject.wait();
          this_goroutine::checkpoint();
        }
      });
      all.go([&] {
        while (!over) {
          offend(subject);
          this_goroutine::checkpoint();
        }
      });
    }
    workers.wait();
    over = true;
    all.wait();
    subject.wait();
    EXPECT_FALSE(allowed(subject, -1)) << "something is left";
    subject.wait();
  });
}

TEST(WaitGroup, OneThatIsRefusedDoesNotDisturbOthers) {
  for (const int ps : {1, 2, 4}) {
    misuse_outcome seen;
    use_beside(ps, seen, [](wait_group& w) { EXPECT_FALSE(allowed(w, -1000)); });
    EXPECT_EQ(seen.refused_dones, 0);
  }
}

TEST(WaitGroup, EveryDoneCountsOnce) {
  for (const int ps : {1, 2, 4}) {
    misuse_outcome seen;
    use_beside(ps, seen, [&seen](wait_group& w) {
      if (allowed(w, -1)) ++seen.stolen;
    });
    EXPECT_EQ(seen.refused_dones, seen.stolen);
  }
}

}  // namespace
}  // namespace magpie
