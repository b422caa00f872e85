#include "base/varint.h"

#include <gtest/gtest.h>

#include <vector>

namespace magpie::rt {
namespace {

TEST(Varint, RoundTripsTheEdgesOfEveryLength) {
  std::vector<std::uint64_t> numbers{0, 1, ~std::uint64_t{0}};
  for (int bit = 1; bit < 64; ++bit) {
    const auto power = std::uint64_t{1} << bit;
    numbers.insert(numbers.end(), {power - 1, power, power + 1});
  }
  for (const std::uint64_t number : numbers) {
    std::uint8_t bytes[k_max_varint_size];
    const std::uint8_t* const end = put_varint(bytes, number);
    EXPECT_EQ(static_cast<std::size_t>(end - bytes), varint_size(number));
    std::uint64_t back = 0;
    EXPECT_EQ(get_varint(bytes, end, back), end);
    EXPECT_EQ(back, number);
  }
}

TEST(Varint, KnownBytes) {
  std::uint8_t bytes[k_max_varint_size];
  put_varint(bytes, 300);
  EXPECT_EQ(bytes[0], 0xac);
  EXPECT_EQ(bytes[1], 0x02);
}

TEST(Varint, EveryTruncationIsRefused) {
  std::uint8_t bytes[k_max_varint_size];
  const std::uint8_t* const end = put_varint(bytes, ~std::uint64_t{0});
  std::uint64_t value = 7;
  for (const std::uint8_t* stop = bytes; stop != end; ++stop) {
    EXPECT_EQ(get_varint(bytes, stop, value), nullptr);
  }
  EXPECT_EQ(value, 7u) << "a refused number must not be half written";
}

TEST(Varint, NumbersBeyond64BitsAreRefused) {
  std::uint64_t value = 0;
  const std::uint8_t eleven[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1};
  EXPECT_EQ(get_varint(eleven, eleven + sizeof eleven, value), nullptr);
  const std::uint8_t too_large[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2};
  EXPECT_EQ(get_varint(too_large, too_large + sizeof too_large, value), nullptr);
}

}  // namespace
}  // namespace magpie::rt
