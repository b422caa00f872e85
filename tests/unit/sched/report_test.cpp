#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <regex>
#include <sstream>
#include <string>

#include "os/fault.h"
#include "sched/debug_settings.h"
#include "support/subprocess.h"

namespace magpie::rt {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::program_end;
using testing::run_program;

program_end run_goroutines(const std::string& way, std::vector<std::string> settings = {}) {
  settings.insert(settings.end(),
                  {"ASAN_OPTIONS=handle_segv=0:handle_abort=0:detect_leaks=0",
                   "TSAN_OPTIONS=handle_segv=0:handle_abort=0", "UBSAN_OPTIONS=handle_segv=0"});
  return run_program("goroutines", {way}, std::move(settings));
}

TEST(Report, EscapedExceptionShowsGoroutineStackAndSpawnSiteWithNothingUnwound) {
  const program_end end = run_goroutines("throw");
  EXPECT_EQ(end.signal, SIGABRT) << end.output;
  EXPECT_THAT(end.output,
              ContainsRegex("magpie: fatal error: an exception escaped from goroutine [0-9]+ "
                            "\"thrower\""));
  EXPECT_THAT(end.output, HasSubstr("\nthrow_something\n\t")) << "the stack as it was when thrown";
  EXPECT_THAT(end.output, HasSubstr("created by "));
  EXPECT_THAT(end.output, HasSubstr("nobody catches this")) << "std::terminate's own words";
  EXPECT_THAT(end.output, Not(HasSubstr("unwound")));
}

TEST(Report, TerminateHandlerOfTheUserComesAfterTheReportWithTheException) {
  const program_end end = run_goroutines("terminate_handler");
  EXPECT_EQ(end.exit_code, 5) << end.output;
  EXPECT_THAT(end.output, HasSubstr("an exception escaped from goroutine"));
  EXPECT_THAT(end.output, HasSubstr("the user's handler saw: nobody catches this"));
}

TEST(Report, OverflowNamesTheGoroutineAndItsStackSize) {
  const program_end end = run_goroutines("overflow");
  EXPECT_EQ(end.signal, SIGSEGV) << end.output;
  EXPECT_THAT(end.output, ContainsRegex("stack overflow in goroutine [0-9]+ \"digger\": its stack "
                                        "of 128 KiB is full"));
}

TEST(Report, OverflowShowsFunctionsWithTheirLinesAndARecursionOnce) {
  const program_end end = run_goroutines("overflow");
  EXPECT_EQ(end.signal, SIGSEGV) << end.output;
  EXPECT_THAT(end.output, ContainsRegex("\n\ngoroutine [0-9]+ \\[running\\] \"digger\":\n"
                                        "recurse\n\t.*/goroutines.cpp:[0-9]+ \\+0x[0-9a-f]+\n"
                                        "recurse\n\t.*/goroutines.cpp:[0-9]+ \\+0x[0-9a-f]+\n"
                                        "\\.\\.\\.[0-9]+ frames elided\\.\\.\\.\n"
                                        "main::.*\n\t.*/goroutines.cpp:[0-9]+ \\+0x[0-9a-f]+\n"
                                        "created by main::.* in goroutine 1\n\t/"));
  EXPECT_LT(end.output.find("spawn_options::stack_size"), end.output.find("[running]"))
      << "what needs no tables comes first";
}

// Names are looked up by the one who faulted; only to make them readable takes another thread.
TEST(Report, OverflowDoesNotWaitForASilentServiceForLong) {
  const program_end end = run_goroutines("overflow_alone");
  EXPECT_EQ(end.signal, SIGSEGV) << end.output;
  EXPECT_THAT(end.output, ContainsRegex("\nrecurse\n\t.*/goroutines.cpp:[0-9]+ "));
  EXPECT_THAT(end.output, ContainsRegex("\ncreated by .*main.* in goroutine 1\n"));
  EXPECT_THAT(end.output, Not(HasSubstr("blocks its thread"))) << "it does, but on purpose";
}

TEST(Report, NamesAfterAFaultCanBeLeftOut) {
  const program_end end = run_goroutines("overflow", {"MAGPIE_TRACEBACK=none"});
  EXPECT_EQ(end.signal, SIGSEGV) << end.output;
  EXPECT_THAT(end.output, HasSubstr("spawn_options::stack_size"));
  EXPECT_THAT(end.output, Not(HasSubstr("[running]")));
}

TEST(Report, FaultWithAllGoroutinesShowsTheFaultingOneFirst) {
  const program_end end = run_goroutines("null_pointer", {"MAGPIE_TRACEBACK=all"});
  EXPECT_EQ(end.signal, SIGSEGV) << end.output;
  EXPECT_THAT(end.output, HasSubstr("magpie: invalid memory access at address 0x10 in goroutine"));
  EXPECT_THAT(end.output, ContainsRegex("\n\ngoroutine [0-9]+ \\[running\\] \"careless\":\n"
                                        "write_to\\(int volatile\\*\\)\n\t.*/goroutines.cpp:"));
  const std::size_t others = end.output.find("\n\ngoroutine 1 [chan receive]");
  EXPECT_LT(end.output.find("\"careless\":\n"), others);
  ASSERT_NE(others, std::string::npos) << end.output;
  EXPECT_THAT(end.output.substr(others), HasSubstr("receive_from(magpie::channel<int>&)\n\t"))
      << "names of a second list are those from the source, too";
}

TEST(Report, OverflowOfAChildThatRunsOnItsParentsStackNamesTheChild) {
  const program_end end = run_goroutines("overflow_inline");
  EXPECT_EQ(end.signal, SIGSEGV) << end.output;
  EXPECT_THAT(end.output, ContainsRegex("stack overflow in goroutine [0-9]+ \"child\""));
}

TEST(Report, DeadlockListsEveryGoroutineAndWhatItWaitsFor) {
  const program_end end = run_goroutines("deadlock");
  EXPECT_EQ(end.signal, SIGABRT) << end.output;
  EXPECT_THAT(end.output, HasSubstr("magpie: fatal error: all goroutines are asleep - deadlock!"));
  EXPECT_THAT(end.output, ContainsRegex("goroutine [0-9]+ \\[future wait\\] \"first\":"));
  std::size_t waiting = 0;
  for (std::size_t at = 0; (at = end.output.find("[future wait]", at)) != std::string::npos; ++at) {
    ++waiting;
  }
  EXPECT_EQ(waiting, 3u) << end.output;
}

TEST(Report, DeadlockNamesTheLocksAndWhoHoldsThem) {
  const program_end end = run_goroutines("lock_cycle");
  EXPECT_EQ(end.signal, SIGABRT) << end.output;
  EXPECT_THAT(end.output,
              ContainsRegex("goroutine [0-9]+ \\[sync.Mutex.Lock\\] \"left\":\n"
                            "  waits in 0x[0-9a-f]+, held by goroutine [0-9]+ \"right\""));
  EXPECT_THAT(end.output,
              ContainsRegex("goroutine [0-9]+ \\[sync.Mutex.Lock\\] \"right\":\n"
                            "  waits in 0x[0-9a-f]+, held by goroutine [0-9]+ \"left\""));
  EXPECT_THAT(end.output, ContainsRegex("\\[chan receive\\]:\n  waits in 0x"));
}

TEST(Report, DeadlockIsSeenByTheThreadOfALockedGoroutine) {
  const program_end end = run_goroutines("locked_deadlock", {"MAGPIE_PROCS=2"});
  EXPECT_EQ(end.signal, SIGABRT) << end.output;
  EXPECT_THAT(end.output, HasSubstr("magpie: fatal error: all goroutines are asleep - deadlock!"));
}

TEST(Report, NoThreadForAnybodyBesideLockedGoroutinesIsAClearError) {
  for (const char* way : {"locked_at_limit", "locked_at_limit_later"}) {
    const program_end end = run_goroutines(way);
    EXPECT_EQ(end.signal, SIGABRT) << way << ": " << end.output;
    EXPECT_THAT(end.output, HasSubstr("no thread for a goroutine that could run"));
    EXPECT_THAT(end.output, HasSubstr("max_threads=1 allows no more"));
  }
}

TEST(Report, NothingToRunIsAClearErrorWhereItIsSpawned) {
  for (const char* way : {"nil_pointer", "nil_with_argument", "nil_async", "nil_in_wait_group"}) {
    const program_end end = run_goroutines(way);
    EXPECT_EQ(end.signal, SIGABRT) << way << ": " << end.output;
    EXPECT_THAT(end.output, HasSubstr("magpie: fatal error: go of nil func value")) << way;
  }
}

TEST(Report, UseOfTheRuntimeInAForkedChildIsAClearError) {
  const program_end end = run_goroutines("fork");
  EXPECT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(end.output, HasSubstr("a runtime was used in a child made by fork()"));
  EXPECT_THAT(end.output, HasSubstr("the child ended by signal 6"));
}

TEST(Report, ForkAndExecWorks) {
  const program_end end = run_goroutines("exec");
  EXPECT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(end.output, HasSubstr("the child ended with code 7"));
}

TEST(Report, GoroutinesOfTheDefaultRuntimeAreStoppedWithTheProcessWhateverTheyDo) {
  const program_end end = run_goroutines("exit_under_lock");
  EXPECT_EQ(end.exit_code, 0) << end.output;
  EXPECT_EQ(end.output, "");
}

TEST(Report, RuntimeDestroyedFromInsideIsAClearError) {
  const program_end end = run_goroutines("own_runtime");
  EXPECT_EQ(end.signal, SIGABRT) << end.output;
  EXPECT_THAT(end.output, HasSubstr("destroyed by one of its own goroutines"));
}

TEST(Report, TwoWaitersForOneFutureAreAClearError) {
  const program_end end = run_goroutines("two_waiters");
  EXPECT_EQ(end.signal, SIGABRT) << end.output;
  EXPECT_THAT(end.output, HasSubstr("wait for one future at a time"));
}

TEST(Report, AStallIsReportedOncePerPlace) {
  const program_end end = run_goroutines("stall", {"MAGPIE_PROCS=1"});
  EXPECT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(end.output, ContainsRegex("goroutine [0-9]+ blocks its thread, for [0-9]+ ms so far, "
                                        "in the system call (poll|ppoll)"));
  EXPECT_THAT(end.output, HasSubstr("\nblock_somewhere\n\t"));
  EXPECT_THAT(end.output, HasSubstr("created by "));
  const std::size_t first = end.output.find("blocks its thread");
  EXPECT_EQ(end.output.find("blocks its thread", first + 1), std::string::npos) << end.output;
}

TEST(Report, TwoPlacesThatBlockInTheSameFunctionOfALibraryAreTwo) {
  const program_end end = run_goroutines("stalls", {"MAGPIE_PROCS=1"});
  EXPECT_EQ(end.exit_code, 0) << end.output;
  std::size_t count = 0;
  for (std::size_t at = 0; (at = end.output.find("blocks its thread", at)) != std::string::npos;) {
    ++count;
    ++at;
  }
  EXPECT_EQ(count, 2u) << end.output;
}

// Names cannot be found meanwhile; everything else goes on.
TEST(Report, AStallWithALockOfTheLinkerStopsNobody) {
  const program_end end = run_goroutines("stall_in_linker", {"MAGPIE_PROCS=1"});
  EXPECT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(end.output, HasSubstr("ended\n"));
}

TEST(Report, StallsCanBeSilenced) {
  const program_end end =
      run_goroutines("silent_stall", {"MAGPIE_PROCS=1", "MAGPIE_DEBUG=stalls=0"});
  EXPECT_EQ(end.output, "");
}

// ---- schedtrace when it ends -------------------------------------------------------------------

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(Report, WhoWatchesTheSchedulerSeesItOnceMoreBeforeTheGoroutines) {
  for (const char* const setting :
       {"MAGPIE_DEBUG=scheddetail=1", "MAGPIE_DEBUG=schedtrace=1000000,nosysmon=1"}) {
    for (const char* const way : {"throw", "overflow", "null_pointer", "deadlock", "two_waiters"}) {
      const program_end end = run_goroutines(way, {setting, "MAGPIE_TRACEBACK=all"});
      EXPECT_NE(end.signal, 0) << way << end.output;
      EXPECT_EQ(count_of(end.output, "SCHED "), 1u) << way << end.output;
      EXPECT_THAT(end.output, ContainsRegex("SCHED [0-9]+ms: gomaxprocs=.* sysmonwait=[a-z]+\n"
                                            "  P0: status="))
          << way;
      EXPECT_THAT(end.output, ContainsRegex("\n  M[0-9]+: p=")) << way;
      EXPECT_THAT(end.output, ContainsRegex("\n  G[0-9]+: status=")) << way;
      const std::size_t first_block = end.output.find("\ngoroutine ");
      ASSERT_NE(first_block, std::string::npos) << way << end.output;
      EXPECT_LT(end.output.find("SCHED "), first_block) << way << end.output;
    }
  }
}

TEST(Report, NobodyElseSeesTheScheduler) {
  EXPECT_THAT(run_goroutines("throw").output, Not(HasSubstr("SCHED")));
}

TEST(Report, ADeadlockIsShownOnceWithAnyTraceback) {
  for (const char* const level : {"single", "all"}) {
    const program_end end = run_goroutines("deadlock", {std::string("MAGPIE_TRACEBACK=") + level});
    EXPECT_EQ(count_of(end.output, "[future wait] \"first\":"), 1u) << end.output;
  }
}

TEST(Report, AFatalErrorWithTheLockHeldEnds) {
  if (!os::k_faults) GTEST_SKIP() << "needs faults made on purpose: a debug build";
  const program_end end = run_goroutines(
      "no_memory_for_p", {"MAGPIE_DEBUG=scheddetail=1", "MAGPIE_TRACEBACK=all", "MAGPIE_PROCS=1"});
  EXPECT_EQ(end.signal, SIGABRT) << end.output;
  EXPECT_THAT(end.output, HasSubstr("magpie: fatal error: no memory for another P\n"));
  EXPECT_THAT(end.output, HasSubstr("\nSCHED: a lock of the scheduler is held\n"));
  EXPECT_THAT(end.output, HasSubstr("a lock of the scheduler is held.\n"));
}

// A terminal that was stopped, say.
TEST(Settings, SchedtraceThatNobodyReadsStopsNobody) {
  const program_end end =
      run_goroutines("unread_trace", {"MAGPIE_DEBUG=schedtrace=1,scheddetail=1"});
  EXPECT_EQ(end.exit_code, 0) << end.signal;
  EXPECT_EQ(end.output, "ended\n");
}

TEST(Settings, ProcsComeFromTheEnvironment) {
  EXPECT_EQ(run_goroutines("settings", {"MAGPIE_PROCS=3"}).output, "3 Ps\n");
}

TEST(Settings, ProcsThatAreNoNumberAreAClearError) {
  for (const char* const bad : {"MAGPIE_PROCS=0", "MAGPIE_PROCS=many", "MAGPIE_PROCS=1025"}) {
    const program_end end = run_goroutines("settings", {bad});
    EXPECT_EQ(end.signal, SIGABRT) << end.output;
    EXPECT_THAT(end.output, HasSubstr(std::string(bad) + ": expected a number from 1 to 1024"));
  }
}

TEST(Settings, UnknownDebugKeyIsAnErrorThatNamesTheKeys) {
  for (const char* const bad : {"MAGPIE_DEBUG=foo=1", "MAGPIE_DEBUG=seed=1,bar=2",
                                "MAGPIE_DEBUG=seed", "MAGPIE_DEBUG=seed=x"}) {
    const program_end end = run_goroutines("settings", {bad});
    EXPECT_EQ(end.signal, SIGABRT) << end.output;
    EXPECT_THAT(end.output, HasSubstr("the keys are schedtrace=MS"));
  }
}

TEST(Settings, TimesThatDoNotFitAreNone) {
  for (const char* const bad :
       {"schedtrace=9223372036855", "schedtrace=18446744073709551615", "threadidle=9223372036854",
        "preemptstorm=9223372036854775", "tracegen=9223372036855", "tracegen=0",
        "seed=18446744073709551616"}) {
    debug_settings settings;
    EXPECT_STREQ(parse_debug_settings(bad, settings), bad);
  }
  debug_settings settings;
  EXPECT_EQ(parse_debug_settings("tracegen=1,threadidle=4611686018427,preemptstorm=0,"
                                 "seed=18446744073709551615",
                                 settings),
            nullptr);
  EXPECT_EQ(settings.tracegen, 1'000'000);
  EXPECT_EQ(settings.threadidle, 4'611'686'018'427'000'000);
  const program_end end = run_goroutines("settings", {"MAGPIE_DEBUG=seed=1,tracegen=0"});
  EXPECT_EQ(end.signal, SIGABRT) << end.output;
  EXPECT_THAT(end.output, HasSubstr("not understood from \"tracegen=0\" on"));
}

TEST(Settings, SchedtracePrintsLinesInGosFormat) {
  const program_end end = run_goroutines("trace", {"MAGPIE_DEBUG=schedtrace=10", "MAGPIE_PROCS=2"});
  EXPECT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(
      end.output,
      ContainsRegex("SCHED [0-9]+ms: gomaxprocs=2 idleprocs=[0-9]+ threads=[0-9]+ "
                    "spinningthreads=[0-9]+ needspinning=[01] idlethreads=[0-9]+ "
                    "runqueue=[0-9]+ \\[ [0-9]+ [0-9]+ \\] schedticks=\\[ [0-9]+ [0-9]+ \\]"));
}

// Every line of a whole report, as in Go's.
TEST(Settings, ScheddetailAddsALineForEachPMAndGoroutine) {
  const program_end end =
      run_goroutines("trace", {"MAGPIE_DEBUG=schedtrace=10,scheddetail=1", "MAGPIE_PROCS=2"});
  EXPECT_EQ(end.exit_code, 0) << end.output;
  const std::regex head(
      "SCHED [0-9]+ms: gomaxprocs=2 idleprocs=[0-9]+ threads=[0-9]+ spinningthreads=[0-9]+ "
      "needspinning=[01] idlethreads=[0-9]+ runqueue=[0-9]+ gcwaiting=false nmidlelocked=[0-9]+ "
      "stopwait=0 sysmonwait=(true|false)");
  const std::regex p(
      "  P[01]: status=[01] schedtick=[0-9]+ syscalltick=[0-9]+ m=([0-9]+|nil) runqsize=[0-9]+ "
      "gfreecnt=[0-9]+ timerslen=[0-9]+");
  const std::regex m(
      "  M[0-9]+: p=([0-9]+|nil) curg=([0-9]+|nil) mallocing=0 throwing=0 preemptoff= locks=[0-9]+ "
      "dying=0 spinning=(true|false) blocked=(true|false) lockedg=([0-9]+|nil)");
  const std::regex g(
      "  G[0-9]+: status=[1234]\\([a-zA-Z. ()]*\\) m=([0-9]+|nil) lockedm=([0-9]+|nil)");
  std::istringstream lines(end.output);
  std::size_t heads = 0, ps = 0, ms = 0;
  bool runs_one = false, waits = false, is_run = false;
  for (std::string line; std::getline(lines, line);) {
    const bool is_m = std::regex_match(line, m);
    heads += std::regex_match(line, head) ? 1 : 0;
    ps += std::regex_match(line, p) ? 1 : 0;
    ms += is_m ? 1 : 0;
    const bool is_g = std::regex_match(line, g);
    EXPECT_TRUE(is_m || is_g || std::regex_match(line, p) || std::regex_match(line, head)) << line;
    is_run |= std::regex_search(line, std::regex("^  G1: status=[23]\\(\\) m=[0-9]"));
    runs_one |= is_m && line.find("curg=1 ") != std::string::npos;
    waits |= is_m && line.find("blocked=true") != std::string::npos;
  }
  EXPECT_GE(heads, 1u);
  EXPECT_EQ(ps, 2 * heads);
  EXPECT_GE(ms, 1u);
  EXPECT_TRUE(runs_one) << end.output;
  EXPECT_TRUE(waits) << end.output;
  EXPECT_TRUE(is_run) << end.output;
}

// The thread that watches the timers is not one that nobody needs.
TEST(Settings, ATimerOutlivesIdleThreads) {
  const program_end end = run_goroutines("sleep", {"MAGPIE_DEBUG=threadidle=10", "MAGPIE_PROCS=1"});
  EXPECT_THAT(end.output, HasSubstr("awake"));
}

// As in Go, it turns off the signals only.
TEST(Settings, WithoutPreemptionThoseWhoAskStillGiveWay) {
  const program_end end =
      run_goroutines("cooperates", {"MAGPIE_DEBUG=nopreempt=1", "MAGPIE_PROCS=1"});
  EXPECT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(end.output, HasSubstr("has yielded"));
}

TEST(Settings, WorksWithoutTheMonitor) {
  const program_end end =
      run_goroutines("settings", {"MAGPIE_DEBUG=nosysmon=1,nopreempt=1,seed=7"});
  EXPECT_EQ(end.exit_code, 0) << end.output;
}

}  // namespace
}  // namespace magpie::rt
