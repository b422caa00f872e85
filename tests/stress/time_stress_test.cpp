// Timers and contexts under load, with 1 to 16 Ps. Short by default; MAGPIE_STRESS=N makes every
// test N times as long. A wake-up that is lost shows as a test that does not end; a touch of what
// is gone, under the sanitizers.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

#include "base/random.h"
#include "support/stress.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;
using rt::random_source;
using rt::testing::rounds;

duration up_to(random_source& random, std::uint32_t microseconds) {
  return std::chrono::microseconds(random.below(microseconds));
}

class TimeStress : public rt::testing::with_ps {
 protected:
  // work(random) in some goroutines of the runtime, of another one, and in plain threads.
  template <class Work>
  void from_everywhere(Work work) {
    runtime r({.procs = ps()});
    runtime other({.procs = 2});
    const auto in_goroutines = [&work](int first) {
      wait_group all;
      for (int g = 0; g < 4; ++g) {
        all.go([&work, seed = first + g] {
          random_source random(static_cast<std::uint64_t>(seed));
          work(random);
        });
      }
      all.wait();
    };
    std::thread elsewhere([&] { other.run([&] { in_goroutines(100); }); });
    std::thread plain([&] {
      random_source random(1000);
      work(random);
    });
    r.run([&] { in_goroutines(1); });
    elsewhere.join();
    plain.join();
  }
};
INSTANTIATE_TEST_SUITE_P(Ps, TimeStress, ::testing::Values(1, 2, 4, 16));

// Every setting ends in exactly one way: its value is received, or a stop or reset says that it
// prevented that.
TEST_P(TimeStress, EverySettingOfATimerEndsOnce) {
  constexpr int k_timers = 8;
  std::vector<timer> timers;
  for (int i = 0; i < k_timers; ++i) timers.push_back(timer(1h));
  std::atomic<int> set{k_timers}, prevented{0}, received{0};
  from_everywhere([&](random_source& random) {
    for (int i = 0; i < rounds(2'000); ++i) {
      timer& t = timers[random.below(k_timers)];
      time_point out;
      switch (random.below(4)) {
        case 0:
          prevented += t.stop();
          break;
        case 1:
          ++set;
          prevented += t.reset(up_to(random, 50));
          break;
        case 2:
          received += t.channel().try_receive(out) == channel_result::ok;
          break;
        default:
          received += t.channel().receive_for(out, up_to(random, 100)) == channel_result::ok;
      }
    }
    // A runtime that ends with one pending would end the setting in a third way.
    for (timer& t : timers) prevented += t.stop();
  });
  EXPECT_EQ(set, prevented + received);
}

TEST_P(TimeStress, EverySettingOfAFunctionEndsOnce) {
  constexpr int k_timers = 8;
  std::atomic<int> set{k_timers}, prevented{0}, ran{0};
  std::vector<timer> timers;
  for (int i = 0; i < k_timers; ++i) timers.push_back(after_func(1h, [&] { ++ran; }));
  from_everywhere([&](random_source& random) {
    for (int i = 0; i < rounds(2'000); ++i) {
      timer& t = timers[random.below(k_timers)];
      if (random.below(3) == 0) {
        prevented += t.stop();
      } else {
        ++set;
        prevented += t.reset(up_to(random, 50));
      }
      if (random.below(8) == 0) this_goroutine::sleep_for(up_to(random, 100));
    }
    for (timer& t : timers) prevented += t.stop();
  });
  while (set != prevented + ran) std::this_thread::yield();
}

TEST_P(TimeStress, TickersThatAreResetGiveNothingOld) {
  from_everywhere([&](random_source& random) {
    ticker t(1h);
    const receiver<time_point> ticks = t.channel();
    for (int i = 0; i < rounds(300); ++i) {
      const duration period = up_to(random, 60) + 1us;
      const time_point start = clock::now();
      t.reset(period);
      ASSERT_GE(ticks.receive().value(), start + period);
      if (random.below(4) == 0) this_goroutine::sleep_for(up_to(random, 100));
      time_point out;
      t.stop();
      ASSERT_EQ(ticks.try_receive(out), channel_result::would_block);
    }
  });
}

// Handles go at every moment of a timer's life.
TEST_P(TimeStress, TimersThatAreDropped) {
  from_everywhere([&](random_source& random) {
    std::vector<receiver<time_point>> kept(16);
    for (int i = 0; i < rounds(5'000); ++i) {
      receiver<time_point>& place = kept[random.below(16)];
      switch (random.below(4)) {
        case 0:
          place = after(up_to(random, 100));
          break;
        case 1:
          place = ticker(up_to(random, 20) + 1us).channel();
          break;
        case 2:
          place = timer(up_to(random, 20)).channel();
          if (random.below(2) == 0) (void)place.receive();
          break;
        default:
          after_func(up_to(random, 20), [copy = place] {
            time_point out;
            (void)copy.try_receive(out);
          });
      }
    }
  });
}

TEST_P(TimeStress, RuntimesThatEndWithTimersInTheAir) {
  for (int i = 0; i < rounds(40); ++i) {
    random_source random(static_cast<std::uint64_t>(i) + 1);
    const auto witness = std::make_shared<int>();
    std::atomic<int> begun{0}, ended{0};
    std::vector<timer> timers;
    std::vector<context> contexts;
    auto ends = std::make_unique<runtime>(config{.procs = ps()});
    ends->run([&] {
      for (int n = 0; n < 30; ++n) {
        timers.push_back(after_func(up_to(random, 300), [&, witness] {
          ++begun;
          this_goroutine::sleep_for(20us);
          ++ended;
        }));
        timers.push_back(timer(up_to(random, 300)));
        contexts.push_back(with_timeout({}, up_to(random, 300) + 100us).first);
      }
    });
    std::thread stops([&] {
      for (timer& t : timers) (void)t.stop();
      timers.clear();
      contexts.clear();
    });
    ends.reset();
    EXPECT_EQ(begun, ended);
    stops.join();
    EXPECT_EQ(witness.use_count(), 1);
  }
}

// ---- Contexts ---------------------------------------------------------------------------------

// Trees grow from shared parents while these end, from above, below, by time and by token.
TEST_P(TimeStress, CancellationStorm) {
  for (int round = 0; round < rounds(10); ++round) {
    std::stop_source source;
    auto [top, cancel_top] = with_stop_token({}, source.get_token());
    std::atomic<int> functions{0}, started{0};
    std::atomic<int> wrong{0};
    from_everywhere([&, t = top, c = cancel_top](random_source& random) {
      std::vector<std::pair<context, cancel_function>> mine;
      for (int i = 0; i < 200; ++i) {
        const context parent =
            mine.empty() ? t : mine[random.below(static_cast<std::uint32_t>(mine.size()))].first;
        mine.push_back(random.below(2) == 0 ? with_cancel(parent)
                                            : with_timeout(parent, up_to(random, 2'000)));
        auto& [ctx, cancel] = mine.back();
        if (random.below(4) == 0) {
          ++functions;
          const auto prevent = after_done(ctx, [&started] { ++started; });
          if (random.below(2) == 0 && prevent()) --functions;
        }
        if (random.below(8) == 0) {
          cancel();
          if (!ctx.error()) ++wrong;
        }
        if (random.below(16) == 0) mine.erase(mine.begin() + random.below(4) % mine.size());
        if (i == 150 && random.below(3) == 0) c();
        if (i == 150 && random.below(3) == 0) source.request_stop();
      }
      c();
      for (const auto& [ctx, cancel] : mine) {
        unit out;
        if (!ctx.error() || ctx.done().try_receive(out) != channel_result::closed) ++wrong;
      }
    });
    EXPECT_EQ(wrong, 0);
    while (started != functions) std::this_thread::yield();
  }
}

// Everybody who waits is woken, whoever cancels.
TEST_P(TimeStress, WaitersInAStorm) {
  runtime r({.procs = ps()});
  r.run([] {
    for (int round = 0; round < rounds(20); ++round) {
      auto [top, cancel] = with_timeout({}, 300us);
      wait_group all;
      for (int i = 0; i < 100; ++i) {
        all.go([t = top, i] {
          auto [mine, end] = i % 2 == 0 ? with_cancel(t) : with_timeout(t, i * 5us);
          if (i % 10 == 0) end();
          if (i % 3 == 0) {
            (void)mine.done().receive();
          } else {
            channel<int> never_sent;
            select(on_receive(never_sent, [](std::optional<int>) { ADD_FAILURE(); }),
                   on_done(mine, [] {}));
          }
          EXPECT_TRUE(mine.error());
        });
      }
      if (round % 2 == 0) cancel();
      all.wait();
    }
  });
}

TEST_P(TimeStress, StopRequestsAndLastReferences) {
  runtime r({.procs = ps()});
  r.run([] {
    for (int round = 0; round < rounds(500); ++round) {
      std::stop_source source;
      wait_group all;
      for (int i = 0; i < 4; ++i) {
        all.go([&source, i] {
          for (int n = 0; n < 5; ++n) {
            auto [ctx, cancel] = with_stop_token({}, source.get_token());
            const std::stop_token token = ctx.stop_token();
            if (i == n) cancel();
            this_goroutine::yield();
          }
        });
      }
      all.go([&source] {
        this_goroutine::yield();
        source.request_stop();
      });
      all.wait();
    }
  });
}

TEST_P(TimeStress, GroupsThatFail) {
  from_everywhere([&](random_source& random) {
    for (int i = 0; i < rounds(100); ++i) {
      group all;
      all.set_limit(1 + static_cast<int>(random.below(4)));
      std::atomic<int> running{0};
      const int fails = static_cast<int>(random.below(30));
      for (int n = 0; n < 20; ++n) {
        all.go([&running, n, fails](const context& ctx) {
          ++running;
          if (n == fails) {
            --running;
            throw n;
          }
          if (n % 3 == 0) this_goroutine::yield();
          if (n % 7 == 0 && fails < 20 && n > fails) (void)ctx.done().receive();
          --running;
        });
      }
      int caught = 20;
      try {
        all.wait();
      } catch (int n) {
        caught = n;
      }
      ASSERT_EQ(caught, std::min(fails, 20));
      ASSERT_EQ(running, 0);
    }
  });
}

// The same without the monitor: nothing may need it.
TEST(TimeStress, WithoutTheMonitor) {
  rt::testing::expect_to_end_without_monitor("Ps/TimeStress.*");
}

}  // namespace
}  // namespace magpie
