#include "io/shortage.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

#include "support/connected_pair.h"

namespace magpie::rt {
namespace {

using testing::connected_pair;

// Nobody waits for so long: the test would be ended.
os::nanos in_an_hour() { return os::now() + os::nanos(3'600'000'000'000); }

class Shortage : public ::testing::TestWithParam<int> {
 protected:
  runtime runtime_{{.procs = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Ps, Shortage, ::testing::Values(1, 2, 4));

TEST_P(Shortage, EndsWhenASocketIsClosed) {
  runtime_.run([] {
    for (int i = 0; i < 500; ++i) {
      connected_pair pair;
      auto seeker = async([] {
        shortage mine;
        mine.wait_until(in_an_hour());
      });
      if (i % 2 == 0) this_goroutine::yield();
      // One that comes late would wait for the next to be closed.
      while (!seeker.ready()) {
        connected_pair another;
        this_goroutine::yield();
      }
    }
  });
}

TEST_P(Shortage, EndsWhenAFileIsClosed) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("magpie-short-" + std::to_string(getpid())))
          .string();
  runtime_.run([&] {
    file opened = file::open(path, open_mode::write | open_mode::create);
    std::atomic<bool> begun{false};
    auto seeker = async([&] {
      shortage mine;
      begun = true;
      mine.wait_until(in_an_hour());
    });
    while (!begun) this_goroutine::yield();
    opened.close();
    seeker.get();
  });
  std::filesystem::remove(path);
}

// What is closed between being refused and waiting is not missed.
TEST_P(Shortage, RemembersWhatWasClosedBefore) {
  runtime_.run([] {
    shortage mine;
    { connected_pair closed; }
    mine.wait_until(in_an_hour());
    const os::nanos before = os::now();
    mine.wait_until(before + 3'000'000);  // but only once
    EXPECT_GE(os::now(), before + 3'000'000);
  });
}

TEST_P(Shortage, ADescriptorWakesSomebodyAndLookAgainAll) {
  runtime_.run([] {
    constexpr int k_seekers = 10;
    std::atomic<int> begun{0}, ended{0};
    wait_group seekers;
    for (int i = 0; i < k_seekers; ++i) {
      seekers.go([&] {
        shortage mine;
        ++begun;
        mine.wait_until(in_an_hour());
        ++ended;
      });
    }
    while (begun != k_seekers) this_goroutine::yield();
    connected_pair pair;
    pair.ends[0]->close();
    while (ended == 0) this_goroutine::yield();
    shortage::look_again();
    seekers.wait();
  });
}

TEST(ShortageOfThreads, APlainThreadWaitsToo) {
  std::atomic<bool> ended{false};
  std::thread seeker([&] {
    shortage mine;
    mine.wait_until(in_an_hour());
    ended = true;
  });
  while (!ended) {
    connected_pair pair;
    std::this_thread::yield();
  }
  seeker.join();
}

}  // namespace
}  // namespace magpie::rt
