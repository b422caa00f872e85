#include "os/environment.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "fiber/sanitizer.h"
#include "support/subprocess.h"

namespace magpie::rt::os {
namespace {

constexpr const char* k_name = "MAGPIE_TEST_VARIABLE";

TEST(Environment, UnsetIsNull) {
  unsetenv(k_name);
  EXPECT_EQ(environment(k_name), nullptr);
}

TEST(Environment, EmptyIsNotUnset) {
  setenv(k_name, "", 1);
  EXPECT_STREQ(environment(k_name), "");
  unsetenv(k_name);
}

TEST(Environment, SetIsTheValue) {
  setenv(k_name, "a=b c", 1);
  EXPECT_STREQ(environment(k_name), "a=b c");
  EXPECT_EQ(environment("MAGPIE_TEST_VARIABL"), nullptr);
  EXPECT_EQ(environment("MAGPIE_TEST_VARIABLE_"), nullptr);
  unsetenv(k_name);
  EXPECT_EQ(environment(k_name), nullptr);
}

TEST(Environment, IsInheritedByPrograms) {
  const auto end = testing::run_program("environment", {k_name}, {std::string(k_name) + "=here"});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(end.output, "here\n");
}

TEST(Environment, IsNotTrustedByAProgramWithMoreRightsThanItsUser) {
#ifdef MAGPIE_EMULATOR
  GTEST_SKIP() << "the emulator would have to be the program with more rights";
#endif
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a program of another user's";
  if (sanitizer::k_address) GTEST_SKIP() << "LeakSanitizer cannot look into such a program";
  const std::string directory = std::string(MAGPIE_PROGRAMS_DIR) + '/';
  const std::string name = "environment_" + std::to_string(getpid());
  std::filesystem::copy_file(directory + "environment", directory + name);
  constexpr uid_t k_somebody_else = 65534;
  ASSERT_EQ(chown((directory + name).c_str(), k_somebody_else, k_somebody_else), 0);
  ASSERT_EQ(chmod((directory + name).c_str(), 04755), 0);
  const auto end = testing::run_program(name, {k_name}, {std::string(k_name) + "=here"});
  std::filesystem::remove(directory + name);
  if (end.output == "here\n") {
    GTEST_SKIP() << "the kernel ignores the set-user-ID bit here";
  }
  EXPECT_EQ(end.output, "with more rights: unset\n");
}

}  // namespace
}  // namespace magpie::rt::os
