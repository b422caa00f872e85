#include <magpie/once.h>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>

#include <magpie/magpie.h>

namespace magpie {
namespace {

[[maybe_unused]] constinit once g_in_static_storage;

TEST(Once, IsDoneOnceAndSeenByAll) {
  for (const int ps : {1, 2, 4}) {
    runtime r({.procs = ps});
    for (int round = 0; round < 50; ++round) {
      once o;
      int value = 0;
      const auto work = [&] {
        o.call([&] {
          this_goroutine::yield();
          ++value;
        });
        EXPECT_EQ(value, 1);
      };
      std::thread outside(work);
      r.run([&] {
        wait_group all;
        for (int g = 0; g < 10; ++g) all.go(work);
        all.wait();
      });
      outside.join();
      EXPECT_TRUE(o.done());
    }
  }
}

TEST(Once, AFailureDoesNotCountAndTheNextOneTries) {
  for (const int ps : {1, 2}) {
    runtime r({.procs = ps});
    r.run([] {
      once o;
      std::atomic<int> tries{0}, failures{0}, returned{0};
      wait_group all;
      for (int g = 0; g < 10; ++g) {
        all.go([&] {
          try {
            o.call([&] {
              this_goroutine::yield();
              if (++tries <= 3) throw std::runtime_error("not yet");
            });
            ++returned;
          } catch (const std::runtime_error&) {
            ++failures;
          }
        });
      }
      all.wait();
      EXPECT_EQ(tries, 4);
      EXPECT_EQ(failures, 3);
      EXPECT_EQ(returned, 7);
    });
  }
}

TEST(Once, ExitDoesNotCount) {
  runtime r({.procs = 1});
  r.run([] {
    once o;
    wait_group all;
    all.go([&] {
      o.call([] {
        this_goroutine::yield();
        this_goroutine::exit();
      });
    });
    this_goroutine::yield();
    bool mine = false;
    o.call([&] { mine = true; });
    EXPECT_TRUE(mine);
    all.wait();
  });
}

}  // namespace
}  // namespace magpie
