#include "os/fault.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "support/subprocess.h"

namespace magpie::rt::os {
namespace {

class Fault : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!k_faults) GTEST_SKIP() << "faults are made in debug builds only";
  }
  ~Fault() override { set_faults(nullptr); }
};

TEST_F(Fault, ComesAsOftenAsTold) {
  set_faults("read:EIO:1/4");
  const std::uint64_t before = faults_made(fault_call::read);
  int failed = 0;
  for (int i = 0; i < 40'000; ++i) {
    errno = 0;
    const int outcome = faulty(fault_call::read, [] { return 7; });
    if (outcome == -1) {
      ++failed;
      ASSERT_EQ(errno, EIO);
    } else {
      ASSERT_EQ(outcome, 7);
    }
  }
  EXPECT_GT(failed, 9'000);
  EXPECT_LT(failed, 11'000);
  EXPECT_EQ(faults_made(fault_call::read) - before, static_cast<std::uint64_t>(failed));
}

TEST_F(Fault, ConcernsTheNamedCallOnly) {
  set_faults("write:ENOSPC:1/1,accept:EMFILE:1/1");
  EXPECT_FALSE(fault(fault_call::read));
  EXPECT_TRUE(fault(fault_call::write));
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_TRUE(fault(fault_call::accept));
  EXPECT_EQ(errno, EMFILE);
  set_faults("");
  EXPECT_FALSE(fault(fault_call::write));
}

TEST_F(Fault, ACallMayHaveSeveralRules) {
  set_faults("read:EINTR:1/2,read:EIO:1/2");
  bool interrupted = false, failed = false;
  for (int i = 0; i < 1000; ++i) {
    if (!fault(fault_call::read)) continue;
    interrupted |= errno == EINTR;
    failed |= errno == EIO;
  }
  EXPECT_TRUE(interrupted && failed);
}

TEST_F(Fault, WhatCannotBeReadIsSaid) {
  for (const char* rules : {"accept", "accept:EMFILE", "accept:EMFILE:2/3", "accept:EMFILE:1/0",
                            "accept:ENOSUCH:1/3", "sing:EMFILE:1/3", "accept:EMFILE:1/3;"}) {
    const auto end =
        testing::run_program("sockets", {"idle", "1"}, {std::string("MAGPIE_FAULT=") + rules});
    EXPECT_NE(end.output.find("MAGPIE_FAULT: cannot read"), std::string::npos) << end.output;
  }
}

}  // namespace
}  // namespace magpie::rt::os
