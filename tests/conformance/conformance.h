// What the conformance tests share: a row of Go's behaviours, run with several numbers of Ps.
#pragma once

#include <gtest/gtest.h>

#include "fiber/sanitizer.h"

namespace magpie {

// Fewer rounds will do then.
inline constexpr bool k_sanitized = rt::sanitizer::k_thread || rt::sanitizer::k_address;

// The parameter is the number of Ps; b_scheduling_test.cpp says which.
class Conformance : public ::testing::TestWithParam<int> {
 protected:
  int ps() const { return GetParam(); }
};

}  // namespace magpie
