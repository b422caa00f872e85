// A small seeded generator: one 64-bit word of state, one multiplication per number.
//
// Not for secrets. Every random choice of the runtime comes from one of these, so that a run
// can be repeated from its seed.
#pragma once

#include <cstdint>

namespace magpie::rt {

class random_source {
 public:
  explicit constexpr random_source(std::uint64_t seed) : state_(seed) {}

  constexpr std::uint64_t next() {
    // A Weyl sequence through a 64x64 -> 128 bit multiplication whose halves are folded
    // (the "wyrand" mix): passes the usual statistical batteries, costs about a nanosecond.
    state_ += 0xa0761d6478bd642fULL;
    const auto product = static_cast<unsigned __int128>(state_) * (state_ ^ 0xe7037ed1a0b428dbULL);
    return static_cast<std::uint64_t>(product >> 64) ^ static_cast<std::uint64_t>(product);
  }

  // Uniform in [0, bound) up to a bias of bound / 2^32; 0 when bound is 0.
  constexpr std::uint32_t below(std::uint32_t bound) {
    return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32);
  }

 private:
  std::uint64_t state_;
};

}  // namespace magpie::rt
