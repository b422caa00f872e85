#include "os/random.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <set>

#include "refuse_syscall.h"

namespace magpie::rt::os {
namespace {

constexpr int k_seeds = 1000;

std::set<std::uint64_t> collect(std::uint64_t (*seed)()) {
  std::set<std::uint64_t> seeds;
  for (int i = 0; i < k_seeds; ++i) seeds.insert(seed());
  return seeds;
}

// Every bit position was seen as 0 and as 1; that this fails by chance has odds of 2^-990.
void expect_all_bits_used(const std::set<std::uint64_t>& seeds) {
  std::uint64_t ones = 0;
  std::uint64_t zeros = 0;
  for (const std::uint64_t seed : seeds) {
    ones |= seed;
    zeros |= ~seed;
  }
  EXPECT_EQ(std::popcount(ones), 64);
  EXPECT_EQ(std::popcount(zeros), 64);
}

TEST(Random, SeedsDiffer) {
  const auto seeds = collect([] { return random_seed(); });
  EXPECT_EQ(seeds.size(), k_seeds);
  expect_all_bits_used(seeds);
}

TEST(Random, SeedsFromTheClockDifferEvenWithinOneTickOfIt) {
  const auto seeds = collect([] { return seed_from_clock(); });
  EXPECT_EQ(seeds.size(), k_seeds);
  expect_all_bits_used(seeds);
}

TEST(Random, SeedsDifferWhenTheKernelRefusesToGiveAny) {
  std::set<std::uint64_t> seeds;
  if (!run_refused(SYS_getrandom, ENOSYS, [&] { seeds = collect([] { return random_seed(); }); })) {
    GTEST_SKIP() << "no seccomp filters here to refuse getrandom with";
  }
  EXPECT_EQ(seeds.size(), k_seeds);
}

}  // namespace
}  // namespace magpie::rt::os
