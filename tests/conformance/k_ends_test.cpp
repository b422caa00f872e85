// Section K of Go's behaviours: how goroutines and programs end. The rows that need no channels
// or timers; those that end the process are in unit/sched/report_test.cpp.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <limits>
#include <stdexcept>
#include <vector>

#include <magpie/magpie.h>

#include "support/baton.h"

namespace magpie {
namespace {

using rt::testing::baton;

template <class F>
struct at_end {
  F f;
  ~at_end() noexcept(false) { f(); }
};
template <class F>
at_end(F) -> at_end<F>;

// Starts the goroutine and waits until nothing of it is left.
template <class F>
void run_to_its_end(F f) {
  runtime r({.procs = 2});
  r.go(f);
}

TEST(Conformance, K07_DestructorsRunOnExit) {
  bool ran = false, no_exception = false;
  run_to_its_end([&] {
    const at_end guard{[&] {
      ran = true;
      no_exception = std::current_exception() == nullptr;  // what recover() asks
    }};
    this_goroutine::exit();
  });
  EXPECT_TRUE(ran);
  EXPECT_TRUE(no_exception);
}

TEST(Conformance, K09_ExceptionCaughtDuringExitLetsItGoOn) {
  std::vector<int> order;
  run_to_its_end([&] {
    const at_end outer{[&] { order.push_back(2); }};
    const at_end inner{[&] {
      try {
        throw std::runtime_error("during exit");
      } catch (const std::runtime_error&) {
        order.push_back(1);
      }
    }};
    this_goroutine::exit();
  });
  EXPECT_THAT(order, ::testing::ElementsAre(1, 2));
}

TEST(Conformance, K10_CatchingAllAndThrowingOnDoesNotCancelExit) {
  bool came_back = false, passed = false;
  run_to_its_end([&] {
    try {
      this_goroutine::exit();
    } catch (const std::exception&) {
      came_back = true;
    } catch (...) {
      passed = true;
      this_goroutine::yield();
      throw;
    }
    came_back = true;
  });
  EXPECT_TRUE(passed);
  EXPECT_FALSE(came_back);
}

TEST(Conformance, K10_ExitInsideACatchBlock) {
  bool outer = false;
  run_to_its_end([&] {
    const at_end guard{[&] { outer = true; }};
    try {
      throw 1;
    } catch (int) {
      this_goroutine::exit();
    }
  });
  EXPECT_TRUE(outer);
}

TEST(Conformance, K15_HugeThreadLimit) {
  runtime r({.procs = 2, .max_threads = std::numeric_limits<int>::max()});
  EXPECT_EQ(r.run([] { return blocking(hand_off_now, [] { return 1; }); }), 1);
}

TEST(Conformance, K23_ProcessSurvivesSigchld) {
  runtime r({.procs = 2});
  r.run([] {
    for (int i = 0; i < 10; ++i) {
      kill(getpid(), SIGCHLD);
      this_goroutine::yield();
    }
  });
}

// A caught exception, a signal and an exit inside a destructor leave nothing broken for the next.
TEST(Conformance, K26_ExitInsideAHandlerLeavesNothingForTheNext) {
  runtime r({.procs = 1});
  for (int i = 0; i < 100; ++i) {
    r.run([] {
      baton over;
      go([&] {
        const at_end guard{[&] { over.give(); }};
        try {
          throw std::runtime_error("first");
        } catch (const std::runtime_error&) {
          kill(getpid(), SIGCHLD);
          this_goroutine::yield();
          this_goroutine::exit();
        }
      });
      over.take();
      async([] {
        EXPECT_EQ(std::current_exception(), nullptr);
        EXPECT_EQ(std::uncaught_exceptions(), 0);
        try {
          throw 5;
        } catch (int five) {
          this_goroutine::yield();
          EXPECT_EQ(five, 5);
        }
      }).get();
    });
  }
}

}  // namespace
}  // namespace magpie
