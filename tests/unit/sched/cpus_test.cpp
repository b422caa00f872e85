// The number of Ps follows the CPUs that the process may use. In programs of their own: the mask of
// all threads is changed.
#include <gtest/gtest.h>

#include <string>

#include "support/subprocess.h"

namespace magpie::rt::testing {
namespace {

void expect_fine(const std::string& what) {
  const program_end end = run_program("cpus", {what}, {"MAGPIE_PROCS="});
  if (end.output == "needs two CPUs\n") GTEST_SKIP() << end.output;
  EXPECT_EQ(end.output, "fine\n");
  EXPECT_EQ(end.exit_code, 0);
}

TEST(Cpus, AnIdleRuntimeFollows) { expect_fine("idle"); }
TEST(Cpus, ABusyRuntimeFollows) { expect_fine("busy"); }
TEST(Cpus, ANumberInTheSettingsStays) { expect_fine("config"); }
TEST(Cpus, ANumberInTheEnvironmentStays) { expect_fine("environment"); }
TEST(Cpus, ANumberThatWasSetStays) { expect_fine("set_procs"); }
TEST(Cpus, TheCountIsAsAtTheStartOfTheProcess) { expect_fine("count"); }

}  // namespace
}  // namespace magpie::rt::testing
