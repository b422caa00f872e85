#include <magpie/semaphore.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

namespace magpie {
namespace {

using namespace std::chrono_literals;

TEST(Semaphore, CountsUnits) {
  semaphore s(3);
  EXPECT_TRUE(s.try_acquire());
  EXPECT_FALSE(s.try_acquire(3));
  EXPECT_TRUE(s.try_acquire(2));
  EXPECT_FALSE(s.try_acquire());
  EXPECT_TRUE(s.try_acquire(0));
  EXPECT_FALSE(s.try_acquire_for(1ms));
  s.release(2);
  EXPECT_TRUE(s.try_acquire_for(1ms, 2));
  s.release();
  s.acquire();
}

TEST(Semaphore, RefusesWrongNumbers) {
  EXPECT_THROW(semaphore(-1), misuse);
  semaphore s(1);
  EXPECT_THROW(s.acquire(-1), misuse);
  EXPECT_THROW(s.release(-1), misuse);
  EXPECT_THROW(s.release(semaphore::max()), misuse);
  EXPECT_TRUE(s.try_acquire());
  EXPECT_FALSE(s.try_acquire());
}

TEST(Semaphore, LimitsHowManyAreInside) {
  for (const int ps : {1, 2, 4}) {
    runtime r({.procs = ps});
    r.run([] {
      semaphore s(3);
      std::atomic<int> inside{0}, most{0};
      wait_group all;
      for (int g = 0; g < 20; ++g) {
        all.go([&] {
          for (int i = 0; i < 100; ++i) {
            s.acquire();
            const int now = ++inside;
            for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
            }
            this_goroutine::yield();
            --inside;
            s.release();
          }
        });
      }
      all.wait();
      EXPECT_LE(most, 3);
      EXPECT_TRUE(s.try_acquire(3));
    });
  }
}

TEST(Semaphore, ServesInOrderAndNobodyOvertakes) {
  runtime r({.procs = 1});
  r.run([] {
    semaphore s(0);
    std::vector<int> order;
    wait_group all;
    for (const int wanted : {3, 1, 2}) {
      all.go([&, wanted] {
        s.acquire(wanted);
        order.push_back(wanted);
      });
      this_goroutine::yield();
    }
    s.release(2);
    this_goroutine::yield();
    EXPECT_FALSE(s.try_acquire());  // two are there, for the one who wants three
    EXPECT_THAT(order, ::testing::IsEmpty());
    s.release(2);
    this_goroutine::yield();
    EXPECT_THAT(order, ::testing::ElementsAre(3, 1));
    s.release(2);
    all.wait();
    EXPECT_THAT(order, ::testing::ElementsAre(3, 1, 2));
  });
}

TEST(Semaphore, OneWhoGivesUpLetsThoseBehindItGo) {
  runtime r({.procs = 2});
  semaphore s(1);
  std::thread impatient([&] { EXPECT_FALSE(s.try_acquire_for(20ms, 5)); });
  r.run([&] {
    while (s.try_acquire()) {  // until the other one waits
      s.release();
      this_goroutine::yield();
    }
    s.acquire();
  });
  impatient.join();
  s.release();
  EXPECT_TRUE(s.try_acquire());
}

}  // namespace
}  // namespace magpie
