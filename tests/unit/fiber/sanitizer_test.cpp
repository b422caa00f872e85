#include "fiber/sanitizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/subprocess.h"

namespace magpie::rt {
namespace {

using testing::program_end;
using testing::run_program;

TEST(LeakCheck, WhatAWaitingFiberHoldsIsNoLeak) {
  if (!sanitizer::k_address) GTEST_SKIP() << "leaks are looked for in AddressSanitizer builds";
  const program_end end = run_program("leak", {"held"});
  EXPECT_EQ(end.exit_code, 0) << end.output;
}

TEST(LeakCheck, WhatAClosureHoldsIsNoLeak) {
  if (!sanitizer::k_address) GTEST_SKIP() << "leaks are looked for in AddressSanitizer builds";
  const program_end end = run_program("leak", {"closure"}, {"MAGPIE_PROCS=1"});
  EXPECT_EQ(end.exit_code, 0) << end.output;
}

TEST(LeakCheck, LostObjectIsReported) {
  if (!sanitizer::k_address) GTEST_SKIP() << "leaks are looked for in AddressSanitizer builds";
  const program_end end = run_program("leak", {"lost"});
  EXPECT_NE(end.exit_code, 0);
  EXPECT_THAT(end.output, ::testing::HasSubstr("400 byte(s) leaked in 1 allocation(s)"));
}

}  // namespace
}  // namespace magpie::rt
