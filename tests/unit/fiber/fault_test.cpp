#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "fiber/sanitizer.h"
#include "support/subprocess.h"

namespace magpie::rt {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::program_end;
using testing::run_program;

// The sanitizers' own SIGSEGV handlers would be the "earlier" ones here, and report in their way;
// what is tested is how our report looks without them.
program_end run_fault(const std::string& way) {
  return run_program("fault", {way},
                     {"ASAN_OPTIONS=handle_segv=0:detect_stack_use_after_return=0",
                      "TSAN_OPTIONS=handle_segv=0", "UBSAN_OPTIONS=handle_segv=0"});
}

constexpr const char* k_size = "its stack of 256 KiB is full \\(192 KiB above the guard\\)";

TEST(Fault, EndlessRecursionIsReportedAsOverflowWithItsFrames) {
  const program_end end = run_fault("recursion");
  EXPECT_EQ(end.signal, SIGSEGV) << "the process must still end as by any SIGSEGV";
  EXPECT_THAT(end.output, ContainsRegex("magpie: stack overflow in fiber 0x[0-9a-f]+: "));
  EXPECT_THAT(end.output, ContainsRegex(k_size));
  EXPECT_THAT(end.output, ContainsRegex("in overflow_by_recursion.*, [0-9]+ times"));
  EXPECT_THAT(end.output, HasSubstr("spawn_options::stack_size"));
}

TEST(Fault, AllocaBeyondTheStackIsReportedAsOverflow) {
  const program_end end = run_fault("alloca");
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_THAT(end.output, HasSubstr("magpie: stack overflow in fiber"));
  EXPECT_THAT(end.output, HasSubstr("in overflow_by_alloca"));
}

TEST(Fault, FrameOf60KiBThatJumpsBelowTheEndHitsTheGuard) {
  const program_end end = run_fault("large_frame");
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_THAT(end.output, HasSubstr("magpie: stack overflow in fiber"));
  EXPECT_THAT(end.output, HasSubstr("in overflow_by_large_frame"));
}

TEST(Fault, MiddleOfAVeryDeepStackIsLeftOut) {
  const program_end end = run_fault("mutual_recursion");
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_THAT(end.output, ContainsRegex("\\.\\.\\. [0-9]+ more frames \\.\\.\\."));
}

TEST(Fault, OverflowOnAnotherThreadIsReported) {
  const program_end end = run_fault("other_thread");
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_THAT(end.output, HasSubstr("magpie: stack overflow in fiber"));
}

TEST(Fault, TheDescriberNamesTheFiber) {
  const program_end end = run_fault("described");
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_THAT(end.output, HasSubstr("magpie: stack overflow in goroutine 17 \"server\": "));
}

TEST(Fault, NullPointerOnAFiberIsNotCalledAnOverflow) {
  const program_end end = run_fault("null");
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_THAT(end.output, ContainsRegex("magpie: invalid memory access at address 0x10 in fiber "
                                        "0x[0-9a-f]+: not a stack overflow"));
  EXPECT_THAT(end.output, HasSubstr("in touch"));
}

TEST(Fault, WriteIntoAnotherFibersGuardIsCalledWhatItIs) {
  const program_end end = run_fault("stray");
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_THAT(end.output, Not(HasSubstr("magpie: stack overflow")));
  EXPECT_THAT(end.output, ContainsRegex("not an overflow of its own stack, but the guard below "
                                        "the stack of fiber 0x[0-9a-f]+"));
}

TEST(Fault, FaultOutsideFibersIsLeftAlone) {
  const program_end end = run_fault("null_on_thread");
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_EQ(end.output, "");
}

TEST(Fault, SentSignalStillKills) {
  const program_end end = run_fault("sent");
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_THAT(end.output, Not(HasSubstr("magpie: stack overflow")));
}

TEST(Fault, EarlierHandlerIsCalledAfterTheReport) {
  const program_end end = run_fault("earlier_handler");
  EXPECT_EQ(end.exit_code, 7);
  EXPECT_THAT(end.output, HasSubstr("magpie: stack overflow in fiber"));
  EXPECT_THAT(end.output, HasSubstr("the earlier handler was called"));
}

TEST(Fault, FaultsThatAnEarlierHandlerRepairsPassWithoutAWord) {
  const program_end end = run_fault("repair");
  EXPECT_EQ(end.exit_code, 0) << end.output;
  EXPECT_EQ(end.output, "repaired\n");
}

TEST(Fault, ExceptionThatLeavesAFiberTerminatesWithNothingUnwound) {
  const program_end end = run_fault("escape");
  EXPECT_EQ(end.signal, SIGABRT) << end.output;
  EXPECT_THAT(end.output, HasSubstr("terminate called after throwing an instance of 'int'"));
  EXPECT_THAT(end.output, Not(HasSubstr("unwound")));
}

}  // namespace
}  // namespace magpie::rt
