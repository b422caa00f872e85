#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

namespace magpie::rt {
namespace {

// Computed apart from this code, with arbitrary-precision integers: a seed written down in a bug
// report must mean the same run for ever.
TEST(RandomSource, SequenceOfASeedNeverChanges) {
  random_source zero(0);
  EXPECT_EQ(zero.next(), 0x111cb3a78f59a58eU);
  EXPECT_EQ(zero.next(), 0xceabd938ff4e856dU);
  EXPECT_EQ(zero.next(), 0x61fb51318f47d2a4U);
  EXPECT_EQ(zero.next(), 0x78bd03c491909760U);
  random_source other(42);
  EXPECT_EQ(other.next(), 0xae4a7cbfdda9b434U);
  EXPECT_EQ(other.next(), 0xe9cc09d33d38d9d2U);
}

TEST(RandomSource, CopiesGoOnAlikeAndApart) {
  random_source a(1);
  a.next();
  random_source b = a;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(a.next(), b.next());
  const std::uint64_t ahead = a.next();
  EXPECT_NE(a.next(), ahead);
  EXPECT_EQ(b.next(), ahead) << "the copy must not move with the original";
}

TEST(RandomSource, NeighbouringSeedsHaveNothingInCommon) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    random_source random(seed);
    for (int i = 0; i < 100; ++i) seen.insert(random.next());
  }
  EXPECT_EQ(seen.size(), 100'000u);
}

TEST(RandomSource, EveryBitIsSetHalfOfTheTime) {
  random_source random(3);
  int ones[64] = {};
  constexpr int k_draws = 100'000;
  for (int i = 0; i < k_draws; ++i) {
    const std::uint64_t number = random.next();
    for (int bit = 0; bit < 64; ++bit) ones[bit] += static_cast<int>((number >> bit) & 1);
  }
  for (const int count : ones) EXPECT_NEAR(count, k_draws / 2, 1000);  // six sigma; a fixed seed
}

TEST(RandomSource, BelowZeroAndOneIsZero) {
  random_source random(4);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(random.below(0), 0u);
    EXPECT_EQ(random.below(1), 0u);
  }
}

TEST(RandomSource, BelowStaysBelowAndComesClose) {
  random_source random(5);
  for (int bit = 1; bit < 32; ++bit) {
    const std::uint32_t bound = (1U << bit) + 1;
    std::uint32_t largest = 0;
    for (int i = 0; i < 1000; ++i) {
      const std::uint32_t number = random.below(bound);
      ASSERT_LT(number, bound);
      largest = std::max(largest, number);
    }
    EXPECT_GT(largest, bound / 2) << bound;
  }
  for (int i = 0; i < 1000; ++i) ASSERT_LT(random.below(UINT32_MAX), UINT32_MAX);
}

TEST(RandomSource, BelowIsUniform) {
  for (const std::uint32_t bound : {2U, 3U, 7U, 10U, 64U}) {
    random_source random(bound);
    std::vector<int> counts(bound);
    constexpr int k_each = 10'000;
    for (std::uint32_t i = 0; i < bound * k_each; ++i) ++counts[random.below(bound)];
    for (const int count : counts) EXPECT_NEAR(count, k_each, 600) << "below " << bound;
  }
}

TEST(RandomSource, WorksAtCompileTime) {
  constexpr std::uint64_t number = random_source(0).next();
  static_assert(number == 0x111cb3a78f59a58eU);
  EXPECT_EQ(random_source(0).next(), number);
}

}  // namespace
}  // namespace magpie::rt
