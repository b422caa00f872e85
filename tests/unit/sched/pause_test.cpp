#include <gtest/gtest.h>

#include "support/subprocess.h"

namespace magpie::rt::testing {
namespace {

TEST(Pause, BeginsThoughNoThreadCanBeMadeMeanwhile) {
  const program_end end = run_program("pause");
  EXPECT_EQ(end.output, "fine\n");
  EXPECT_EQ(end.exit_code, 0);
}

}  // namespace
}  // namespace magpie::rt::testing
