#include "base/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <string_view>

#include "fiber/sanitizer.h"
#include "support/subprocess.h"

namespace magpie::rt {
namespace {

using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using testing::program_end;
using testing::run_program;
using ::testing::StartsWith;

int occurrences(std::string_view text, std::string_view part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Check, FailureSaysWhatWhereAndWhoseBugItIs) {
  const program_end end = run_program("check", {"check"});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_THAT(end.output,
              MatchesRegex("magpie: internal error: arithmetic is broken\n"
                           "  check failed: g_two \\+ g_two == 5\n"
                           "  in fail_a_check at .*tests/programs/check\\.cpp:[0-9]+\n"
                           "  This is a bug in magpie, not in your program: please report it with "
                           "the lines around this one\\.\n"));
}

TEST(Check, FatalErrorIsTheUsersAndSaysOnlyWhatItWasTold) {
  const program_end end = run_program("check", {"fatal"});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_EQ(end.output, "magpie: fatal error: no memory for 3 stacks of 0x1000 bytes\n");
}

TEST(Check, ReportsLongerThanTheBufferAreWhole) {
  const program_end end = run_program("check", {"long"});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_EQ(end.output, "magpie: fatal error: " + std::string(5000, 'x') + "the last word\n");
}

TEST(Check, ContextFollowsTheReport) {
  const program_end end = run_program("check", {"context"});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_EQ(end.output, "magpie: fatal error: out of luck\n  while goroutine 17 was running\n");
}

TEST(Check, ContextCanBeWithdrawn) {
  const program_end end = run_program("check", {"context_withdrawn"});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_EQ(end.output, "magpie: fatal error: out of luck\n");
}

TEST(Check, FirstFailureIsReadableWhenTheContextFailsToo) {
  for (const char* way : {"check_in_context", "handler_in_context"}) {
    const program_end end = run_program("check", {way});
    EXPECT_EQ(end.signal, SIGABRT) << way;
    EXPECT_EQ(end.output,
              "magpie: fatal error: the first failure\n"
              "\nmagpie: a second failure while reporting the first; giving up\n")
        << way;
  }
  const program_end end = run_program("check", {"fatal_in_context"});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_THAT(end.output, StartsWith("magpie: internal error: arithmetic is broken\n"));
  EXPECT_THAT(end.output,
              EndsWith("\nmagpie: a second failure while reporting the first; giving up\n"));
  EXPECT_THAT(end.output, Not(HasSubstr("the second failure")));
}

TEST(Check, FirstFailureIsReadableWhenTheContextDies) {
  const program_end end = run_program("check", {"fault_in_context"});
  EXPECT_EQ(end.signal, SIGKILL);
  EXPECT_EQ(end.output, "magpie: fatal error: the first failure\n");
}

TEST(Check, OfThreadsThatFailAtOnceOneReports) {
  for (int round = 0; round < 5; ++round) {
    const program_end end = run_program("check", {"threads"});
    EXPECT_EQ(end.signal, SIGABRT);
    EXPECT_EQ(occurrences(end.output, "magpie: "), 1) << end.output;
    EXPECT_EQ(occurrences(end.output, "the end of a report\n"), 1) << end.output;
    EXPECT_THAT(end.output, EndsWith("the end of a report\n"));
  }
}

TEST(Check, FailureInASignalHandlerIsReported) {
  const program_end end = run_program("check", {"handler"});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_THAT(end.output, StartsWith("magpie: internal error: arithmetic is broken\n"));
}

TEST(Check, ProcessWithoutStandardErrorStillEnds) {
  const program_end end = run_program("check", {"no_standard_error"});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_EQ(end.output, "");
}

class CheckWithoutHeap : public ::testing::TestWithParam<const char*> {};

TEST_P(CheckWithoutHeap, ReportWithItsStackTraceIsWritten) {
  if (sanitizer::k_address || sanitizer::k_thread) {
    GTEST_SKIP() << "the sanitizer replaces malloc itself, so the test cannot forbid it";
  }
  const program_end end = run_program("no_heap", {GetParam()});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_THAT(end.output, ContainsRegex("^magpie: (internal|fatal) error: "));
  EXPECT_THAT(end.output, HasSubstr("in main+"));
  EXPECT_THAT(end.output, EndsWith("the end of the report\n"));
}

INSTANTIATE_TEST_SUITE_P(Ways, CheckWithoutHeap, ::testing::Values("check", "fatal", "handler"),
                         [](const auto& way) { return std::string(way.param); });

TEST(CheckOfTheHeap, ProgramWouldNoticeTheHeapBeingTouched) {
  if (sanitizer::k_address || sanitizer::k_thread) {
    GTEST_SKIP() << "the sanitizer replaces malloc itself, so the test cannot forbid it";
  }
  const program_end end = run_program("no_heap", {"heap_in_context"});
  EXPECT_EQ(end.exit_code, 9);
  EXPECT_THAT(end.output, EndsWith("the heap was touched\n"));
}

TEST(Check, ConditionThatHoldsIsEvaluatedOnceAndSilent) {
  int times = 0;
  MAGPIE_CHECK(++times == 1, "evaluated more than once");
  EXPECT_EQ(times, 1);
}

TEST(Check, IsOneStatement) {
  bool other = false;
  if (false)
    MAGPIE_CHECK(false, "not reached");
  else
    other = true;
  EXPECT_TRUE(other);
}

TEST(Check, DebugCheckIsEvaluatedInDebugBuildsOnly) {
  int times = 0;
  MAGPIE_DCHECK(++times > 0, "counts itself");
#ifdef NDEBUG
  MAGPIE_DCHECK(false, "not evaluated");
  EXPECT_EQ(times, 0);
#else
  EXPECT_EQ(times, 1);
#endif
}

}  // namespace
}  // namespace magpie::rt
