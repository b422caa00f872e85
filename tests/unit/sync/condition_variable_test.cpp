#include <magpie/condition_variable.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

namespace magpie {
namespace {

using namespace std::chrono_literals;

TEST(ConditionVariable, CarriesValuesBetweenGoroutinesAndThreads) {
  for (const int ps : {1, 2, 4}) {
    runtime r({.procs = ps});
    mutex guard;
    condition_variable changed;
    std::deque<int> queue;
    long sum = 0;
    constexpr int k_values = 2000;
    std::thread producer([&] {
      for (int i = 1; i <= k_values; ++i) {
        const std::scoped_lock hold(guard);
        queue.push_back(i);
        changed.notify_one();
      }
    });
    r.run([&] {
      wait_group all;
      for (int g = 0; g < 4; ++g) {
        all.go([&] {
          for (int i = 0; i < k_values / 4; ++i) {
            std::unique_lock hold(guard);
            changed.wait(hold, [&] { return !queue.empty(); });
            sum += queue.front();
            queue.pop_front();
          }
        });
      }
      all.wait();
    });
    producer.join();
    EXPECT_EQ(sum, long{k_values} * (k_values + 1) / 2);
  }
}

TEST(ConditionVariable, NotifiesInTheOrderOfArrival) {
  runtime r({.procs = 1});
  r.run([] {
    mutex guard;
    condition_variable cv;
    std::vector<int> order;
    wait_group all;
    for (int i = 0; i < 5; ++i) {
      all.go([&, i] {
        std::unique_lock hold(guard);
        cv.wait(hold);
        order.push_back(i);
      });
      this_goroutine::yield();
    }
    for (int i = 0; i < 5; ++i) {
      cv.notify_one();
      this_goroutine::yield();
    }
    all.wait();
    EXPECT_THAT(order, ::testing::ElementsAre(0, 1, 2, 3, 4));
  });
}

TEST(ConditionVariable, TimesOutWithTheLockHeld) {
  runtime r({.procs = 2});
  const auto check = [] {
    mutex guard;
    condition_variable cv;
    std::unique_lock hold(guard);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(cv.wait_for(hold, 10ms), std::cv_status::timeout);
    EXPECT_GE(std::chrono::steady_clock::now() - start, 10ms);
    EXPECT_FALSE(guard.try_lock());
    EXPECT_EQ(cv.wait_until(hold, std::chrono::system_clock::now() - 1s), std::cv_status::timeout);
    EXPECT_FALSE(cv.wait_for(hold, 1ms, [] { return false; }));
    EXPECT_TRUE(cv.wait_for(hold, -1ms, [] { return true; }));
    EXPECT_TRUE(hold.owns_lock());
  };
  check();
  r.run(check);
}

TEST(ConditionVariable, ANotificationInTimeIsNoTimeout) {
  runtime r({.procs = 2});
  r.run([] {
    mutex guard;
    condition_variable cv;
    std::unique_lock hold(guard);
    go([&] {
      const std::scoped_lock other(guard);
      cv.notify_all();
    });
    EXPECT_EQ(cv.wait_for(hold, std::chrono::hours::max()), std::cv_status::no_timeout);
  });
}

TEST(ConditionVariable, WithoutTheLockIsMisuse) {
  mutex guard;
  condition_variable cv;
  std::unique_lock<mutex> nothing;
  std::unique_lock<mutex> open(guard, std::defer_lock);
  EXPECT_THROW(cv.wait(nothing), misuse);
  EXPECT_THROW(cv.wait(open), misuse);
}

TEST(ConditionVariable, MayGoAsSoonAsEverybodyIsNotified) {
  for (const int ps : {1, 2, 4}) {
    runtime r({.procs = ps});
    r.run([] {
      for (int i = 0; i < 500; ++i) {
        mutex guard;
        auto cv = std::make_unique<condition_variable>();
        int waiting = 0;
        wait_group all;
        for (int g = 0; g < 3; ++g) {
          all.go([&] {
            std::unique_lock hold(guard);
            ++waiting;
            cv->wait(hold);
          });
        }
        for (bool all_wait = false; !all_wait;) {
          {
            const std::scoped_lock hold(guard);
            all_wait = waiting == 3;
            if (all_wait) {
              cv->notify_all();
              cv.reset();
            }
          }
          this_goroutine::yield();
        }
        all.wait();
      }
    });
  }
}

}  // namespace
}  // namespace magpie
