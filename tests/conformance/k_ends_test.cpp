// Section K of Go's behaviours: how goroutines and programs end. Rows that have no test here are in
// README.md.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <magpie/debug.h>
#include <magpie/magpie.h>

#include "support/baton.h"
#include "support/dump_text.h"
#include "support/subprocess.h"

namespace magpie {
namespace {

using rt::testing::baton;
using rt::testing::dump_text;
using rt::testing::program_end;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

program_end run_ends(const std::string& way, std::vector<std::string> settings = {}) {
  settings.insert(settings.end(), {"ASAN_OPTIONS=handle_segv=0:handle_abort=0:detect_leaks=0",
                                   "TSAN_OPTIONS=handle_segv=0:handle_abort=0"});
  return rt::testing::run_program("ends", {way}, std::move(settings));
}

int count_of(const std::string& part, const std::string& text) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

void expect_deadlock(const program_end& end) {
  EXPECT_EQ(end.signal, SIGABRT) << end.output;
  EXPECT_THAT(end.output, StartsWith("magpie: fatal error: all goroutines are asleep - deadlock!"));
}

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

TEST(Conformance, K01_SimpleDeadlock) {
  const program_end end = run_ends("simple_deadlock");
  expect_deadlock(end);
  EXPECT_THAT(end.output, HasSubstr("goroutine 1 [select (no cases)]:\n"));
}

TEST(Conformance, K02_InitDeadlock) { expect_deadlock(run_ends("none", {"WAIT_BEFORE_MAIN=1"})); }

TEST(Conformance, K04_LockedDeadlock2) {
  const program_end end = run_ends("locked_deadlock");
  expect_deadlock(end);
  EXPECT_EQ(count_of("[select (no cases)]:\n", end.output), 1) << end.output;
  EXPECT_EQ(count_of("[select (no cases), locked to thread] \"locked\":\n", end.output), 1)
      << end.output;
}

// Nobody waits for ever for what main's goroutine would have returned.
TEST(Conformance, K05_GoexitDeadlock) {
  runtime r({.procs = 2});
  std::atomic<int> others{0};
  EXPECT_THROW(r.run([&] {
    for (int i = 0; i < 2; ++i) go([&] { ++others; });
    this_goroutine::exit();
  }),
               misuse);
  while (others != 2) std::this_thread::yield();
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

TEST(Conformance, K09_ExceptionThatEscapesDuringExitIsReported) {
  const program_end end = run_ends("throw_during_exit");
  EXPECT_EQ(end.signal, SIGABRT) << end.output;
  EXPECT_THAT(end.output, ContainsRegex("magpie: fatal error: [a-z: ]+ goroutine [0-9]+ "
                                        "\"leaver\"\n"));
  EXPECT_THAT(end.output, HasSubstr("thrown during the exit")) << "std::terminate's own words";
}

// Another one that is raised and caught while the exit passes, by whoever sees it pass.
TEST(Conformance, K10_CatchingAnExceptionRaisedDuringExitDoesNotCancelIt) {
  bool came_back = false;
  std::vector<std::string> caught;
  const auto raise_and_catch = [&](const char* text) {
    try {
      const at_end guard{[] { this_goroutine::yield(); }};
      throw std::runtime_error(text);
    } catch (const std::runtime_error& error) {
      this_goroutine::yield();
      caught.emplace_back(error.what());
    }
  };
  run_to_its_end([&] {
    const at_end outer{[&] { raise_and_catch("outside"); }};
    try {
      const at_end inner{[&] { raise_and_catch("inside"); }};
      this_goroutine::exit();
    } catch (...) {
      raise_and_catch("in the handler");
      throw;
    }
    came_back = true;
  });
  EXPECT_THAT(caught, ::testing::ElementsAre("inside", "in the handler", "outside"));
  EXPECT_FALSE(came_back);
}

// What catches exceptions was there before, and gets one that replaces nothing: a child's.
TEST(Conformance, K10_AnExceptionOfAChildRaisedDuringExitDoesNotCancelIt) {
  bool came_back = false, caught = false;
  run_to_its_end([&] {
    try {
      const at_end inner{[&] {
        try {
          async([] { throw std::runtime_error("of a child"); }).get();
        } catch (const std::runtime_error&) {
          caught = true;
        }
      }};
      this_goroutine::exit();
    } catch (const std::runtime_error&) {
      came_back = true;
    }
    came_back = true;
  });
  EXPECT_TRUE(caught);
  EXPECT_FALSE(came_back);
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

TEST(Conformance, K11_GoNil) {
  const program_end end = run_ends("go_nil");
  EXPECT_EQ(end.signal, SIGABRT) << end.output;
  EXPECT_THAT(end.output, StartsWith("magpie: fatal error: go of nil func value\n"));
}

// Timers have no goroutines of their own.
TEST(Conformance, K13_NoHelperGoroutines) {
  const program_end end = run_ends("fatal_beside_timers", {"MAGPIE_TRACEBACK=all"});
  EXPECT_EQ(end.signal, SIGABRT) << end.output;
  EXPECT_EQ(count_of("\ngoroutine 1 [running]:\n", end.output), 1) << end.output;
  EXPECT_EQ(count_of("\ngoroutine ", end.output), 1) << end.output;
}

TEST(Conformance, K14_ThreadExhaustion) {
  const program_end end = run_ends("thread_exhaustion");
  EXPECT_EQ(end.signal, SIGABRT) << end.output;
  EXPECT_THAT(end.output,
              StartsWith("magpie: fatal error: no thread for a goroutine that could run"));
  EXPECT_THAT(end.output, HasSubstr("max_threads=10 allows no more\n"));
  EXPECT_EQ(count_of("[select (no cases), locked to thread] \"locked\":\n", end.output), 10)
      << end.output;
}

TEST(Conformance, K15_HugeThreadLimit) {
  runtime r({.procs = 2, .max_threads = std::numeric_limits<int>::max()});
  EXPECT_EQ(r.run([] { return blocking(hand_off_now, [] { return 1; }); }), 1);
}

TEST(Conformance, K17_RuntimePanicWithRuntimeError) {
  const channel<int> closed(1), unbuffered, nil = nullptr;
  closed.close();
  unbuffered.close();
  EXPECT_THROW(closed.close(), closed_channel);
  EXPECT_THROW(nil.close(), closed_channel);
  EXPECT_THROW(closed.send(1), closed_channel);
  EXPECT_THROW(unbuffered.send(1), closed_channel);
  EXPECT_THROW(closed.try_send(1), closed_channel);
  EXPECT_THROW(select(on_send(closed, 1, [] {}), otherwise([] {})), closed_channel);
  EXPECT_THROW(channel<int>(-1), std::length_error);
  // One kind for those who catch any of them.
  EXPECT_THROW(closed.close(), std::logic_error);
  EXPECT_THROW(channel<int>(-1), std::logic_error);
}

TEST(Conformance, K18_PanicDeadlockGosched) {
  const program_end end = run_ends("yielding_error");
  EXPECT_EQ(end.signal, SIGABRT) << end.output;
  EXPECT_THAT(end.output, HasSubstr("an exception escaped from goroutine"));
  EXPECT_THAT(end.output, HasSubstr("text of one that yields"));
}

TEST(Conformance, K18_PanicDeadlockSyscall) {
  const program_end end = run_ends("writing_error");
  EXPECT_EQ(end.signal, SIGABRT) << end.output;
  EXPECT_THAT(end.output, HasSubstr("an exception escaped from goroutine"));
  EXPECT_THAT(end.output, HasSubstr("written by what()"));
  EXPECT_THAT(end.output, HasSubstr("text of one that writes"));
}

TEST(Conformance, K22_SignalExitStatus) {
  const program_end end = run_ends("terminated");
  EXPECT_EQ(end.signal, SIGTERM);
  EXPECT_EQ(end.output, "");
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

TEST(Conformance, K25_ExitOfTheFirstGoroutineWhileLocked) {
  const program_end end = run_ends("exit_locked");
  EXPECT_EQ(end.exit_code, 7) << end.output;
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

// From a goroutine, then from a plain thread.
TEST(Conformance, K27_StackOutput) {
  runtime r({.procs = 2});
  EXPECT_THAT(r.run(dump_text), StartsWith("goroutine "));
  const channel<int> nobody;
  r.go([=] { nobody.receive(); });
  EXPECT_THAT(dump_text(), StartsWith("goroutine "));
  nobody.close();
}

// By turns: equal frames next to each other are elided for another reason.
struct staircase {
  [[gnu::noinline]] static void even_step(int left, const channel<int>& c) {
    left == 0 ? wait_at_the_bottom(c) : odd_step(left - 1, c);
    asm volatile("");
  }
  [[gnu::noinline]] static void odd_step(int left, const channel<int>& c) {
    left == 0 ? wait_at_the_bottom(c) : even_step(left - 1, c);
    asm volatile("");
  }
  [[gnu::noinline]] static void wait_at_the_bottom(const channel<int>& c) {
    c.receive();
    asm volatile("");
  }
};

struct shown_steps {
  int steps = 0, elided = 0, gaps = 0;
};

shown_steps steps_of_a_stack(int depth) {
  runtime r({.procs = 1});
  const channel<int> c;
  r.run([=] { go({.name = "deep"}, [=] { staircase::even_step(depth - 1, c); }); });
  for (;;) {
    const auto all = debug::goroutines();
    const auto deep = std::find_if(all.begin(), all.end(), [](const debug::goroutine_info& info) {
      return info.name == "deep" && info.state == "waiting";
    });
    if (deep == all.end()) continue;
    shown_steps shown;
    for (const std::string& frame : deep->stack) {
      if (frame.find("_step(") != std::string::npos) ++shown.steps;
      if (frame.find("frames elided") == std::string::npos) continue;
      ++shown.gaps;
      shown.elided += std::stoi(frame.substr(frame.find_first_of("0123456789")));
    }
    c.close();
    return shown;
  }
}

// A hundred frames in all, and those of the library are among them.
TEST(Conformance, K28_TracebackElision) {
  const shown_steps few = steps_of_a_stack(50);
  EXPECT_EQ(few.steps, 50);
  EXPECT_EQ(few.gaps, 0);
  for (const int depth : {110, 111, 120, 300}) {
    const shown_steps many = steps_of_a_stack(depth);
    EXPECT_EQ(many.gaps, 1) << depth;
    EXPECT_EQ(many.steps + many.elided, depth);
    EXPECT_LE(many.steps, 100);
    EXPECT_GE(many.steps, 70);
  }
}

// Mistakes of real programs: who is left behind, and what each of them waits for. The programs are
// in programs/leaks.cpp.
struct leak {
  const char* program;
  const char* left;
};

class ConformanceLeaks : public ::testing::TestWithParam<leak> {};

TEST_P(ConformanceLeaks, K33_GoroutineLeakProfile) {
  const program_end end = rt::testing::run_program("leaks", {GetParam().program});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(end.output, GetParam().left);
}

INSTANTIATE_TEST_SUITE_P(
    Programs, ConformanceLeaks,
    ::testing::Values(
        leak{"abandoned_answer", "worker: chan send\n"},
        leak{"second_error", "second: chan send\n"},
        leak{"never_closed", "consumer: chan receive\n"},
        leak{"early_return", "next: sync.Mutex.Lock\n"},
        leak{"double_lock", "caller: sync.Mutex.Lock\n"},
        leak{"lock_order", "ab: sync.Mutex.Lock\nba: sync.Mutex.Lock\n"},
        leak{"reader_writer_reader", "reader: sync.RWMutex.RLock\nwriter: sync.RWMutex.Lock\n"},
        leak{"lock_around_send", "receiver: sync.Mutex.Lock\nsender: chan send\n"},
        leak{"done_forgotten", "waiter: sync.WaitGroup.Wait\n"},
        leak{"wait_in_the_loop", "started: chan send\nstarter: sync.WaitGroup.Wait\n"},
        leak{"notified_too_early", "late: sync.Cond.Wait\n"},
        leak{"nobody_stops_the_loop", "loop: select\n"},
        leak{"never_made", "receiver: chan receive (nil chan)\nsender: chan send (nil chan)\n"}),
    [](const auto& each) { return std::string(each.param.program); });

}  // namespace
}  // namespace magpie
