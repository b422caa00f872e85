// Dumps and pauses while goroutines come, go, wait and are woken: nothing crashes, nobody is lost,
// and every stack that is shown is one. Short by default; MAGPIE_STRESS=N makes it N times as long.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <magpie/debug.h>
#include <magpie/magpie.h>

#include "support/stress.h"

namespace magpie {
namespace {

using rt::testing::rounds;
using namespace std::chrono_literals;

class DumpStress : public rt::testing::with_ps {};
INSTANTIATE_TEST_SUITE_P(Ps, DumpStress, ::testing::Values(1, 2, 4, 16));

// A bit of everything, until told to end.
struct load {
  explicit load(runtime& r) {
    r.run([this] {
      for (int i = 0; i < 4; ++i) {
        all.go([this] { ping_pong(); });
        all.go([this] { spawns_children(); });
        all.go([this] { fights_for_lock(); });
      }
      all.go([this] { spins(); });
      all.go([this] { calls(); });
      all.go([this] { sleeps(); });
    });
  }
  void end(runtime& r) {
    ends = true;
    r.run([this] { all.wait(); });
  }

  void ping_pong() {
    const channel<int> there, back;
    all.go([=] {
      for (const int i : there) back.send(i);
    });
    for (int i = 0; !ends; ++i) {
      there.send(i);
      EXPECT_EQ(back.receive(), i);
    }
    there.close();
  }
  void spawns_children() {
    while (!ends) {
      auto child = async([] {
        this_goroutine::set_name("child");
        return async([] { return 1; }).get();
      });
      EXPECT_EQ(child.get(), 1);
    }
  }
  void fights_for_lock() {
    while (!ends) {
      const std::scoped_lock hold(m);
      this_goroutine::yield();
    }
  }
  void spins() {
    for (std::atomic<int> i = 0; !ends; ++i) {
    }
  }
  void calls() {
    while (!ends) blocking([] { usleep(20); });
  }
  void sleeps() {
    while (!ends) this_goroutine::sleep_for(20us);
  }

  std::atomic<bool> ends{false};
  mutex m;
  wait_group all;
};

void expect_sound(const std::vector<debug::goroutine_info>& infos) {
  for (const auto& info : infos) {
    EXPECT_FALSE(info.state.empty());
    EXPECT_NE(info.state, "dead");
    EXPECT_EQ(info.state == "waiting", !info.wait_reason.empty()) << info.wait_reason;
    EXPECT_FALSE(info.spawn_site.empty());
    if (info.state != "waiting" || info.stack.empty()) continue;
    // A whole stack comes to the goroutine's function, which is here.
    const bool whole =
        std::any_of(info.stack.begin(), info.stack.end(), [](const std::string& frame) {
          return frame.find("dump_stress_test.cpp") != std::string::npos;
        });
    EXPECT_TRUE(whole) << info.wait_reason << "\n" << ::testing::PrintToString(info.stack);
  }
}

TEST_P(DumpStress, GoroutinesGoOnWhileTheyAreRead) {
  runtime r({.procs = ps()});
  load l(r);
  for (int i = 0; i < rounds(20); ++i) {
    const auto infos = debug::goroutines();
    EXPECT_GE(infos.size(), 15u);
    std::set<std::uint64_t> ids;
    for (const auto& info : infos) ids.insert(info.id);
    EXPECT_EQ(ids.size(), infos.size()) << "one was shown twice";
    expect_sound(infos);
  }
  l.end(r);
}

TEST_P(DumpStress, SeveralReadAtATimeFromGoroutinesAndThreads) {
  runtime r({.procs = ps()});
  load l(r);
  const int each = rounds(10);
  std::thread outside([&] {
    for (int i = 0; i < each; ++i) expect_sound(debug::goroutines());
  });
  r.run([&] {
    wait_group readers;
    for (int k = 0; k < 2; ++k) {
      readers.go([&] {
        for (int i = 0; i < each; ++i) expect_sound(debug::goroutines());
      });
    }
    readers.wait();
  });
  outside.join();
  l.end(r);
}

TEST_P(DumpStress, TheWorldStopsAndGoesOn) {
  runtime r({.procs = ps()});
  load l(r);
  std::thread reader([&] {
    while (!l.ends) expect_sound(debug::goroutines());
  });
  for (int i = 0; i < rounds(20); ++i) {
    const auto before = r.read_stats();
    {
      const debug::world_pause pause;
      const auto a = r.read_stats();
      std::this_thread::sleep_for(200us);
      EXPECT_EQ(r.read_stats().spawned, a.spawned);
      EXPECT_EQ(r.read_stats().finished, a.finished);
    }
    while (r.read_stats().finished == before.finished) std::this_thread::yield();
    if (i % 8 == 0) r.set_procs(1 + i % 5);
  }
  l.end(r);
  reader.join();
}

TEST(DumpStress, NeedsNoMonitor) {
  rt::testing::expect_to_end_without_monitor("*DumpStress.GoroutinesGoOn*/1");
}

}  // namespace
}  // namespace magpie
