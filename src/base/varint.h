// Variable-length unsigned integers, seven bits a byte, low bits first (LEB128): the unit that
// traces are made of.
#pragma once

#include <cstddef>
#include <cstdint>

namespace magpie::rt {

inline constexpr std::size_t k_max_varint_size = 10;  // ceil(64 / 7)

// Writes `value` at `out`, which must have k_max_varint_size bytes left; returns the end.
constexpr std::uint8_t* put_varint(std::uint8_t* out, std::uint64_t value) {
  while (value >= 0x80) {
    *out++ = static_cast<std::uint8_t>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<std::uint8_t>(value);
  return out;
}

constexpr std::size_t varint_size(std::uint64_t value) {
  std::size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

// Reads one varint from [in, end) into `value`; returns the byte after it, or null when the
// input ends early or the number does not fit 64 bits.
constexpr const std::uint8_t* get_varint(const std::uint8_t* in, const std::uint8_t* end,
                                         std::uint64_t& value) {
  std::uint64_t result = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (in == end) return nullptr;
    const std::uint8_t byte = *in++;
    const std::uint64_t bits = byte & 0x7fU;
    if (shift == 63 && bits > 1) return nullptr;
    result |= bits << shift;
    if (byte < 0x80) {
      value = result;
      return in;
    }
  }
  return nullptr;
}

}  // namespace magpie::rt
