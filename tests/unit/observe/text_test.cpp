#include "observe/text.h"

#include <gtest/gtest.h>

namespace magpie::rt {
namespace {

TEST(Text, ForATerminalHasNothingThatSteersIt) {
  EXPECT_EQ(printable("plain \xc3\xa9 \xf0\x9f\x90\xa6"), "plain \xc3\xa9 \xf0\x9f\x90\xa6");
  EXPECT_EQ(printable("a\x1b[2Jb\n\t\x7f"), "a?[2Jb???");
  EXPECT_EQ(printable_lines("a\x1b[2Jb\n\t\r"), "a?[2Jb\n\t?");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "?");
}

TEST(Text, ForATerminalHasNoneOfTheLateControlCharacters) {
  EXPECT_EQ(printable("\xc2\x80\xc2\x9b\xc2\x9f"), "???");
  EXPECT_EQ(printable("\xc2\xa0"), "\xc2\xa0") << "the first one that is none";
  EXPECT_EQ(printable("\x9b"
                      "1m"),
            "?1m")
      << "as one byte, for terminals that know no UTF-8";
}

TEST(Text, ForATerminalIsMadeOfCharacters) {
  EXPECT_EQ(printable("\xc3"), "?");
  EXPECT_EQ(printable("\xff\xc0\xafx"), "???x");
}

}  // namespace
}  // namespace magpie::rt
