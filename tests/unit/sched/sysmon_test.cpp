#include <gtest/gtest.h>
#include <magpie/magpie.h>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace magpie {
namespace {

using namespace std::chrono_literals;

// CPU time in clock ticks (10 ms) of all threads with that name.
long ticks_of_threads(const std::string& name) {
  long ticks = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream comm(task.path() / "comm");
    std::string is_called;
    if (!std::getline(comm, is_called) || is_called != name) continue;
    std::ifstream stat(task.path() / "stat");
    std::string word;
    for (int field = 1; field < 14; ++field) stat >> word;
    long user = 0, system = 0;
    stat >> user >> system;
    ticks += user + system;
  }
  return ticks;
}

void compute_for(std::clock_t cpu_time) {
  const std::clock_t end = std::clock() + cpu_time;
  while (std::clock() < end) this_goroutine::checkpoint();
}

// All Ps are busy, with and without a timer that is pending for long.
TEST(Monitor, SleepsWhileGoroutinesCompute) {
  for (const bool timer : {false, true}) {
    runtime r({.procs = 2});
    const long before = ticks_of_threads("magpie-monitor");
    r.run([&] {
      std::atomic<bool> over{false};
      auto sleeper = async([&] {
        if (timer) this_goroutine::sleep_for(1s);
      });
      auto other = async([&] {
        while (!over) this_goroutine::checkpoint();
      });
      compute_for(CLOCKS_PER_SEC);  // both together
      over = true;
      other.get();
      EXPECT_LT(ticks_of_threads("magpie-monitor") - before, 20);
      sleeper.get();
    });
  }
}

// Calls that turn out to be long give their P away at once, after a while; that shows in who
// hands it on.
TEST(Blocking, LongCallsAreExpectedToBeLong) {
  runtime r({.procs = 1});
  r.run([&] {
    std::atomic<bool> over{false};
    auto other = async([&] {
      while (!over) this_goroutine::yield();
    });
    for (int i = 0; i < 20; ++i) blocking([] { std::this_thread::sleep_for(2ms); });
    over = true;
    other.get();
  });
  EXPECT_GE(r.read_stats().retakes, 1u);
  EXPECT_LE(r.read_stats().retakes, 10u);
  EXPECT_GE(r.read_stats().hand_offs, 10u);
}

}  // namespace
}  // namespace magpie
