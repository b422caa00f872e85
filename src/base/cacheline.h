// Sizes that decide who shares a cache line with whom.
#pragma once

#include <cstddef>

namespace magpie::rt {

// A constant of our own: std::hardware_destructive_interference_size changes with -mtune, and
// the layout of G must not.
inline constexpr std::size_t k_cache_line = 64;

}  // namespace magpie::rt
