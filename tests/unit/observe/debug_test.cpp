#include <magpie/debug.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <thread>

#include <magpie/magpie.h>

#include "fiber/sanitizer.h"
#include "support/dump_text.h"
#include "support/subprocess.h"

namespace magpie {
namespace {

using rt::testing::dump_text;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

debug::goroutine_info find(const std::string& name) {
  for (auto& info : debug::goroutines()) {
    if (info.name == name) return info;
  }
  return {};
}

void expect_frame(const debug::goroutine_info& info, const std::string& text) {
  const bool found = std::any_of(info.stack.begin(), info.stack.end(), [&](const std::string& f) {
    return f.find(text) != std::string::npos;
  });
  EXPECT_TRUE(found) << text << " is not in\n" << ::testing::PrintToString(info.stack);
}

[[gnu::noinline]] void debug_test_waits(const channel<int>& c) {
  c.receive();
  asm volatile("");
}

TEST(Goroutines, TellWhatTheyWaitForAndSinceWhen) {
  runtime r({.procs = 2});
  r.run([] {
    const channel<int> c;
    go({.name = "waiter"}, [=] { debug_test_waits(c); });
    this_goroutine::sleep_for(60ms);
    const auto info = find("waiter");
    EXPECT_EQ(info.state, "waiting");
    EXPECT_EQ(info.wait_reason, "chan receive");
    EXPECT_EQ(info.parent, this_goroutine::id());
    EXPECT_GE(info.waited, 20ms);
    EXPECT_THAT(info.waiting_on, HasSubstr("0x"));
    EXPECT_THAT(info.spawn_site, HasSubstr("TellWhatTheyWaitForAndSinceWhen"));
#if !defined(__clang__)  // which may begin a function with lines of what is inlined into it
    EXPECT_THAT(info.spawn_site, HasSubstr("debug_test.cpp:"));
#endif
    EXPECT_FALSE(info.thread_locked);
    expect_frame(info, "debug_test_waits(magpie::channel<int> const&) at ");
    c.close();
  });
}

TEST(Goroutines, TheCallerIsOneOfThem) {
  runtime r({.procs = 1});
  r.run([] {
    this_goroutine::set_name("caller");
    const auto me = find("caller");
    EXPECT_EQ(me.id, this_goroutine::id());
    EXPECT_EQ(me.state, "running");
    expect_frame(me, "debug_test.cpp:");
  });
}

TEST(Goroutines, OfSeveralRuntimesAreAllThereFromAPlainThread) {
  runtime a({.procs = 1}), b({.procs = 1});
  const channel<int> c;
  a.go([=] {
    this_goroutine::set_name("of a");
    c.receive();
  });
  b.go([=] {
    this_goroutine::set_name("of b");
    c.receive();
  });
  while (find("of a").state != "waiting" || find("of b").state != "waiting") {
    std::this_thread::yield();
  }
  c.close();
}

TEST(Goroutines, SayWhoHoldsTheLock) {
  runtime r({.procs = 2});
  r.run([] {
    this_goroutine::set_name("holder");
    mutex m;
    wait_group done;
    {
      const std::scoped_lock hold(m);
      done.go([&] {
        this_goroutine::set_name("wants it");
        const std::scoped_lock also(m);
      });
      while (find("wants it").state != "waiting") this_goroutine::yield();
      EXPECT_THAT(
          find("wants it").waiting_on,
          HasSubstr("held by goroutine " + std::to_string(this_goroutine::id()) + " \"holder\""));
    }
    done.wait();
  });
}

std::atomic<bool> g_spin{true};
[[gnu::noinline]] void debug_test_spins() {
  while (g_spin.load(std::memory_order_relaxed)) asm volatile("");
}

TEST(Goroutines, ThatSpinShowTheirStack) {
  g_spin = true;
  runtime r({.procs = 2});
  wait_group done;
  std::atomic<int> spinning{0};
  for (int i = 0; i < 3; ++i) {
    done.go([&] {
      this_goroutine::set_name("spinner");
      ++spinning;
      debug_test_spins();
    });
  }
  while (spinning < 3) std::this_thread::yield();
  int shown = 0;
  for (const auto& info : debug::goroutines()) {
    if (info.spawn_site.find("ThatSpinShow") == std::string::npos) continue;
    ++shown;
    expect_frame(info, "debug_test_spins()");
  }
  EXPECT_EQ(shown, 3);
  g_spin = false;
  done.wait();
}

TEST(Goroutines, BlockedInTheKernelAreNotDisturbed) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  runtime r({.procs = 2});
  std::atomic<long> got{0};
  r.go([&] {
    this_goroutine::set_name("reader");
    char byte;
    got = read(ends[0], &byte, 1);
  });
  std::string state;
  for (;;) {
    const auto all = debug::goroutines();
    const bool seen = std::any_of(all.begin(), all.end(), [](const auto& info) {
      return !info.stack.empty() && info.stack[0].find("read") != std::string::npos;
    });
    if (seen) break;
    std::this_thread::yield();
  }
  EXPECT_EQ(got, 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  while (got == 0) std::this_thread::yield();
  EXPECT_EQ(got, 1);
  close(ends[0]);
  close(ends[1]);
}

TEST(Dump, IsInGosGrammar) {
  runtime r({.procs = 1});
  r.run([] {
    const channel<int> c;
    go({.name = "waiter"}, [=] {
      const thread_lock stay;
      debug_test_waits(c);
    });
    while (find("waiter").state != "waiting") this_goroutine::yield();
    const std::string text = dump_text();
    EXPECT_THAT(text, ContainsRegex("^goroutine [0-9]+ \\[running\\]:\n")) << "the caller first";
    EXPECT_THAT(text, ContainsRegex("\n\ngoroutine [0-9]+ \\[chan receive, locked to thread\\] "
                                    "\"waiter\":\n"));
    EXPECT_THAT(text, ContainsRegex("debug_test_waits\\(magpie::channel<int> const&\\)\n\t/.*"
                                    "debug_test.cpp:[0-9]+ \\+0x[0-9a-f]+\n"));
    EXPECT_THAT(text, ContainsRegex("\ncreated by .* in goroutine [0-9]+\n\t/.*:[0-9]+ \\+0x"));
    EXPECT_THAT(text, Not(HasSubstr("magpie::rt::"))) << "the scheduler's own frames";
    c.close();
  });
}

TEST(Dump, ANameDoesNothingToATerminal) {
  runtime r({.procs = 1});
  r.run([] {
    this_goroutine::set_name(
        "evil \x1b]0;title\a\xc2\x9b"
        "31m \xff\n\ngoroutine 5 [running]:");
    mutex m;
    wait_group done;
    std::string text;
    {
      const std::scoped_lock hold(m);
      done.go([&] {
        this_goroutine::set_name("\xc3\xa4rger\r");
        const std::scoped_lock also(m);
      });
      while (find("\xc3\xa4rger\r").state != "waiting") this_goroutine::yield();
      text = dump_text();
    }
    done.wait();
    const std::string shown = "\"evil ?]0;title??31m ???goroutine 5 [running]:\"";
    EXPECT_THAT(text, HasSubstr("[running] " + shown + ":\n"));
    EXPECT_THAT(text, HasSubstr("[sync.Mutex.Lock] \"\xc3\xa4rger?\":\n"));
    EXPECT_THAT(text, ContainsRegex(", held by goroutine [0-9]+ \"evil \\?\\]0;"));
    EXPECT_EQ(text.find_first_of("\x1b\a\r\xff"), std::string::npos);
  });
}

[[gnu::noinline]] void debug_test_called_with(const channel<int>& c, int n) {
  debug_test_waits(c);
  asm volatile("" ::"r"(n));
}
struct debug_test_object {
  [[gnu::noinline]] void member(const channel<int>& c) {
    debug_test_called_with(c, 1);
    asm volatile("");  // or the call above is a jump, and this frame is gone
  }
};

// What passes on the arguments is not shown, and has no name of its own.
TEST(Dump, AFunctionWithArgumentsIsTheOutermostOne) {
  runtime r({.procs = 1});
  r.run([] {
    const channel<int> c;
    const auto waiting = [] {
      const auto all = debug::goroutines();
      return std::count_if(all.begin(), all.end(),
                           [](const auto& g) { return g.wait_reason == "chan receive"; });
    };
    go(debug_test_called_with, c, 1);
    go(&debug_test_object::member, debug_test_object(), c);
    wait_group all;
    all.go([=] { debug_test_called_with(c, 2); });
    auto result = async(debug_test_called_with, c, 3);
    runtime::current().go(debug_test_called_with, c, 4);
    while (waiting() < 5) this_goroutine::yield();
    const std::string text = dump_text();
    // Types of pointers and references, to functions and to members.
    EXPECT_THAT(text, Not(ContainsRegex("\nvoid \\([a-z_:]*[*&]\\)")));
    EXPECT_THAT(text, Not(HasSubstr("invoke")));
    EXPECT_THAT(text, Not(HasSubstr("bound_call")));
    EXPECT_THAT(text, Not(HasSubstr("runtime::go")));
    const std::string place =
        "\\([^\n]*\n\t[^\n]*debug_test.cpp:[0-9]+ \\+0x[0-9a-f]+\ncreated by [^\n]*Outermost";
    EXPECT_THAT(text, ContainsRegex("::debug_test_called_with" + place));
    EXPECT_THAT(text, ContainsRegex("::debug_test_object::member" + place));
    c.close();
    result.get();
    all.wait();
  });
}

TEST(Dump, GroupsThoseThatDifferInNothing) {
  constexpr int k_many = 1000;
  runtime r({.procs = 2});
  r.run([] {
    const channel<int> c;
    wait_group all;
    for (int i = 0; i < k_many; ++i) {
      all.go([=] { debug_test_waits(c); });
    }
    const auto waiting = [] {
      const auto infos = debug::goroutines();
      return std::count_if(infos.begin(), infos.end(), [](const auto& info) {
        return info.wait_reason == "chan receive" && !info.stack.empty();
      });
    };
    while (waiting() < k_many) this_goroutine::yield();
    EXPECT_THAT(
        dump_text(),
        ContainsRegex("goroutine [0-9]+\\.\\.[0-9]+ \\(1000 goroutines\\) \\[chan receive"));
    c.close();
    all.wait();
  });
}

// ---- Whole programs ---------------------------------------------------------------------------

rt::testing::program_end run_dump(const std::string& way, std::vector<std::string> settings = {},
                                  const std::string& program = "dump") {
  settings.insert(settings.end(), {"ASAN_OPTIONS=handle_segv=0:handle_abort=0:detect_leaks=0",
                                   "TSAN_OPTIONS=handle_segv=0:handle_abort=0"});
  return rt::testing::run_program(program, {way}, std::move(settings));
}

class DumpProgramBuilt : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(As, DumpProgramBuilt, ::testing::Values("dump", "dump_release"),
                         [](const auto& name) { return std::string(name.param); });

TEST_P(DumpProgramBuilt, ShowsEveryState) {
  const auto end = run_dump("call", {"MAGPIE_DEBUG=stalls=0"}, GetParam());
  EXPECT_EQ(end.exit_code, 0);
  for (const char* const part :
       {"\\[running\\] \"keeper\":\n", "\nstop_and_dump\\(\\)\n",
        "\\[chan receive\\]:\n  waits in 0x[0-9a-f]+\n", "\nwait_deeper\\(magpie::channel<int> ",
        "\\[sync.Mutex.Lock\\] \"locker\":\n  waits in 0x[0-9a-f]+, held by goroutine [0-9]+ "
        "\"keeper\"\n",
        "\\[sleep\\]:\n", "\nsleep_for_long\\(\\)\n", "\\[syscall\\]:\nread_blocking\\(int\\)\n",
        "\\[running, blocks its thread in read\\]:\n", "\nread_plainly\\(int\\)\n",
        "\nhog\\(\\)\n\t.*dump.cpp:[0-9]+ ", "\\[chan receive, locked to thread\\]:\n",
        "created by zoo::fill\\(\\) in goroutine 1\n\t.*dump.cpp:[0-9]+ "}) {
    EXPECT_THAT(end.output, ContainsRegex(part));
  }
  // Spawned by the program, not by the header that helped it.
  EXPECT_THAT(end.output, Not(ContainsRegex("created by [^\n]*\n[^\n]*include/magpie")));
}

TEST_P(DumpProgramBuilt, EqualFunctionsAreShownWithoutTheScheduler) {
  const auto end = run_dump("twins", {}, GetParam());
  EXPECT_EQ(end.exit_code, 0);
  // clang's lambdas are called $_3 and $_4.
  constexpr const char* k_function = "\nspawn_equal_ones()::";
  const std::size_t first = end.output.find(k_function);
  const std::size_t second = end.output.rfind(k_function);
  ASSERT_NE(first, end.output.npos);
  ASSERT_NE(first, second) << end.output;
  const auto line_at = [&](std::size_t at) {
    return end.output.substr(at, end.output.find('\n', at + 1) - at);
  };
  EXPECT_NE(line_at(first), line_at(second));
  EXPECT_THAT(end.output, Not(HasSubstr("magpie::rt::")));
}

TEST(DumpProgram, TakesManyGoroutines) {
  if (rt::sanitizer::k_thread) GTEST_SKIP() << "the sanitizer has no room for so many";
  const auto end = run_dump("many");
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_THAT(end.output, HasSubstr("(100000 goroutines) [chan receive]:\n"));
}

TEST(DumpProgram, CutsDeepStacksInTheMiddle) {
  EXPECT_THAT(run_dump("deep").output, ContainsRegex("\n\\.\\.\\.[0-9]+ frames elided\\.\\.\\.\n"));
}

// All that is left out is one piece, also where another goroutine's frames follow.
TEST(DumpProgram, CutsDeepStacksOnAnothersStackInOnePlace) {
  const std::string text = run_dump("deep_inline").output;
  const std::string elided = " frames elided...\n";
  EXPECT_THAT(text, HasSubstr(elided));
  EXPECT_EQ(text.find(elided), text.rfind(elided)) << text;
}

TEST(DumpProgram, TellsTwoGoroutinesOnOneStackApart) {
  const auto end = run_dump("inline");
  const std::size_t parent = end.output.find("[future wait]");
  const std::size_t child = end.output.find("[chan receive] \"child\"");
  ASSERT_NE(parent, std::string::npos) << end.output;
  ASSERT_NE(child, std::string::npos) << end.output;
  const std::string of_child =
      end.output.substr(child, end.output.find("created by", child) - child);
  EXPECT_THAT(of_child, HasSubstr("wait_in_channel"));
  EXPECT_THAT(of_child, Not(HasSubstr("meeting::wait")));
  const std::string of_parent =
      end.output.substr(parent, end.output.find("created by", parent) - parent);
  EXPECT_THAT(of_parent, HasSubstr("wait_for_child()"));
  EXPECT_THAT(of_parent, Not(HasSubstr("wait_in_channel")));
}

TEST(DumpProgram, SigquitDumpsAndGoesOn) {
  const auto end = run_dump("quit");
  EXPECT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(end.output, HasSubstr("SIGQUIT: "));
  EXPECT_THAT(end.output, HasSubstr("\nhog()\n"));
  EXPECT_THAT(end.output, HasSubstr("went on"));
}

TEST(DumpProgram, WhoAsksAndDoesNotReadDoesNotKeepTheRuntime) {
  const auto end = run_dump("unread");
  EXPECT_EQ(end.signal, 0);
  EXPECT_EQ(end.output, "ended\n");
}

// Neither does standard error.
TEST(DumpProgram, SigquitWithNobodyToReadItDoesNotKeepTheRuntime) {
  const auto end = run_dump("unread_error");
  EXPECT_EQ(end.signal, 0);
  EXPECT_EQ(end.output, "ended\n");
}

TEST(DumpProgram, AllWhoAskAtTheSameTimeGetAWholeOne) {
  const auto end = run_dump("askers");
  EXPECT_EQ(end.signal, 0) << end.output;
  EXPECT_THAT(end.output, HasSubstr("100 blocks\n100 blocks\n100 blocks\n"));
  EXPECT_THAT(end.output, ContainsRegex("SIGQUIT: 10[01] goroutines\n"));
  EXPECT_THAT(end.output, HasSubstr("[chan receive] \"number 99\":\n"));
}

TEST(DumpProgram, ASecondSigquitEndsIt) { EXPECT_EQ(run_dump("quit_twice").signal, SIGQUIT); }

TEST(DumpProgram, AnOwnHandlerOfSigquitStays) {
  const auto end = run_dump("own_handler");
  EXPECT_EQ(end.output, "mine\n");
}

TEST(Traceback, ANameDoesNothingToATerminal) {
  const auto end = run_dump("strange_name");
  EXPECT_EQ(end.signal, SIGABRT) << end.output;
  EXPECT_THAT(end.output, HasSubstr("[running] \"red ?[31m?line\":\n"));
  EXPECT_THAT(end.output, Not(HasSubstr("\x1b")));
}

TEST(Traceback, SaysHowManyGoroutinesAFatalErrorShows) {
  const auto fatal = [](const std::string& level) {
    const auto end = run_dump("fatal", {"MAGPIE_TRACEBACK=" + level});
    EXPECT_EQ(end.signal, SIGABRT) << end.output;
    EXPECT_THAT(end.output, HasSubstr("magpie: fatal error: unlock of unlocked mutex\n"));
    return end.output;
  };
  EXPECT_THAT(fatal("none"), Not(HasSubstr("goroutine")));
  EXPECT_THAT(fatal("single"), HasSubstr("[running] \"culprit\":\n"));
  EXPECT_THAT(fatal("single"), Not(HasSubstr("bystander")));
  EXPECT_THAT(fatal("all"), HasSubstr("\"culprit\":\n"));
  EXPECT_THAT(fatal("all"), HasSubstr("[chan receive] \"bystander\":\n"));
  EXPECT_THAT(fatal("crash"), HasSubstr("magpie::rt::"));
}

TEST(Traceback, AnUnknownLevelIsAClearError) {
  EXPECT_THAT(run_dump("fatal", {"MAGPIE_TRACEBACK=some"}).output,
              HasSubstr("MAGPIE_TRACEBACK=some: expected none, single, all or crash"));
}

// ---- The world stands still -------------------------------------------------------------------

class WorldPause : public ::testing::TestWithParam<int> {};

// Each counts as fast as it can, in its own way.
TEST_P(WorldPause, NobodyRuns) {
  runtime r({.procs = GetParam()});
  std::atomic<bool> ends{false};
  std::atomic<std::uint64_t> counts[4] = {};
  wait_group all;
  r.run([&] {
    all.go([&] {
      while (!ends) ++counts[0];
    });
    all.go([&] {
      while (!ends) {
        ++counts[1];
        this_goroutine::yield();
      }
    });
    all.go([&] {
      while (!ends) {
        ++counts[2];
        this_goroutine::sleep_for(100us);
      }
    });
    all.go([&] {
      while (!ends) {
        blocking([] { usleep(50); });
        ++counts[3];
      }
    });
  });
  for (auto& count : counts) {
    while (count == 0) std::this_thread::yield();
  }
  for (int i = 0; i < 20; ++i) {
    std::uint64_t before[4], after[4];
    {
      const debug::world_pause pause;
      std::copy(std::begin(counts), std::end(counts), before);
      usleep(3000);
      std::copy(std::begin(counts), std::end(counts), after);
    }
    for (int k = 0; k < 4; ++k) EXPECT_EQ(before[k], after[k]) << k;
    for (int k = 0; k < 4; ++k) {
      while (counts[k] == after[k]) std::this_thread::yield();
    }
  }
  ends = true;
  r.run([&] { all.wait(); });
}

TEST_P(WorldPause, FromAGoroutineAndTwoAtATime) {
  runtime r({.procs = GetParam()});
  std::atomic<int> inside{0};
  r.run([&] {
    wait_group all;
    for (int i = 0; i < 4; ++i) {
      all.go([&] {
        for (int k = 0; k < 10; ++k) {
          {
            const debug::world_pause pause;
            EXPECT_EQ(inside.fetch_add(1), 0);
            usleep(200);
            inside.fetch_sub(1);
          }
          this_goroutine::yield();
        }
      });
    }
    all.wait();
  });
}

TEST_P(WorldPause, ShowsTheStacksOfThoseThatWait) {
  runtime r({.procs = GetParam()});
  const channel<int> c;
  std::atomic<const void*> place{nullptr};
  r.go([&, c] {
    int here = 0;
    place = &here;
    c.receive();
    asm volatile("" ::"r"(&here));
  });
  while (find("").wait_reason.empty() && place == nullptr) std::this_thread::yield();
  while (debug::goroutines().at(0).state != "waiting") std::this_thread::yield();
  bool found = false;
  std::pair<const void*, bool*> wanted{place.load(), &found};
  {
    const debug::world_pause pause;
    debug::visit_stacks(
        [](void* low, void* high, void* raw) {
          auto& [at, seen] = *static_cast<std::pair<const void*, bool*>*>(raw);
          if (at >= low && at < high) *seen = true;
        },
        &wanted);
  }
  EXPECT_TRUE(found);
  c.close();
}

TEST_P(WorldPause, TheNumberOfPsMayChangeMeanwhile) {
  runtime r({.procs = GetParam()});
  r.run([] {});
  {
    const debug::world_pause pause;
    r.set_procs(3);
  }
  EXPECT_EQ(r.procs(), 3);
  r.run([] { this_goroutine::sleep_for(1ms); });
}

// One before everybody rests, and one after that.
TEST_P(WorldPause, RuntimesThatBeginMeanwhileTakePart) {
  const config settings{.procs = GetParam()};
  const auto idle_procs = [](const runtime& of) { return of.read_stats().idle_procs; };
  std::atomic<bool> may_rest{false}, does_not_rest{false}, all_rest{false}, may_end{false};
  std::atomic<int> ran{0};
  runtime r(settings), idle({.procs = 1});
  r.go([&] {
    const no_preempt whole;
    does_not_rest = true;
    while (!may_rest) std::this_thread::yield();
  });
  while (!does_not_rest || idle_procs(idle) != 1) std::this_thread::yield();
  std::thread pauses([&] {
    const debug::world_pause pause;
    all_rest = true;
    while (!may_end) std::this_thread::yield();
  });
  while (idle_procs(idle) != 0) std::this_thread::yield();  // it has begun
  runtime early(settings);
  while (idle_procs(early) != 0) std::this_thread::yield();
  may_rest = true;
  while (!all_rest) std::this_thread::yield();
  runtime late(settings);
  early.go([&] { ++ran; });
  late.go([&] { ++ran; });
  usleep(3000);
  EXPECT_EQ(ran, 0);
  may_end = true;
  pauses.join();
  while (ran != 2) std::this_thread::yield();
  EXPECT_EQ(early.procs(), GetParam());
  EXPECT_EQ(late.procs(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Ps, WorldPause, ::testing::Values(1, 2, 4, 16));

}  // namespace
}  // namespace magpie
