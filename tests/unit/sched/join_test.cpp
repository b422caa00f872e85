// Futures: how the end of a goroutine reaches the one who waits for it.
#include <magpie/async.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <magpie/runtime.h>

#include "support/asleep.h"
#include "support/baton.h"
#include "support/subprocess.h"

namespace magpie {
namespace {

using rt::testing::baton;
using ::testing::HasSubstr;

static_assert(std::is_same_v<decltype(async([] { return 1; })), future<int>>);
static_assert(std::is_same_v<decltype(async([] {})), future<void>>);
static_assert(std::is_same_v<decltype(async([](int& i) -> int& { return i; },
                                            std::ref(std::declval<int&>()))),
                             future<int&>>);
static_assert(!std::is_copy_constructible_v<future<int>>);
static_assert(!std::is_copy_assignable_v<future<int>>);
static_assert(std::is_nothrow_move_constructible_v<future<int>>);
static_assert(std::is_nothrow_move_assignable_v<future<int>>);

// Every test twice: asked by a plain thread, and by a goroutine.
class Future : public ::testing::TestWithParam<bool> {
 protected:
  template <class F>
  void as_asked(F f) {
    if (GetParam()) {
      run(f);
    } else {
      f();
    }
  }
};
INSTANTIATE_TEST_SUITE_P(AskedBy, Future, ::testing::Bool(), [](const auto& asked) {
  return std::string(asked.param ? "Goroutine" : "PlainThread");
});

TEST_P(Future, BringsTheValue) {
  as_asked([] { EXPECT_EQ(async([] { return 42; }).get(), 42); });
}

TEST_P(Future, BringsTheEndOfAVoidFunctionAndAllItDid) {
  as_asked([] {
    int plain = 0;
    async([&] { plain = 42; }).get();
    EXPECT_EQ(plain, 42);
  });
}

TEST_P(Future, BringsAReferenceToTheSameObject) {
  as_asked([] {
    std::string text = "there";
    future<std::string&> f = async([&]() -> std::string& { return text; });
    EXPECT_EQ(&f.get(), &text);
    const std::string& constant = text;
    EXPECT_EQ(&async([&]() -> const std::string& { return constant; }).get(), &text);
  });
}

TEST_P(Future, BringsAMoveOnlyValue) {
  as_asked([] {
    const std::unique_ptr<int> value = async([] { return std::make_unique<int>(7); }).get();
    ASSERT_NE(value, nullptr);
    EXPECT_EQ(*value, 7);
  });
}

TEST_P(Future, BringsAValueThatCannotBeDefaultConstructed) {
  struct no_default {
    explicit no_default(int v) : value(v) {}
    int value;
  };
  as_asked([] { EXPECT_EQ(async([] { return no_default(3); }).get().value, 3); });
}

TEST_P(Future, BringsTheException) {
  as_asked([] {
    future<int> f = async([]() -> int { throw std::runtime_error("broke"); });
    try {
      f.get();
      ADD_FAILURE() << "nothing thrown";
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "broke");
    }
    EXPECT_FALSE(f.valid()) << "the exception was the result";
  });
}

TEST_P(Future, WaitDoesNotThrowTheException) {
  as_asked([] {
    future<void> f = async([] { throw 1; });
    f.wait();
    EXPECT_TRUE(f.ready());
    EXPECT_THROW(f.get(), int);
  });
}

TEST_P(Future, OfAGoroutineThatCalledExitIsMisuse) {
  as_asked([] {
    bool destroyed = false;
    struct sets {
      bool& flag;
      ~sets() { flag = true; }
    };
    future<int> f = async([&]() -> int {
      const sets at_end{destroyed};
      this_goroutine::exit();
    });
    EXPECT_THROW(f.get(), misuse);
    EXPECT_TRUE(destroyed);
    EXPECT_THROW(async([] { this_goroutine::exit(); }).get(), misuse);
  });
}

TEST_P(Future, ASecondGetIsMisuse) {
  as_asked([] {
    future<int> f = async([] { return 1; });
    EXPECT_TRUE(f.valid());
    EXPECT_EQ(f.get(), 1);
    EXPECT_FALSE(f.valid());
    EXPECT_FALSE(f.ready());
    EXPECT_THROW(f.get(), misuse);
    EXPECT_THROW(f.wait(), misuse);
  });
}

TEST_P(Future, BringsAResultOfAnySizeAndAlignment) {
  struct alignas(256) aligned {
    char byte = 1;
  };
  struct large {
    std::array<char, 5000> bytes;
  };
  as_asked([] {
    for (int i = 0; i < 10; ++i) {
      future<aligned> first = async([] { return aligned{}; });
      future<large> second = async([] { return large{}; });
      const aligned got = first.get();
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&got) % alignof(aligned), 0u);
      EXPECT_EQ(got.byte, 1);
      EXPECT_EQ(second.get().bytes[4999], 0);
    }
  });
}

// The state is gone, too: a build with AddressSanitizer would see it.
TEST(Future, ThatCannotBeSpawnedIsNotLeftBehind) {
  const detail::spawn_request too_large{.where = nullptr, .stack_size = SIZE_MAX / 2};
  EXPECT_THROW((void)async_on(too_large, [] { return 1; }), misuse);
  const auto owned = std::make_shared<int>(2);
  EXPECT_THROW((void)async_on(too_large, [owned] { return *owned; }), misuse);
  EXPECT_EQ(owned.use_count(), 1);
  EXPECT_THROW((void)async_on(
                   too_large, [](int i) { return i; }, 3),
               misuse);
}

TEST(Future, WaitedForByTwoEndsTheProcess) {
  const auto end = rt::testing::run_program("sync_misuse", {"future_two_wait"});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_THAT(end.output, HasSubstr("two goroutines or threads wait for one future at a time"));
}

TEST(Future, DestroyedWhileSomebodyWaitsEndsTheProcess) {
  const auto end = rt::testing::run_program("sync_misuse", {"future_dropped_under_wait"});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_THAT(end.output, HasSubstr("a future destroyed while a goroutine or thread waits for it"));
}

TEST(Future, MadeOfNothingIsMisuseToWaitFor) {
  future<int> f;
  EXPECT_FALSE(f.valid());
  EXPECT_FALSE(f.ready());
  EXPECT_THROW(f.get(), misuse);
  EXPECT_THROW(f.wait(), misuse);
}

TEST_P(Future, IsReadyAfterTheEndAndNotBefore) {
  as_asked([] {
    baton go_on;
    future<void> f = async([&] { go_on.take(); });
    EXPECT_FALSE(f.ready());
    EXPECT_TRUE(f.valid());
    go_on.give();
    while (!f.ready()) this_goroutine::yield();
    EXPECT_TRUE(f.valid()) << "nobody has asked for the result yet";
    f.get();
  });
}

TEST_P(Future, MayBeWaitedForManyTimes) {
  as_asked([] {
    future<int> f = async([] { return 5; });
    for (int i = 0; i < 3; ++i) f.wait();
    EXPECT_EQ(f.get(), 5);
  });
}

TEST_P(Future, MovesAndSwaps) {
  as_asked([] {
    future<int> first = async([] { return 1; });
    future<int> second = std::move(first);
    EXPECT_FALSE(first.valid());
    EXPECT_TRUE(second.valid());
    first = async([] { return 2; });
    first.swap(second);
    EXPECT_EQ(first.get(), 1);
    EXPECT_EQ(second.get(), 2);
    first = std::move(second);
    EXPECT_FALSE(first.valid());
  });
}

TEST_P(Future, DroppedLetsTheGoroutineGoOn) {
  as_asked([] {
    baton go_on, ended;
    {
      const future<void> dropped = async([&] { go_on.take(), ended.give(); });
    }
    go_on.give();
    ended.take();
  });
}

TEST_P(Future, DroppedDropsTheException) {
  as_asked([] {
    const auto go_on = std::make_shared<baton>();  // nobody waits for the last one who uses it
    std::weak_ptr<int> thrown;
    {
      auto carried = std::make_shared<int>(1);
      thrown = carried;
      const future<void> dropped = async([go_on, carried = std::move(carried)] {
        go_on->take();
        throw carried;
      });
    }
    go_on->give();
    while (!thrown.expired()) this_goroutine::yield();
  });
}

TEST_P(Future, AssignedOverDropsTheOldOne) {
  as_asked([] {
    baton go_on, ended;
    future<int> f = async([&] { return go_on.take(), ended.give(), 1; });
    f = async([] { return 2; });
    EXPECT_EQ(f.get(), 2);
    go_on.give();
    ended.take();
  });
}

TEST_P(Future, OfAGoroutineAlreadyEndedReturnsAtOnce) {
  as_asked([] {
    baton almost_over;
    future<int> f = async([&] { return almost_over.give(), 9; });
    almost_over.take();
    while (!f.ready()) this_goroutine::yield();
    EXPECT_EQ(f.get(), 9);
  });
}

// The goroutine's last instruction comes before get() returns, and its last instructions destroy
// what it was made of.
TEST_P(Future, IsNotReadyBeforeTheGoroutinesCaptureIsDestroyed) {
  as_asked([] {
    struct slow_end {
      std::atomic<int>* ends;
      explicit slow_end(std::atomic<int>* e) : ends(e) {}
      slow_end(slow_end&& other) noexcept : ends(std::exchange(other.ends, nullptr)) {}
      ~slow_end() {
        if (ends == nullptr) return;
        for (int i = 0; i < 10; ++i) this_goroutine::yield();
        ends->fetch_add(1);
      }
    };
    std::atomic<int> ends{0};
    for (int i = 1; i <= 100; ++i) {
      async([guard = slow_end(&ends)] { (void)guard; }).get();
      ASSERT_EQ(ends, i);
    }
    ends = 0;
    struct large {
      char bytes[1000];
    };
    async([guard = slow_end(&ends), more = large{}] { (void)guard, (void)more; }).get();
    EXPECT_EQ(ends, 1) << "with a closure too large for the goroutine itself";
  });
}

TEST(Future, WakesAPlainThreadThatSleeps) {
  std::atomic<rt::os::thread_id> sleeper{0};
  baton go_on;
  future<int> f = async([&] { return go_on.take(), 11; });
  int got = 0;
  std::thread waiter([&] {
    sleeper = rt::os::current_thread_id();
    got = f.get();
  });
  rt::testing::wait_until_asleep(sleeper);
  go_on.give();
  waiter.join();
  EXPECT_EQ(got, 11);
}

TEST(Future, WakesAGoroutineOfAnotherRuntime) {
  runtime one({.procs = 1}), other({.procs = 1});
  const int got = one.run([&] {
    baton go_on;
    future<int> f = async_on({&rt::scheduler_of(other)}, [&] {
      go_on.take();
      EXPECT_EQ(&runtime::current(), &other);
      return 12;
    });
    EXPECT_EQ(&runtime::current(), &one);
    go_on.give();
    return f.get();
  });
  EXPECT_EQ(got, 12);
}

TEST(Future, CarriesOneValueThroughAChainOfGoroutines) {
  runtime r({.procs = 2});
  const int got = r.run([] {
    future<int> last = async([] { return 0; });
    for (int i = 0; i < 10'000; ++i) {
      last = async([before = std::move(last)]() mutable { return before.get() + 1; });
    }
    return last.get();
  });
  EXPECT_EQ(got, 10'000);
}

// What a callable costs that throws when it is copied: nothing is left behind, at whichever copy
// it throws.
TEST_P(Future, ACallableThatThrowsWhileSpawningLeavesNothingBehind) {
  as_asked([] {
    struct counts {
      std::atomic<int>* alive;  // the copies are destroyed on either side
      std::atomic<int>* until_throw;
      counts(std::atomic<int>* a, std::atomic<int>* u) : alive(a), until_throw(u) { ++*alive; }
      counts(const counts& other) : alive(other.alive), until_throw(other.until_throw) {
        if (--*until_throw < 0) throw std::bad_alloc();
        ++*alive;
      }
      ~counts() { --*alive; }
      int operator()() const { return 1; }
    };
    for (int copies = 0;; ++copies) {
      std::atomic<int> alive{0};
      std::atomic<int> until_throw{copies};
      bool thrown = false;
      {
        const counts original(&alive, &until_throw);
        try {
          EXPECT_EQ(async(original).get(), 1);
        } catch (const std::bad_alloc&) {
          thrown = true;
        }
      }
      ASSERT_EQ(alive, 0) << "thrown by copy " << copies;
      if (!thrown) break;
      ASSERT_LT(copies, 100) << "that many copies are not needed";
    }
  });
}

TEST(Run, ReturnsTheValueOrThrowsTheException) {
  EXPECT_EQ(run([] { return 1; }), 1);
  run([] {});
  EXPECT_EQ(*run([] { return std::make_unique<int>(2); }), 2);
  EXPECT_THROW(run([] { throw std::out_of_range("far"); }), std::out_of_range);
  EXPECT_THROW(run([] { this_goroutine::exit(); }), misuse);
}

TEST(Run, NestsInsideGoroutines) {
  runtime r({.procs = 1});
  const auto depth = [](auto self, int n) -> int {
    return n == 0 ? 0 : 1 + run([=] { return self(self, n - 1); });
  };
  EXPECT_EQ(r.run([&] { return depth(depth, 100); }), 100);
  r.run([&] {
    const auto outer = this_goroutine::id();
    run([&] {
      EXPECT_NE(this_goroutine::id(), outer) << "a goroutine of its own";
      EXPECT_EQ(&runtime::current(), &r) << "of the same runtime";
    });
  });
}

}  // namespace
}  // namespace magpie
