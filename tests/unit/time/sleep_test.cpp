#include <gtest/gtest.h>
#include <magpie/magpie.h>

#include <atomic>
#include <limits>
#include <thread>
#include <vector>

namespace magpie {
namespace {

using namespace std::chrono_literals;

class Sleep : public ::testing::TestWithParam<int> {
 protected:
  runtime r{config{.procs = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Ps, Sleep, ::testing::Values(1, 2, 4, 16));

TEST_P(Sleep, NeverReturnsEarly) {
  r.run([] {
    for (const duration d : {1us, 50us, 1000us, 5000us}) {
      const auto start = clock::now();
      this_goroutine::sleep_for(d);
      EXPECT_GE(clock::now() - start, d);
    }
  });
}

TEST_P(Sleep, OfNothingReturnsAtOnce) {
  r.run([] {
    this_goroutine::sleep_for(0s);
    this_goroutine::sleep_for(-1h);
    this_goroutine::sleep_for(duration::min());
    this_goroutine::sleep_until(clock::now() - 1s);
    this_goroutine::sleep_for(std::chrono::duration<double>(-1e300));
  });
}

TEST_P(Sleep, WakesInOrderOfTime) {
  std::vector<int> order;
  std::atomic<int> left{20};
  r.run([&] {
    const auto start = clock::now() + 20ms;
    for (int i = 0; i < 20; ++i) {
      go([&, i] {
        this_goroutine::sleep_until(start + i * 1ms);
        if (GetParam() == 1) order.push_back(i);
        --left;
      });
    }
    while (left != 0) this_goroutine::sleep_for(1ms);
  });
  if (GetParam() == 1) {
    for (int i = 0; i < 20; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  }
}

TEST_P(Sleep, ManyAtOnce) {
  std::atomic<int> left{20'000};
  {
    r.run([&] {
      for (int i = 0; i < 20'000; ++i) {
        go([&, i] {
          this_goroutine::sleep_for(std::chrono::microseconds((i * 7919) % 20'000));
          --left;
        });
      }
      while (left != 0) this_goroutine::sleep_for(100us);
    });
  }
  EXPECT_GE(r.read_stats().timer_fires, 19'000u);
}

// The timer is in the heap of a P whose goroutine does not stop: another one, or the monitor,
// sees to it.
TEST_P(Sleep, EndsWhileItsPIsBusy) {
  std::atomic<bool> woke{false};
  r.run([&] {
    go([&] {
      this_goroutine::sleep_for(1ms);
      woke = true;
    });
    this_goroutine::yield();
    // As many as there are Ps; they give way only at gates.
    std::atomic<int> left{GetParam()};
    for (int i = 0; i < GetParam(); ++i) {
      go([&] {
        while (!woke) this_goroutine::checkpoint();
        --left;
      });
    }
    while (left != 0) this_goroutine::checkpoint();
  });
}

TEST_P(Sleep, EndsWhileThePIsInACall) {
  std::atomic<bool> woke{false};
  r.run([&] {
    go([&] {
      this_goroutine::sleep_for(1ms);
      woke = true;
    });
    this_goroutine::yield();
    blocking([&] {
      while (!woke) std::this_thread::yield();
    });
  });
}

TEST_P(Sleep, SurvivesAChangingNumberOfPs) {
  std::atomic<int> left{200};
  r.run([&] {
    for (int i = 0; i < 200; ++i) {
      go([&, i] {
        for (int n = 0; n < 20; ++n) this_goroutine::sleep_for(std::chrono::microseconds(i * 10));
        --left;
      });
    }
    for (int n = 1; left != 0; n = n % 7 + 1) {
      set_procs(n);
      this_goroutine::sleep_for(300us);
    }
  });
}

TEST_P(Sleep, OfPlainThreads) {
  const auto start = clock::now();
  this_goroutine::sleep_for(2ms);
  EXPECT_GE(clock::now() - start, 2ms);
}

TEST_P(Sleep, InsideBlocking) {
  r.run([] {
    blocking([] {
      const auto start = clock::now();
      this_goroutine::sleep_for(2ms);
      EXPECT_GE(clock::now() - start, 2ms);
    });
  });
}

TEST_P(Sleep, AFutureThatIsWaitedForALittle) {
  r.run([] {
    std::atomic<bool> go_on{false};
    auto later = async([&] {
      while (!go_on) this_goroutine::sleep_for(100us);
      return 7;
    });
    EXPECT_FALSE(later.wait_for(1ms));
    EXPECT_FALSE(later.wait_for(0s));
    EXPECT_FALSE(later.wait_for(-1s));
    go_on = true;
    EXPECT_TRUE(later.wait_for(1h));
    EXPECT_TRUE(later.wait_for(0s));
    EXPECT_EQ(later.get(), 7);
  });
}

// The end and the deadline come at the same time, again and again.
TEST_P(Sleep, AFutureWhoseEndRacesWithTheDeadline) {
  r.run([] {
    int in_time = 0;
    for (int i = 0; i < 2000; ++i) {
      auto later = async([i] { this_goroutine::sleep_for(std::chrono::microseconds(i % 40)); });
      while (!later.wait_for(std::chrono::microseconds(i % 37))) {
      }
      later.get();
      ++in_time;
    }
    EXPECT_EQ(in_time, 2000);
  });
}

TEST_P(Sleep, AFutureWaitedForByAPlainThread) {
  std::atomic<bool> go_on{false};
  future<int> later = r.run([&] {
    return async([&] {
      while (!go_on) this_goroutine::sleep_for(100us);
      return 7;
    });
  });
  EXPECT_FALSE(later.wait_for(1ms));
  go_on = true;
  EXPECT_TRUE(later.wait_for(1h));
  EXPECT_EQ(later.get(), 7);
}

}  // namespace
}  // namespace magpie
