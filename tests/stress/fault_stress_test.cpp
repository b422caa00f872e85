// The kernel refuses memory and threads, as MAGPIE_FAULT asks it to. Either nobody notices, or the
// program ends with a report that says what was refused. (Sockets have their own table, in
// net_stress_test.cpp.)

#include "os/fault.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <string>
#include <thread>

#include "magpie/blocking.h"
#include "magpie/go.h"
#include "magpie/runtime.h"
#include "magpie/time.h"
#include "magpie/wait_group.h"
#include "support/stress.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;
using rt::os::fault_call;
using rt::testing::rounds;

class Faults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!rt::os::k_faults) GTEST_SKIP() << "faults are made in debug builds only";
  }
  ~Faults() override { rt::os::set_faults(nullptr); }
  void TearDown() override {
    RecordProperty("faults", std::to_string(rt::os::faults_made() - before_));
  }

 private:
  const std::uint64_t before_ = rt::os::faults_made();
};

// A runtime starts and ends, and in between its goroutines block more threads than there are.
TEST_F(Faults, ThreadsAreAskedForUntilTheyAreThere) {
  const std::uint64_t before = rt::os::faults_made(fault_call::clone);
  rt::os::set_faults("clone:EAGAIN:1/2");
  for (int i = 0; i < rounds(100); ++i) {
    std::atomic<int> done{0};
    runtime r({.procs = 2});
    r.run([&] {
      wait_group all;
      for (int k = 0; k < 8; ++k) {
        all.go([&] {
          blocking(hand_off_now, [] { usleep(100); });
          ++done;
        });
      }
      all.wait();
    });
    ASSERT_EQ(done.load(), 8);
  }
  EXPECT_GT(rt::os::faults_made(fault_call::clone), before);
}

// The only thread waits in the kernel for a goroutine that has none to run on.
TEST_F(Faults, AThreadThatWasRefusedIsAskedForAgainThoughNothingHappens) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::uint64_t before = rt::os::faults_made(fault_call::clone);
  runtime r({.procs = 1});
  const std::jthread relents([&] {
    while (rt::os::faults_made(fault_call::clone) == before) std::this_thread::yield();
    rt::os::set_faults(nullptr);
  });
  r.run([&] {
    rt::os::set_faults("clone:EAGAIN:1/1");
    go([&] { EXPECT_EQ(write(ends[1], "x", 1), 1); });
    char got = 0;
    blocking(hand_off_now, [&] { EXPECT_EQ(read(ends[0], &got, 1), 1); });
    EXPECT_EQ(got, 'x');
  });
  close(ends[0]);
  close(ends[1]);
}

TEST_F(Faults, AdviceThatIsRefusedIsDoneWithout) {
  const std::uint64_t before = rt::os::faults_made(fault_call::madvise);
  rt::os::set_faults("madvise:EINVAL:1/3,madvise:EAGAIN:1/3");
  for (int i = 0; i < rounds(20); ++i) {
    std::atomic<int> done{0};
    runtime r({.procs = 2});
    r.run([&] {
      wait_group all;
      for (int k = 0; k < 2000; ++k) {
        all.add(1);
        go({.stack_size = k % 2 == 0 ? 64 * 1024u : 256 * 1024u}, [&] {
          this_goroutine::yield();
          ++done;
          all.done();
        });
      }
      all.wait();
    });
    ASSERT_EQ(done.load(), 2000);
  }
  EXPECT_GT(rt::os::faults_made(fault_call::madvise), before);
}

TEST_F(Faults, WithoutMemoryTheReportSaysSo) {
  int survived = 0, reported = 0;
  for (int one_in = 1; one_in <= rounds(40); ++one_in) {
    const std::string rule = "MAGPIE_FAULT=mmap:ENOMEM:1/" + std::to_string(one_in);
    const auto end = rt::testing::run_program("goroutines", {"crowd"}, {rule});
    if (end.exit_code == 0) {
      EXPECT_EQ(end.output, "5000 awake\n") << rule;
      ++survived;
    } else {
      EXPECT_EQ(end.signal, SIGABRT) << rule << '\n' << end.output;
      EXPECT_TRUE(end.output.find("no memory") != std::string::npos ||
                  end.output.find("ENOMEM") != std::string::npos)
          << rule << '\n'
          << end.output;
      ++reported;
    }
  }
  EXPECT_GT(reported, 0);
  RecordProperty("survived", survived);
}

}  // namespace
}  // namespace magpie
