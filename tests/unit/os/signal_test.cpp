#include "os/signal.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "fiber/sanitizer.h"
#include "os/memory.h"
#include "support/subprocess.h"

namespace magpie::rt::os {
namespace {

using ::testing::HasSubstr;
using testing::program_end;

// The sanitizers' own handlers would be earlier ones; what is tested are those of the program.
program_end run_signals(const std::string& way) {
  return testing::run_program(
      "signals", {way},
      {"ASAN_OPTIONS=handle_segv=0:handle_sigill=0:detect_stack_use_after_return=0",
       "TSAN_OPTIONS=handle_segv=0:handle_sigill=0",
       "UBSAN_OPTIONS=handle_segv=0:handle_sigill=0"});
}

void expect_to_live(const std::string& way, const std::string& words) {
  const program_end end = run_signals(way);
  EXPECT_EQ(end.exit_code, 0) << way << " was ended by " << strsignal(end.signal);
  EXPECT_EQ(end.output, words + "main goes on\n") << way;
}

void expect_to_die(const std::string& way, int signal, const std::string& words) {
  const program_end end = run_signals(way);
  EXPECT_EQ(end.signal, signal) << way;
  EXPECT_EQ(end.output, words) << way;
}

// ---- earlier handlers ----

TEST(Signal, PlainEarlierHandlerIsCalled) {
  expect_to_live("plain", "ours\nearlier, User defined signal 1\nours is done\n");
}

TEST(Signal, EarlierHandlerGetsTheKernelsInfo) {
  expect_to_live("info", "ours\nearlier, User defined signal 1 with its info\nours is done\n");
}

TEST(Signal, EarlierHandlerRunsWithTheMaskTheKernelWouldHaveMade) {
  // ThreadSanitizer calls handlers with everything blocked.
  const std::string ours =
      sanitizer::k_thread ? " HUP USR1 USR2 SEGV PROF TERM\n" : " HUP USR1 USR2 TERM\n";
  expect_to_live("mask",
                 "ours:" + ours + "earlier: HUP USR1 PROF\nours again:" + ours + "main: HUP\n");
  expect_to_live("mask_nodefer",
                 "ours:" + ours + "earlier: HUP PROF\nours again:" + ours + "main: HUP\n");
}

TEST(Signal, SignalWithinItsEarlierHandlerWaitsForTheEnd) {
  expect_to_live("deferred",
                 "ours\nearlier 1\nearlier 1 is done\nours is done\n"
                 "ours\nearlier 2\nearlier 2 is done\nours is done\n");
}

TEST(Signal, SignalWithinAnEarlierHandlerThatAllowsItComesAtOnce) {
  expect_to_live("nodefer",
                 "ours\nearlier 1\n"
                 "ours\nearlier 2\nearlier 2 is done\nours is done\n"
                 "earlier 1 is done\nours is done\n");
}

TEST(Signal, EarlierHandlerThatWantsOneSignalOnlyGetsOne) {
  expect_to_die("once", SIGUSR1,
                "ours\nearlier, User defined signal 1\nours is done\n"
                "once more\nours\nours is done\n");
}

// As crash reporters do: report, return, and let the fault come again to end the process.
TEST(Signal, FaultThatComesAgainAfterSuchAHandlerEndsTheProcess) {
  expect_to_die("once_fault", SIGSEGV,
                "ours\nearlier, Segmentation fault\nours is done\nours\nours is done\n");
}

TEST(Signal, IgnoredSignalStaysIgnored) {
  expect_to_live("ignored", "ours\nours is done\nours\nours is done\n");
}

TEST(Signal, FaultCannotBeIgnored) {
  expect_to_die("ignored_fault", SIGSEGV, "ours\nours is done\n");
}

TEST(Signal, IgnoredTimerStaysIgnored) { expect_to_live("ignored_timer", ""); }

TEST(Signal, ReplacedHandlerKeepsTheEarlierOne) {
  expect_to_live("again", "ours\nearlier, User defined signal 1\nours is done\n");
}

TEST(Signal, KnowsWhetherThereWasAnEarlierHandler) {
  expect_to_live("had_earlier",
                 "before: 0\n"
                 "User defined signal 1: 1\nUser defined signal 1: 1\n"
                 "User defined signal 2: 0\nUser defined signal 2: 0\n"
                 "Terminated: 0\nTerminated: 0\n");
}

// ---- no earlier handler ----

TEST(Signal, SentSignalHasItsDefaultEffect) {
  expect_to_die("default", SIGTERM, "ours\nours is done\n");
}

TEST(Signal, FaultEndsTheProcessByItself) {
  expect_to_die("default_fault", SIGSEGV, "from the kernel, address 0x10, code known\n");
}

TEST(Signal, SentFaultSignalIsToldApartAndEndsTheProcessToo) {
  expect_to_die("default_sent_fault", SIGSEGV, "sent, address 0x0, code known\n");
}

TEST(Signal, TrapsEndTheProcess) {
  const program_end illegal = run_signals("default_illegal");
  EXPECT_TRUE(illegal.signal == SIGILL || illegal.signal == SIGTRAP) << illegal.signal;
  EXPECT_EQ(illegal.output, "ours\nours is done\n");
  // Its instruction is over when the handler runs: it does not come again by itself.
  expect_to_die("default_breakpoint", SIGTRAP, "ours\nours is done\n");
}

TEST(Signal, TimerThatTheKernelSendsHasItsDefaultEffect) {
  expect_to_die("default_timer", SIGALRM, "ours\nours is done\n");
}

TEST(Signal, SignalsThatAreIgnoredByDefaultStayHarmlessAndOurs) {
  expect_to_live("default_is_ignored", "8 handled\n");
}

// ---- our handler ----

TEST(Signal, ErrnoIsKept) { expect_to_live("errno", "kept\n"); }

TEST(Signal, HandlerRunsOnTheAlternateStack) {
  expect_to_live("stack",
                 "on the thread's own stack\non the alternate stack\nknows where the thread was\n");
}

TEST(Signal, SignalsThatCannotBeHandledAreAnError) {
  for (const char* way : {"kill", "libc"}) {
    const program_end end = run_signals(way);
    EXPECT_EQ(end.exit_code, 2) << way;
    EXPECT_EQ(end.output, "refused: EINVAL\n") << way;
  }
}

TEST(Signal, NonsenseIsReported) {
  for (const char* way : {"no_handler", "no_signal"}) {
    const auto end = testing::run_program("misuse", {way});
    EXPECT_EQ(end.signal, SIGABRT) << way;
    EXPECT_THAT(end.output, HasSubstr("magpie: internal error: not a signal handler"));
  }
}

TEST(Signal, SegmentationFaultHasItsNumber) { EXPECT_EQ(k_segmentation_fault, SIGSEGV); }

// ---- alternate stacks ----

stack_t present_stack() {
  stack_t present{};
  EXPECT_EQ(sigaltstack(nullptr, &present), 0);
  return present;
}

bool enabled(const stack_t& stack) { return (stack.ss_flags & SS_DISABLE) == 0; }

bool readable(const void* address) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const bool ok = ::write(ends[1], address, 1) == 1;
  EXPECT_TRUE(ok || errno == EFAULT);
  close(ends[0]);
  close(ends[1]);
  return ok;
}

// In a thread of its own without an alternate stack; a sanitizer gets its own back at the end.
template <class Body>
void without_alternate_stack(Body body) {
  std::thread([&] {
    const stack_t present = present_stack();
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
    body();
    if (enabled(present)) sigaltstack(&present, nullptr);
  }).join();
}

TEST(AlternateStack, IsThereWhileItLives) {
  without_alternate_stack([] {
    ASSERT_FALSE(enabled(present_stack()));
    stack_t during{};
    {
      const alternate_stack stack;
      during = present_stack();
      ASSERT_TRUE(enabled(during));
      EXPECT_GE(during.ss_size, 64u << 10);
      auto* const low = static_cast<char*>(during.ss_sp);
      std::memset(low, 1, during.ss_size);
      EXPECT_TRUE(readable(low));
      EXPECT_FALSE(readable(low - 1)) << "an overflow must not go unnoticed";
      EXPECT_FALSE(readable(low - page_size()));
    }
    EXPECT_FALSE(enabled(present_stack()));
    EXPECT_FALSE(readable(during.ss_sp)) << "its memory is given back";
  });
}

TEST(AlternateStack, ThreadThatHasOneKeepsIt) {
  without_alternate_stack([] {
    const alternate_stack first;
    const stack_t before = present_stack();
    {
      const alternate_stack second;
      EXPECT_EQ(present_stack().ss_sp, before.ss_sp);
    }
    EXPECT_EQ(present_stack().ss_sp, before.ss_sp);
    EXPECT_TRUE(enabled(present_stack()));
    EXPECT_TRUE(readable(before.ss_sp));
  });
}

TEST(AlternateStack, BelongsToItsThread) {
  without_alternate_stack([] {
    const alternate_stack mine;
    const void* const address = present_stack().ss_sp;
    without_alternate_stack([&] {
      const alternate_stack other;
      ASSERT_TRUE(enabled(present_stack()));
      EXPECT_NE(present_stack().ss_sp, address);
    });
    EXPECT_EQ(present_stack().ss_sp, address);
  });
}

TEST(AlternateStack, ManyInTurnTakeNoMoreMappings) {
  without_alternate_stack([] {
    { const alternate_stack warm_up; }
    const std::size_t before = mapping_count();
    for (int i = 0; i < 200; ++i) const alternate_stack stack;
    EXPECT_LE(mapping_count(), before + 20);
  });
}

}  // namespace
}  // namespace magpie::rt::os
