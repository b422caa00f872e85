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

// The same of any width, as debug information has them, from a reader whose byte() is 0 and whose
// failed() is true past the end. Bits that do not fit are dropped.
template <class Reader>
std::uint64_t read_uleb(Reader& in) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; !in.failed(); shift += 7) {
    const std::uint8_t b = in.byte();
    if (shift < 64) value |= std::uint64_t{b & 0x7fU} << shift;
    if ((b & 0x80) == 0) break;
  }
  return value;
}

// Signed: the highest bit of the last byte is the sign.
template <class Reader>
std::int64_t read_sleb(Reader& in) {
  std::uint64_t value = 0;
  unsigned shift = 0;
  std::uint8_t b = 0x80;
  while (!in.failed() && (b & 0x80) != 0) {
    b = in.byte();
    if (shift < 64) value |= std::uint64_t{b & 0x7fU} << shift;
    shift += 7;
  }
  if (shift < 64 && (b & 0x40) != 0) value |= ~std::uint64_t{0} << shift;
  return static_cast<std::int64_t>(value);
}

}  // namespace magpie::rt
