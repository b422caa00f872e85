// What the stress tests have in common: short by default, MAGPIE_STRESS=N times as long, with
// different numbers of Ps, and once more without the monitor.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "fiber/sanitizer.h"
#include "support/subprocess.h"

namespace magpie::rt::testing {

// What a test does in its short form, times the wish of the environment.
inline int rounds(int in_short_form) {
  constexpr int k_slower = sanitizer::k_thread || sanitizer::k_address ? 10 : 1;
  static const int times = [] {
    const char* const text = std::getenv("MAGPIE_STRESS");
    return text != nullptr ? std::max(1, std::atoi(text)) : 1;
  }();
  return std::max(1, in_short_form / k_slower) * times;
}

class with_ps : public ::testing::TestWithParam<int> {
 protected:
  int ps() const { return GetParam(); }
};

// The tests of stress_test with such names, without the monitor: nothing may need it.
inline void expect_to_end_without_monitor(const std::string& filter) {
  const program_end end =
      run_program("../stress_test", {"--gtest_filter=" + filter}, {"MAGPIE_DEBUG=nosysmon=1"});
  EXPECT_EQ(end.exit_code, 0) << end.output;
}

}  // namespace magpie::rt::testing
