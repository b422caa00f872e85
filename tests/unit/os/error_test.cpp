#include "os/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "support/subprocess.h"

namespace magpie::rt::os {
namespace {

TEST(Error, ZeroIsNoError) {
  EXPECT_FALSE(error{});
  EXPECT_FALSE(error{0});
  EXPECT_TRUE(error{ENOMEM});
  EXPECT_EQ(error{EIO}, error{EIO});
  EXPECT_NE(error{EIO}, error{});
}

TEST(Error, LastErrorIsErrno) {
  errno = EXDEV;
  EXPECT_EQ(last_error(), error{EXDEV});
  errno = 0;
  EXPECT_FALSE(last_error());
}

TEST(Error, NamesAreTheConstants) {
  EXPECT_STREQ(error_name({ENOMEM}), "ENOMEM");
  EXPECT_STREQ(error_name({EPERM}), "EPERM");
  EXPECT_STREQ(error_name({EAGAIN}), "EAGAIN");
  EXPECT_STREQ(error_name({}), "no error");
}

TEST(Error, NumbersWithoutANameAreCalledError) {
  EXPECT_STREQ(error_name({100'000}), "error");
  EXPECT_STREQ(error_name({-1}), "error");
}

TEST(Result, HoldsAValueOrAnError) {
  const result<int> value = 7;
  ASSERT_TRUE(value);
  EXPECT_EQ(*value, 7);
  EXPECT_FALSE(value.error());
  const result<int> failure = error{ENOENT};
  EXPECT_FALSE(failure);
  EXPECT_EQ(failure.error(), error{ENOENT});
}

TEST(Result, ValueThatIsFalseItselfIsAValue) {
  const result<bool> no = false;
  EXPECT_TRUE(no);
  EXPECT_FALSE(*no);
  const result<void*> null = nullptr;
  EXPECT_TRUE(null);
  EXPECT_EQ(*null, nullptr);
}

TEST(Result, ValueCanBeChangedAndReachedInto) {
  result<std::string> text = std::string("abc");
  EXPECT_EQ(text->size(), 3u);
  *text += "d";
  const result<std::string>& same = text;
  EXPECT_EQ(same->size(), 4u);
  EXPECT_EQ(*same, "abcd");
}

TEST(Result, ValueCanBeMovedInAndOut) {
  result<std::unique_ptr<int>> owner = std::make_unique<int>(5);
  ASSERT_TRUE(owner);
  const std::unique_ptr<int> out = std::move(*owner);
  EXPECT_EQ(*out, 5);
  static_assert(!std::is_copy_constructible_v<result<std::unique_ptr<int>>>);
}

#ifndef NDEBUG
TEST(Result, NeitherValueNorErrorIsReported) {
  const auto end = testing::run_program("misuse", {"no_value_no_error"});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_THAT(end.output, ::testing::HasSubstr("a result without value and without error"));
}
#endif

}  // namespace
}  // namespace magpie::rt::os
