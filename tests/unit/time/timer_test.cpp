#include <gtest/gtest.h>
#include <magpie/magpie.h>
#include <magpie/time.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "chan/chan.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;

// Its channel's size says 0 by contract, so this looks inside.
void wait_until_fired(const receiver<time_point>& from) {
  while (!rt::has_values(*from.core())) this_goroutine::sleep_for(10us);
}

bool would_block(const receiver<time_point>& from) {
  time_point ignored;
  return from.try_receive(ignored) == channel_result::would_block;
}

// Shared with a closure: tells when that is gone.
using witness = std::shared_ptr<int>;
witness make_witness() { return std::make_shared<int>(0); }
void wait_until_gone(const witness& w) {
  while (w.use_count() != 1) std::this_thread::yield();
}

class Timer : public ::testing::TestWithParam<int> {
 protected:
  runtime r{config{.procs = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Ps, Timer, ::testing::Values(1, 2, 4, 16));

TEST_P(Timer, FiresOnceAndNotEarly) {
  r.run([] {
    const time_point start = clock::now();
    timer t(2ms);
    const time_point due = t.channel().receive().value();
    EXPECT_GE(due, start + 2ms);
    EXPECT_GE(clock::now(), due);
    EXPECT_TRUE(would_block(t.channel()));
    EXPECT_FALSE(t.stop());
  });
}

TEST_P(Timer, SendsTheTimeAtWhichItWasDue) {
  r.run([] {
    const time_point before = clock::now();
    const receiver<time_point> late = after(1ms);
    const time_point behind = clock::now();
    this_goroutine::sleep_for(20ms);
    const time_point due = late.receive().value();
    EXPECT_GE(due, before + 1ms);
    EXPECT_LE(due, behind + 1ms);
  });
}

TEST_P(Timer, OfNothingFiresAtOnce) {
  r.run([] {
    EXPECT_TRUE(after(0s).receive());
    EXPECT_TRUE(after(-1h).receive());
    EXPECT_TRUE(after(duration::min()).receive());
    EXPECT_TRUE(timer(std::chrono::duration<double>(-1e300)).channel().receive());
  });
}

TEST_P(Timer, OfForEverIsPendingAndCanBeStopped) {
  r.run([] {
    for (const duration d : {no_timeout, no_timeout - 1ns}) {
      timer t(d);
      EXPECT_TRUE(would_block(t.channel()));
      EXPECT_TRUE(t.stop());
      EXPECT_FALSE(t.stop());
    }
    timer t(std::chrono::hours::max());
    EXPECT_TRUE(t.reset(1ns));
    EXPECT_TRUE(t.channel().receive());
  });
}

TEST_P(Timer, StopPreventsItOnce) {
  r.run([] {
    timer t(1h);
    EXPECT_TRUE(t.stop());
    EXPECT_FALSE(t.stop());
    EXPECT_TRUE(would_block(t.channel()));
  });
}

TEST_P(Timer, StopTakesBackAValueThatNobodyHasReceived) {
  r.run([] {
    timer t(1us);
    const receiver<time_point> ticks = t.channel();
    wait_until_fired(ticks);
    EXPECT_TRUE(t.stop());
    EXPECT_TRUE(would_block(ticks));
    EXPECT_FALSE(t.stop());
  });
}

TEST_P(Timer, ResetTakesBackAValueThatNobodyHasReceived) {
  r.run([] {
    timer t(1us);
    const receiver<time_point> ticks = t.channel();
    wait_until_fired(ticks);
    const time_point start = clock::now();
    EXPECT_TRUE(t.reset(2ms));
    EXPECT_GE(ticks.receive().value(), start + 2ms);
    EXPECT_FALSE(t.reset(1us));
    EXPECT_TRUE(ticks.receive());
  });
}

TEST_P(Timer, ResetMovesAPendingOneInBothDirections) {
  r.run([] {
    timer t(1h);
    EXPECT_TRUE(t.reset(1ms));
    EXPECT_TRUE(t.channel().receive());
    EXPECT_FALSE(t.reset(1ms));
    EXPECT_TRUE(t.reset(1h));
    this_goroutine::sleep_for(3ms);
    EXPECT_TRUE(would_block(t.channel()));
    EXPECT_TRUE(t.stop());
    EXPECT_FALSE(t.reset(1us));
    EXPECT_TRUE(t.channel().receive());
  });
}

// Exactly one of both has it: the one who stops, or the one who receives.
TEST_P(Timer, AStopThatRacesWithTheTimeSaysWhoWon) {
  r.run([] {
    for (int i = 0; i < 3000; ++i) {
      timer t(std::chrono::microseconds(i % 30));
      const receiver<time_point> ticks = t.channel();
      if (i % 3 == 0) this_goroutine::sleep_for(std::chrono::microseconds(i % 31));
      time_point out;
      const bool received = i % 2 == 0 && ticks.try_receive(out) == channel_result::ok;
      const bool stopped = t.stop();
      ASSERT_NE(received, stopped);
      ASSERT_TRUE(would_block(ticks));
    }
  });
}

TEST_P(Timer, AResetThatRacesWithTheTimeDeliversNothingStale) {
  r.run([] {
    timer t(1h);
    const receiver<time_point> ticks = t.channel();
    for (int i = 0; i < 3000; ++i) {
      const time_point start = clock::now();
      const duration d = std::chrono::microseconds(i % 20);
      t.reset(d);
      if (i % 3 != 0) continue;
      ASSERT_GE(ticks.receive().value(), start + d);
    }
  });
}

TEST_P(Timer, SeveralWaitForOneValue) {
  r.run([] {
    timer t(1h);
    channel<time_point> got(4);
    for (int i = 0; i < 4; ++i) {
      go([ticks = t.channel(), got] { got.send(ticks.receive().value()); });
    }
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(t.reset(100us), i == 0);
      (void)got.receive();
      EXPECT_EQ(got.size(), 0u);
    }
  });
}

TEST_P(Timer, ReportsNoSizeAndNoCapacity) {
  r.run([] {
    timer t(1us);
    const receiver<time_point> ticks = t.channel();
    EXPECT_EQ(ticks.capacity(), 0u);
    wait_until_fired(ticks);
    EXPECT_EQ(ticks.size(), 0u);
    EXPECT_TRUE(ticks.receive());
  });
}

TEST_P(Timer, MovesAndDropsItsHandle) {
  r.run([] {
    timer a(1ms);
    timer b(std::move(a));
    EXPECT_THROW(a.stop(), misuse);
    a = std::move(b);
    EXPECT_TRUE(a.reset(1ms));
    const receiver<time_point> ticks = a.channel();
    a = timer();
    EXPECT_TRUE(ticks.receive());  // a receiver is enough
  });
}

TEST_P(Timer, AnEmptyOneIsMisused) {
  timer t;
  EXPECT_THROW(t.stop(), misuse);
  EXPECT_THROW(t.reset(1s), misuse);
  EXPECT_FALSE(t.channel());
  ticker k;
  k.stop();
  EXPECT_THROW(k.reset(1s), misuse);
  EXPECT_FALSE(k.channel());
  static_assert(!std::is_copy_constructible_v<timer> && !std::is_copy_constructible_v<ticker>);
  static_assert(std::is_nothrow_move_constructible_v<timer>);
}

TEST_P(Timer, WorksOnPlainThreads) {
  const time_point start = clock::now();
  timer t(2ms);
  EXPECT_GE(t.channel().receive().value(), start + 2ms);
  EXPECT_FALSE(t.reset(1h));
  EXPECT_TRUE(t.stop());
  EXPECT_TRUE(after(1ms).receive());
  std::atomic<bool> called{false};
  after_func(1ms, [&] { called = true; });
  while (!called) std::this_thread::yield();
}

TEST_P(Timer, WorksInsideBlocking) {
  r.run([] {
    blocking([] {
      timer t(1ms);
      EXPECT_TRUE(t.channel().receive());
      EXPECT_FALSE(t.stop());
    });
  });
}

TEST_P(Timer, GoesWithARuntimeToAnother) {
  runtime other{config{.procs = 2}};
  timer t = r.run([] { return timer(1h); });
  other.run([&] {
    EXPECT_TRUE(t.reset(1ms));
    EXPECT_TRUE(t.channel().receive());
    EXPECT_FALSE(t.reset(1h));
  });
  r.run([&] { EXPECT_TRUE(t.stop()); });
}

// ---- Tickers ----------------------------------------------------------------------------------

TEST_P(Timer, TicksAreWholePeriodsApart) {
  r.run([] {
    const time_point start = clock::now();
    ticker t(500us);
    const time_point first = t.channel().receive().value();
    EXPECT_GE(first, start + 500us);
    time_point last = first;
    for (int i = 0; i < 20; ++i) {
      const time_point next = t.channel().receive().value();
      EXPECT_GT(next, last);
      EXPECT_EQ((next - first) % 500us, 0ns);
      EXPECT_LE(next, clock::now());
      last = next;
    }
  });
}

TEST_P(Timer, ASlowReceiverMissesTicks) {
  r.run([] {
    ticker t(100us);
    const time_point first = t.channel().receive().value();
    this_goroutine::sleep_for(20ms);
    // One was kept, the others of these 20 ms were not.
    const time_point old = t.channel().receive().value();
    const time_point next = t.channel().receive().value();
    EXPECT_EQ((old - first) % 100us, 0ns);
    EXPECT_EQ((next - first) % 100us, 0ns);
    EXPECT_GT(old, first);
    EXPECT_GT(next, old + 100us);
  });
}

TEST_P(Timer, AStoppedTickerIsSilentUntilReset) {
  r.run([] {
    ticker t(100us);
    wait_until_fired(t.channel());
    t.stop();
    t.stop();
    EXPECT_TRUE(would_block(t.channel()));
    this_goroutine::sleep_for(2ms);
    EXPECT_TRUE(would_block(t.channel()));
    const time_point start = clock::now();
    t.reset(3ms);
    const time_point first = t.channel().receive().value();
    EXPECT_GE(first, start + 3ms);
    EXPECT_EQ((t.channel().receive().value() - first) % 3ms, 0ns);
  });
}

TEST_P(Timer, AResetTickerForgetsItsOldPhase) {
  r.run([] {
    ticker t(1h);
    for (int i = 0; i < 200; ++i) {
      const time_point start = clock::now();
      t.reset(20us);
      ASSERT_GE(t.channel().receive().value(), start + 20us);
      t.reset(1h);
      ASSERT_TRUE(would_block(t.channel()));
    }
  });
}

TEST_P(Timer, ATickerNeedsAPeriod) {
  r.run([] {
    EXPECT_THROW(ticker(0s), misuse);
    EXPECT_THROW(ticker(-1s), misuse);
    ticker t(1h);
    EXPECT_THROW(t.reset(0s), misuse);
    EXPECT_THROW(t.reset(-1ns), misuse);
    ticker longest(no_timeout);
    EXPECT_TRUE(would_block(longest.channel()));
  });
}

// ---- after_func -------------------------------------------------------------------------------

TEST_P(Timer, AFunctionRunsInAGoroutineOfItsOwn) {
  r.run([&] {
    channel<std::uint64_t> ids;
    const time_point start = clock::now();
    timer t = after_func(1ms, [ids, start, this] {
      EXPECT_GE(clock::now(), start + 1ms);
      EXPECT_EQ(&runtime::current(), &r);
      ids.send(this_goroutine::id());
    });
    EXPECT_FALSE(t.channel());
    const std::uint64_t id = ids.receive().value();
    EXPECT_NE(id, 0u);
    EXPECT_NE(id, this_goroutine::id());
    EXPECT_FALSE(t.stop());
  });
}

TEST_P(Timer, AFunctionRunsAlthoughItsHandleIsDropped) {
  r.run([] {
    channel<unit> called;
    after_func(1ms, [called] { called.send({}); });
    EXPECT_TRUE(called.receive());
  });
}

TEST_P(Timer, AFunctionCanBeStopped) {
  const witness w = make_witness();
  r.run([&] {
    timer t = after_func(1h, [w] { ADD_FAILURE(); });
    EXPECT_TRUE(t.stop());
    EXPECT_FALSE(t.stop());
    EXPECT_EQ(w.use_count(), 2);
  });
  EXPECT_EQ(w.use_count(), 1);
}

TEST_P(Timer, AFunctionRunsOncePerReset) {
  const witness w = make_witness();
  r.run([&] {
    channel<unit> called;
    {
      timer t = after_func(1us, [w, called] { called.send({}); });
      EXPECT_TRUE(called.receive());
      for (int i = 0; i < 100; ++i) {
        EXPECT_FALSE(t.reset(std::chrono::microseconds(i % 7)));
        EXPECT_TRUE(called.receive());
      }
      t.reset(1h);
      EXPECT_TRUE(t.reset(1us));
      EXPECT_TRUE(called.receive());
    }
    unit out;
    EXPECT_EQ(called.try_receive(out), channel_result::would_block);
  });
  wait_until_gone(w);
}

TEST_P(Timer, AFunctionMayResetItsOwnTimer) {
  r.run([] {
    struct shared {
      timer t;
      mutable channel<unit> over;
      int left = 20;
    };
    auto s = std::make_shared<shared>();
    s->t = after_func(1h, [s = s.get()] {
      if (--s->left == 0) return s->over.send({});
      s->t.reset(10us);
    });
    s->t.reset(0s);
    EXPECT_TRUE(s->over.receive());
    EXPECT_EQ(s->left, 0);
  });
}

TEST_P(Timer, AFunctionMayEndItsGoroutine) {
  const witness w = make_witness();
  r.run([&] {
    channel<unit> called;
    after_func(0s, [w, called] {
      called.close();
      this_goroutine::exit();
    });
    (void)called.receive();
  });
  wait_until_gone(w);
}

TEST_P(Timer, AFunctionThatIsStoppedOrRunsNeverBoth) {
  r.run([] {
    for (int i = 0; i < 2000; ++i) {
      auto runs = std::make_shared<std::atomic<int>>(0);
      timer t = after_func(std::chrono::microseconds(i % 20), [runs] { ++*runs; });
      if (i % 3 == 0) this_goroutine::sleep_for(std::chrono::microseconds(i % 17));
      if (t.stop()) {
        ASSERT_EQ(*runs, 0);
        ASSERT_EQ(runs.use_count(), 2);
      } else {
        while (*runs == 0) this_goroutine::yield();
        ASSERT_EQ(*runs, 1);
      }
    }
  });
}

// ---- The end of a runtime ---------------------------------------------------------------------

TEST_P(Timer, PendingOnesDoNotKeepARuntimeWaiting) {
  const witness w = make_witness();
  timer once, function;
  ticker again, quick;
  receiver<time_point> only_a_receiver;
  {
    runtime ends{config{.procs = GetParam()}};
    ends.run([&] {
      once = timer(1h);
      function = after_func(1h, [w] { ADD_FAILURE(); });
      after_func(1h, [w] { ADD_FAILURE(); });
      again = ticker(1h);
      quick = ticker(1us);
      only_a_receiver = after(1h);
    });
  }
  EXPECT_EQ(w.use_count(), 2);  // the handle's
  EXPECT_FALSE(once.stop());
  EXPECT_FALSE(function.stop());
  again.stop();
  quick.stop();
  EXPECT_TRUE(would_block(quick.channel()));
  EXPECT_TRUE(would_block(only_a_receiver));
  // They may serve elsewhere.
  EXPECT_FALSE(once.reset(1us));
  EXPECT_TRUE(once.channel().receive());
  again.reset(1us);
  EXPECT_TRUE(again.channel().receive());
}

TEST_P(Timer, StopsThatRaceWithTheEndOfTheRuntime) {
  for (int i = 0; i < 100; ++i) {
    const witness w = make_witness();
    std::vector<timer> timers;
    auto ends = std::make_unique<runtime>(config{.procs = GetParam()});
    ends->run([&] {
      for (int n = 0; n < 50; ++n) {
        timers.push_back(n % 2 == 0 ? timer(1h) : after_func(1h, [w] { ADD_FAILURE(); }));
      }
    });
    std::thread stops([&] {
      for (timer& t : timers) t.stop();
      timers.clear();
    });
    ends.reset();
    stops.join();
    EXPECT_EQ(w.use_count(), 1);
  }
}

// It runs to its end, waits included, or never; in both cases it is gone afterwards.
TEST_P(Timer, FunctionsThatAreDueWhenTheRuntimeEnds) {
  int complete = 0;
  for (int i = 0; i < 200; ++i) {
    const witness w = make_witness();
    std::atomic<int> begun{0}, ended{0};
    {
      runtime ends{config{.procs = GetParam()}};
      ends.run([&] {
        for (int n = 0; n < 4; ++n) {
          after_func(std::chrono::microseconds(i * 3 + n * 20), [&, w] {
            ++begun;
            this_goroutine::sleep_for(30us);
            ++ended;
          });
        }
      });
    }
    EXPECT_EQ(begun, ended);
    EXPECT_EQ(w.use_count(), 1);
    complete += ended;
  }
  RecordProperty("complete", complete);
}

}  // namespace
}  // namespace magpie
