#include "base/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/printed.h"

namespace magpie::rt {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::printed;

template <class... Parts>
std::string text_of(const Parts&... parts) {
  return printed([&](printer& out) { (out << ... << parts); });
}

// Keeps every write of the printer as it came.
struct writes {
  std::vector<std::string> parts;
  text_sink sink() {
    return {[](void* to, const char* text, std::size_t size) {
              static_cast<writes*>(to)->parts.emplace_back(text, size);
            },
            this};
  }
};

template <class T>
concept printable = requires(printer& out, T value) {
  out << value;
};

TEST(Print, TextComesOutAsItIs) {
  EXPECT_EQ(text_of("plain", ' ', std::string("string"), std::string_view(" view")),
            "plain string view");
  EXPECT_EQ(text_of(std::string_view("a\0b", 3)), std::string("a\0b", 3));
  EXPECT_EQ(text_of(""), "");
}

TEST(Print, NullTextIsNamed) { EXPECT_EQ(text_of(static_cast<const char*>(nullptr)), "(null)"); }

TEST(Print, IntegersOfEveryWidthReachTheirLimits) {
  EXPECT_EQ(text_of(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(text_of(std::numeric_limits<std::int64_t>::max()), "9223372036854775807");
  EXPECT_EQ(text_of(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(text_of(std::numeric_limits<std::int32_t>::min()), "-2147483648");
  EXPECT_EQ(text_of(std::numeric_limits<std::uint32_t>::max()), "4294967295");
  EXPECT_EQ(text_of(std::numeric_limits<std::int16_t>::min()), "-32768");
  EXPECT_EQ(text_of(0), "0");
  EXPECT_EQ(text_of(-1), "-1");
  EXPECT_EQ(text_of(10, ' ', 100U, ' ', -10L), "10 100 -10");
}

TEST(Print, EveryPowerOfTenAndItsNeighboursAreRight) {
  std::uint64_t power = 1;
  for (int digits = 1; digits <= 20; ++digits, power *= 10) {
    for (const std::uint64_t number : {power - 1, power, power + 1}) {
      EXPECT_EQ(text_of(number), std::to_string(number));
    }
    if (digits == 20) break;
    const auto negative = -static_cast<std::int64_t>(power / 10);
    EXPECT_EQ(text_of(negative), std::to_string(negative));
  }
}

TEST(Print, BytesAreNumbersAndCharactersAreText) {
  EXPECT_EQ(text_of(std::uint8_t{65}), "65");
  EXPECT_EQ(text_of(std::int8_t{-128}), "-128");
  EXPECT_EQ(text_of('A'), "A");
}

TEST(Print, HexHasAPrefixAndNoLeadingZeros) {
  EXPECT_EQ(text_of(hex{0}), "0x0");
  EXPECT_EQ(text_of(hex{0xdeadbeef}), "0xdeadbeef");
  EXPECT_EQ(text_of(hex{0x1234567890abcdef}), "0x1234567890abcdef");
  EXPECT_EQ(text_of(hex{~std::uint64_t{0}}), "0xffffffffffffffff");
}

TEST(Print, AddressesAreHex) {
  EXPECT_EQ(text_of(reinterpret_cast<const void*>(0x7f00)), "0x7f00");
  EXPECT_EQ(text_of(static_cast<const void*>(nullptr)), "0x0");
  int* const number = reinterpret_cast<int*>(0x40);
  EXPECT_EQ(text_of(number), "0x40");
}

TEST(Print, WhatHasNoMeaningHereDoesNotCompile) {
  EXPECT_TRUE(printable<int>);
  EXPECT_TRUE(printable<const char*>);
  EXPECT_FALSE(printable<bool>) << "would print the character with the number 1";
  EXPECT_FALSE(printable<double>) << "would print the character with that number";
  EXPECT_FALSE(printable<void (*)()>);
}

TEST(Print, NothingIsWrittenBeforeTheBufferIsFull) {
  writes seen;
  {
    printer out(seen.sink());
    out << std::string(511, 'x');
    EXPECT_THAT(seen.parts, IsEmpty());
    out << 'y';
    EXPECT_THAT(seen.parts, ElementsAre(std::string(511, 'x') + 'y'));
    out << 'z';
    EXPECT_EQ(seen.parts.size(), 1u);
  }
  EXPECT_EQ(seen.parts.size(), 2u);
  EXPECT_EQ(seen.parts.back(), "z");
}

TEST(Print, LongTextLeavesInFewWholeWrites) {
  writes seen;
  std::string text;
  for (int i = 0; text.size() < 2000; ++i) text += std::to_string(i) + ' ';
  { printer(seen.sink()) << "<" << text << ">"; }
  EXPECT_EQ(seen.parts.size(), (text.size() + 2 + 511) / 512);
  std::string all;
  for (const std::string& part : seen.parts) all += part;
  EXPECT_EQ(all, "<" + text + ">");
}

TEST(Print, TextOfEverySizeAroundTheBufferArrivesWhole) {
  for (std::size_t before = 500; before < 525; ++before) {
    EXPECT_EQ(text_of(std::string(before, 'x'), hex{0xabcdef}, -12345, "end"),
              std::string(before, 'x') + "0xabcdef-12345end");
  }
}

TEST(Print, FlushWritesOnceAndOnlyWhatIsThere) {
  writes seen;
  {
    printer out(seen.sink());
    out.flush();
    EXPECT_THAT(seen.parts, IsEmpty()) << "an empty write is none";
    out << "one";
    out.flush();
    out.flush();
    EXPECT_THAT(seen.parts, ElementsAre("one"));
  }
  EXPECT_THAT(seen.parts, ElementsAre("one"));
}

}  // namespace
}  // namespace magpie::rt
