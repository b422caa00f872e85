#include <gtest/gtest.h>

#include "fiber/sanitizer.h"
#include "support/subprocess.h"

namespace magpie::rt::testing {
namespace {

void expect_fine(const char* what) {
  if (sanitizer::k_thread || sanitizer::k_address) {
    GTEST_SKIP() << "the sanitizer has its own operator new";
  }
  const program_end end = run_program("heap_lock", {what});
  EXPECT_EQ(end.output, "fine\n");
  EXPECT_EQ(end.exit_code, 0);
}

TEST(HeapLock, OfOneStoppedByAPauseThatComesWhenNoThreadCanBeMade) { expect_fine("pause"); }
TEST(HeapLock, OfOneWhosePIsToGoWhileTheOtherWaitsForItsThread) { expect_fine("fewer_ps"); }

}  // namespace
}  // namespace magpie::rt::testing
