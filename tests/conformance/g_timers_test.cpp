// Section G of Go's behaviours: timers and tickers. One test per row. Times are shorter than in
// Go's tests, and upper bounds are left to the test runner's limit.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <type_traits>
#include <vector>

#include <magpie/magpie.h>

#include "base/random.h"
#include "chan/chan.h"
#include "conformance.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;

constexpr int k_slower = k_sanitized ? 10 : 1;

bool would_block(const receiver<time_point>& from) {
  time_point ignored;
  return from.try_receive(ignored) == channel_result::would_block;
}

// Go's tests stop the world meanwhile; here the number of Ps changes.
class restless {
 public:
  explicit restless(int ps)
      : end_(async([this, ps] {
          for (int i = 0; !stop_; ++i) {
            set_procs(1 + (ps + i) % 4);
            this_goroutine::yield();
          }
        })) {}
  ~restless() {
    stop_ = true;
    end_.get();
  }

 private:
  std::atomic<bool> stop_{false};
  future<void> end_;
};

TEST_P(Conformance, G01_SleepIsNotShortenedByASignal) {
  struct sigaction nothing = {}, before = {};
  nothing.sa_handler = [](int) {};
  sigaction(SIGUSR1, &nothing, &before);
  runtime r({.procs = ps()});
  r.run([] {
    go([] {
      this_goroutine::sleep_for(10ms);
      kill(getpid(), SIGUSR1);
    });
    const auto start = clock::now();
    this_goroutine::sleep_for(20ms);
    EXPECT_GE(clock::now() - start, 20ms);
  });
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_P(Conformance, G02_AfterFuncThatSetsTheNextOneAndSleeps) {
  struct chain {
    std::atomic<int>& left;
    channel<unit> over;
    void operator()() const {
      if (--left == 0) return over.close();
      after_func(0s, *this);
      this_goroutine::sleep_for(50ms);
    }
  };
  std::atomic<int> left{10};
  runtime r({.procs = ps()});
  r.run([&] {
    channel<unit> over;
    after_func(0s, chain{left, over});
    (void)over.receive();
  });
}

TEST_P(Conformance, G03_TickerStress) {
  runtime r({.procs = ps()});
  r.run([&] {
    const restless beside(ps());
    ticker t(1ns);
    for (int i = 0; i < 100; ++i) (void)t.channel().receive();
  });
}

TEST(Conformance, G05_AfterFuncIsNotStarvedByAPingPong) {
  runtime r({.procs = 1});
  r.run([] {
    std::atomic<bool> stop{false};
    channel<bool> a(1), b(1);
    wait_group both;
    after_func(1us, [&] { stop = true; });
    for (const auto& [in, out] : {std::pair(a, b), std::pair(b, a)}) {
      both.go([&stop, in = in, out = out] {
        while (in.receive() && !stop) out.send(true);
        out.close();
      });
    }
    a.send(true);
    both.wait();
  });
}

TEST_P(Conformance, G06_AfterIsNotEarly) {
  runtime r({.procs = ps()});
  r.run([] {
    const auto start = clock::now();
    const time_point end = after(10ms).receive().value();
    EXPECT_GE(clock::now() - start, 10ms);
    EXPECT_GE(end, start + 10ms);
  });
}

TEST_P(Conformance, G07_AfterTicks) {
  runtime r({.procs = ps()});
  r.run([] {
    const auto start = clock::now();
    for (int i = 0; i < 10; ++i) (void)after(5ms).receive();
    EXPECT_GE(clock::now() - start, 50ms);
  });
}

TEST_P(Conformance, G08_StoppedBeforeItsTimeNothingFires) {
  runtime r({.procs = ps()});
  r.run([] {
    timer with_channel(1h);
    timer with_function = after_func(1h, [] { ADD_FAILURE(); });
    EXPECT_TRUE(with_channel.stop());
    EXPECT_TRUE(with_function.stop());
    EXPECT_FALSE(with_channel.stop());
    EXPECT_FALSE(with_function.stop());
    this_goroutine::sleep_for(2ms);
    EXPECT_TRUE(would_block(with_channel.channel()));
  });
}

// The first time it works, the second it is too late.
TEST_P(Conformance, G08_AfterStop) {
  runtime r({.procs = ps()});
  r.run([] {
    timer quick(1us);
    (void)quick.channel().receive();
    EXPECT_FALSE(quick.stop());
    channel<unit> called;
    timer function = after_func(1us, [called] { called.close(); });
    (void)called.receive();
    EXPECT_FALSE(function.stop());
  });
}

// Those that could be stopped do not fire, and only those.
TEST_P(Conformance, G10_TimerStopStress) {
  runtime r({.procs = ps()});
  std::atomic<int> fired{0};
  int stopped = 0;
  r.run([&] {
    std::vector<timer> timers;
    for (int i = 0; i < 100; ++i) {
      timers.push_back(after_func(std::chrono::milliseconds(1 + i % 20), [&] { ++fired; }));
    }
    this_goroutine::sleep_for(10ms);
    for (timer& t : timers) stopped += t.stop();
    const int in_time = 100 - stopped;
    while (fired < in_time) this_goroutine::sleep_for(1ms);
    this_goroutine::sleep_for(20ms);
  });
  EXPECT_EQ(fired + stopped, 100);
}

TEST_P(Conformance, G11_SleepOfNothingBesideResizes) {
  runtime r({.procs = ps()});
  r.run([&] {
    const restless beside(ps());
    for (int i = 0; i < 100; ++i) {
      this_goroutine::sleep_for(0s);
      this_goroutine::yield();
    }
  });
}

TEST_P(Conformance, G12_Reset) {
  runtime r({.procs = ps()});
  r.run([] {
    timer t(1h);
    const auto start = clock::now();
    EXPECT_TRUE(t.reset(5ms));
    EXPECT_GE(t.channel().receive().value(), start + 5ms);
    EXPECT_FALSE(t.reset(1ms));
    EXPECT_TRUE(t.channel().receive());
  });
}

TEST(Conformance, G14_StopOfNoTimerRaisesAndOthersAreStillStopped) {
  runtime r({.procs = 2});
  r.run([] {
    ticker other(1h);
    struct stops_at_the_end {
      ticker& t;
      ~stops_at_the_end() { t.stop(); }
    };
    EXPECT_THROW(
        {
          const stops_at_the_end guard{other};
          timer().stop();
        },
        misuse);
  });
}

TEST(Conformance, G16_AnUninitializedTimerRaises) {
  timer none;
  EXPECT_THROW(none.stop(), misuse);
  EXPECT_THROW(none.reset(1s), misuse);
}

TEST(Conformance, G17_ATimerCannotBeCopied) {
  static_assert(!std::is_copy_constructible_v<timer> && !std::is_copy_assignable_v<timer>);
  static_assert(std::is_move_constructible_v<timer> && std::is_move_assignable_v<timer>);
}

TEST_P(Conformance, G18_ZeroTimers) {
  runtime r({.procs = ps()});
  const int count = 100'000 / k_slower;
  r.run([&] {
    for (int i = 0; i < count; ++i) ASSERT_TRUE(timer(0s).channel().receive());
    channel<unit> called;
    for (int i = 0; i < count; ++i) {
      after_func(0s, [&called] { called.send({}); });
      (void)called.receive();
    }
    timer again(0s);
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(again.channel().receive());
      ASSERT_FALSE(again.reset(0s));
    }
  });
}

// 100 timers go through a script of short and long settings and stops.
TEST_P(Conformance, G20_AdjustTimers) {
  runtime r({.procs = ps()});
  r.run([] {
    wait_group all;
    for (int n = 0; n < 100; ++n) {
      all.go([n] {
        rt::random_source random(static_cast<std::uint64_t>(n));
        timer t(1h);
        bool pending = true;  // or its value is there
        for (int step = 0; step < 20; ++step) {
          switch (random.below(4)) {
            case 0:
              ASSERT_EQ(t.stop(), pending);
              pending = false;
              break;
            case 1:
              ASSERT_EQ(t.reset(1h), pending);
              pending = true;
              break;
            case 2:
              ASSERT_EQ(t.reset(std::chrono::microseconds(random.below(2000))), pending);
              pending = true;
              break;
            default:
              this_goroutine::sleep_for(std::chrono::microseconds(random.below(2000)));
          }
        }
        ASSERT_EQ(t.reset(1ms), pending);
        ASSERT_TRUE(t.channel().receive());
      });
    }
    all.wait();
  });
}

// False: the value has been received, or will be by the one who waits for it.
TEST_P(Conformance, G22_ResetResult) {
  runtime r({.procs = ps()});
  r.run([] {
    for (int i = 0; i < 300; ++i) {
      timer t(std::chrono::microseconds(i % 50));
      auto received = async([from = t.channel()] {
        int count = 0;
        for (time_point out; from.receive_for(out, 2ms) == channel_result::ok;) ++count;
        return count;
      });
      if (i % 3 != 0) this_goroutine::sleep_for(std::chrono::microseconds(i % 60));
      const bool prevented = t.reset(1h);
      ASSERT_EQ(received.get(), prevented ? 0 : 1);
    }
  });
}

TEST_P(Conformance, G23_ManyWaitForOneTicker) {
  runtime r({.procs = ps()});
  constexpr int rounds = 5'000 / k_slower;
  r.run([&] {
    const ticker common(1us);
    wait_group all;
    for (int g = 0; g < ps(); ++g) {
      all.go([ticks = common.channel()] {
        timer mine(1ms);
        for (int i = 0; i < rounds; ++i) {
          select(on_receive(ticks, [](std::optional<time_point>) {}),
                 on_receive(mine.channel(),
                            [&](std::optional<time_point>) { EXPECT_FALSE(mine.reset(1ms)); }));
        }
      });
    }
    all.wait();
  });
}

TEST_P(Conformance, G25_Ticker) {
  runtime r({.procs = ps()});
  r.run([] {
    const auto start = clock::now();
    ticker t(2ms);
    for (int i = 0; i < 5; ++i) (void)t.channel().receive();
    EXPECT_GE(clock::now() - start, 10ms);
    const auto middle = clock::now();
    t.reset(4ms);
    for (int i = 0; i < 5; ++i) EXPECT_GE(t.channel().receive().value(), middle + 4ms);
    EXPECT_GE(clock::now() - middle, 20ms - 4ms);
    t.stop();
    this_goroutine::sleep_for(10ms);
    EXPECT_TRUE(would_block(t.channel()));
  });
}

TEST_P(Conformance, G26_Teardown) {
  runtime r({.procs = ps()});
  r.run([] {
    for (int i = 0; i < 3; ++i) {
      ticker t(1ms);
      (void)t.channel().receive();
      t.stop();
    }
  });
}

TEST(Conformance, G28_APeriodMustBePositive) {
  EXPECT_THROW(ticker(-1s), misuse);
  EXPECT_THROW(ticker(0s), misuse);
  ticker t(1h);
  EXPECT_THROW(t.reset(0s), misuse);
  EXPECT_THROW(t.reset(-1s), misuse);
}

// A timer that is set for long and dropped soon, again and again, does not become dear.
TEST_P(Conformance, G29_LongAdjustTimers) {
  runtime r({.procs = ps()});
  const int goroutines = 5'000 / k_slower;
  r.run([&] {
    wait_group all;
    for (int i = 0; i < goroutines; ++i) {
      all.go([] { this_goroutine::sleep_for(1ms); });
    }
    all.wait();
    channel<int> queue(1);
    for (int i = 0; i < goroutines; ++i) {
      all.go([queue] {
        for (int n = 0; n < 20; ++n) {
          select(on_send(queue, n, [] {}),
                 on_receive(after(1h), [](std::optional<time_point>) { ADD_FAILURE(); }));
          select(on_receive(queue, [](std::optional<int>) {}),
                 on_receive(after(1h), [](std::optional<time_point>) { ADD_FAILURE(); }));
        }
      });
    }
    all.wait();
  });
}

// The script of a timer's channel: nothing stale, no size, one value for all who wait.
TEST_P(Conformance, G31_ChannelOfATimer) {
  runtime r({.procs = ps()});
  r.run([] {
    timer t(1h);
    const receiver<time_point> from = t.channel();
    const auto wait_until_fired = [&] {
      while (!rt::has_values(*from.core())) this_goroutine::sleep_for(10us);
    };
    EXPECT_EQ(from.size(), 0u);
    EXPECT_EQ(from.capacity(), 0u);
    EXPECT_TRUE(would_block(from));
    EXPECT_TRUE(t.reset(1us));
    wait_until_fired();
    EXPECT_EQ(from.size(), 0u);
    EXPECT_TRUE(t.stop());
    EXPECT_TRUE(would_block(from));
    EXPECT_FALSE(t.reset(1us));
    wait_until_fired();
    EXPECT_TRUE(t.reset(1h));
    EXPECT_TRUE(would_block(from));
    EXPECT_TRUE(t.reset(1us));
    EXPECT_TRUE(from.receive());
    EXPECT_FALSE(t.stop());

    t.reset(1h);
    std::atomic<int> got{0};
    wait_group waiting;
    for (int i = 0; i < 3; ++i) {
      waiting.go([&, from] {
        (void)from.receive();
        ++got;
      });
    }
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(t.reset(1us), i == 0);
      while (got != i + 1) this_goroutine::sleep_for(10us);
    }
    waiting.wait();
    EXPECT_TRUE(would_block(from));
  });
}

TEST_P(Conformance, G33_AfterCarriesTheTimeAtWhichItWasDue) {
  runtime r({.procs = ps()});
  r.run([] {
    const receiver<time_point> from = after(1ms);
    const time_point set = clock::now();
    this_goroutine::sleep_for(30ms);
    EXPECT_LE(from.receive().value(), set + 1ms);
  });
}

TEST(Conformance, G35_AnEmptyTickerMayBeStoppedButNotReset) {
  ticker none;
  none.stop();
  EXPECT_THROW(none.reset(1s), misuse);
  static_assert(!std::is_copy_constructible_v<ticker>);
}

}  // namespace
}  // namespace magpie
