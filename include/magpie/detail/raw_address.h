// The address of a socket as the kernel has it. Not for users, who have net::address.
#pragma once

#include <cstdint>

namespace magpie::detail {

struct raw_address {
  static constexpr std::uint32_t k_capacity = 112;  // the longest: that of a unix socket, 110

  alignas(8) unsigned char bytes[k_capacity] = {};
  std::uint32_t size = 0;  // 0: none
};

}  // namespace magpie::detail
