// A server at its limits; the server is tests/programs/sockets.cpp.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "fiber/sanitizer.h"
#include "support/subprocess.h"

namespace magpie {
namespace {

constexpr bool k_sanitized = rt::sanitizer::k_thread || rt::sanitizer::k_address;

// The number behind "name=", or -1.
double number(const std::string& output, const std::string& name) {
  const std::size_t at = output.find(name + "=");
  return at == output.npos ? -1 : std::atof(output.c_str() + at + name.size() + 1);
}

TEST(Limits, AServerOutOfDescriptorsRestsAndRecovers) {
  const auto end = rt::testing::run_program("sockets", {"out_of_descriptors"});
  ASSERT_EQ(end.exit_code, 0) << end.output;
  if (end.output.find("skipped:") != end.output.npos) GTEST_SKIP() << end.output;
  EXPECT_GT(number(end.output, "served"), 90) << end.output;
  EXPECT_LT(number(end.output, "cpu_percent"), 10) << end.output;
  EXPECT_GE(number(end.output, "recovery_ms"), 0) << end.output;
  EXPECT_LT(number(end.output, "recovery_ms"), 1000 * (k_sanitized ? 10 : 1)) << end.output;
}

TEST(Limits, AnIdleConnectionCostsAPageAndALittle) {
  const auto end = rt::testing::run_program("sockets", {"idle", k_sanitized ? "1000" : "15000"});
  ASSERT_EQ(end.exit_code, 0) << end.output;
  if (end.output.find("skipped:") != end.output.npos) GTEST_SKIP() << end.output;
  const double each = number(end.output, "bytes_each");
  EXPECT_GT(each, 0) << end.output;
  if (!k_sanitized) {
    EXPECT_LE(each, 6 * 1024) << end.output;
  }
}

}  // namespace
}  // namespace magpie
