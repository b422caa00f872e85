// Few things, very often: a million times each by default, MAGPIE_STRESS=N times that. `make
// stress` does them a hundred million times, without the monitor, so that nothing covers up for a
// wake-up that was lost: it shows as a test that does not end.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

#include "base/random.h"
#include "fiber/sanitizer.h"
#include "os/clock.h"
#include "os/thread.h"
#include "support/baton.h"
#include "support/waste_meter.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;
using rt::testing::baton;
using rt::testing::waste_meter;

std::uint64_t times(std::uint64_t in_short_form) {
  const char* const text = std::getenv("MAGPIE_STRESS");
  return in_short_form * static_cast<std::uint64_t>(text != nullptr ? std::atoi(text) : 1);
}

class LongHaul : public ::testing::TestWithParam<int> {
 protected:
  int ps() const { return GetParam(); }
  static void say(const char* what, std::uint64_t count, clock::time_point start) {
    const auto spent = std::chrono::duration<double>(clock::now() - start).count();
    std::printf("%llu %s in %.1f s\n", static_cast<unsigned long long>(count), what, spent);
  }
};
INSTANTIATE_TEST_SUITE_P(Ps, LongHaul, ::testing::Values(1, 2, 4, 16));

// Every goroutine that is spawned runs once, and all end.
TEST_P(LongHaul, Spawns) {
  constexpr std::uint64_t k_spawners = 8;
  const std::uint64_t each = times(1'000'000) / k_spawners / 4;  // four tests share the number
  const auto start = clock::now();
  std::atomic<std::uint64_t> ran{0};
  std::uint64_t spawned = 0;
  {
    runtime r({.procs = ps()});
    for (std::uint64_t s = 0; s < k_spawners; ++s) {
      r.go([&ran, each] {
        for (std::uint64_t i = 0; i < each; ++i) {
          go([&ran] { ran.fetch_add(1, std::memory_order_relaxed); });
          if (i % 1'000 == 0) this_goroutine::yield();
        }
      });
    }
    r.run([] {});
    while (r.read_stats().goroutines != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    spawned = r.read_stats().spawned;
    EXPECT_EQ(r.read_stats().finished, spawned);
  }
  EXPECT_EQ(ran, each * k_spawners);
  EXPECT_EQ(spawned, each * k_spawners + k_spawners + 1);
  say("spawns", spawned, start);
}

// Rings of goroutines that hand batons on: each hand-over parks one and readies another.
TEST_P(LongHaul, ParksAndReadies) {
  constexpr std::size_t k_rings = 6, k_size = 5;
  const std::uint64_t laps = times(1'000'000) / 4 / k_rings / k_size;
  const auto start = clock::now();
  std::uint64_t readies = 0;
  {
    runtime r({.procs = ps()});
    const auto batons = std::make_unique<baton[]>(k_rings * k_size);
    for (std::size_t ring = 0; ring < k_rings; ++ring) {
      for (std::size_t place = 0; place < k_size; ++place) {
        baton& mine = batons[ring * k_size + place];
        baton& next = batons[ring * k_size + (place + 1) % k_size];
        r.go([&mine, &next, laps, place] {
          for (std::uint64_t lap = 0; lap < laps; ++lap) {
            mine.take();
            if (place + 1 != k_size || lap + 1 != laps) next.give();
          }
        });
      }
      batons[ring * k_size].give();
    }
    while (r.read_stats().goroutines != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    readies = r.read_stats().readies;
  }
  EXPECT_GT(readies, 0u);
  say("hand-overs of a baton", laps * k_rings * k_size, start);
}

// Each value that is sent is received once: through a buffer, hand to hand, and by select. Sum and
// count are exact, and nobody is left behind.
TEST_P(LongHaul, ChannelOperations) {
  constexpr std::uint64_t k_senders = 4, k_receivers = 4;
  // A send and a receive for each value; a third of them through each channel; four tests.
  const std::uint64_t each = times(2'520'000) / 4 / 2 / 3 / k_senders;
  const auto start = clock::now();
  std::atomic<std::uint64_t> count{0}, sum{0};
  runtime r({.procs = ps()});
  r.run([&] {
    channel<std::uint64_t> buffered(64), direct, chosen(1), other(1);
    wait_group senders, receivers;
    const auto note = [&](std::uint64_t n, std::uint64_t total) {
      count.fetch_add(n, std::memory_order_relaxed);
      sum.fetch_add(total, std::memory_order_relaxed);
    };
    for (std::uint64_t s = 0; s < k_senders; ++s) {
      const std::uint64_t first = s * each + 1;
      for (auto* const to : {&buffered, &direct}) {
        senders.go([=] {
          for (std::uint64_t i = 0; i < each; ++i) to->send(first + i);
        });
      }
      senders.go([&, first] {
        for (std::uint64_t i = 0; i < each; ++i) {
          select(on_send(chosen, first + i, [] {}), on_send(other, first + i, [] {}));
        }
      });
    }
    for (std::uint64_t s = 0; s < k_receivers; ++s) {
      for (auto* const from : {&buffered, &direct}) {
        receivers.go([=] {
          std::uint64_t n = 0, total = 0;
          for (const std::uint64_t value : *from) ++n, total += value;
          note(n, total);
        });
      }
      receivers.go([&] {
        std::uint64_t n = 0, total = 0;
        for (bool open = true; open;) {
          const auto take = [&](std::optional<std::uint64_t> value) {
            if (value) {
              ++n, total += *value;
            } else {
              open = false;
            }
          };
          select(on_receive(chosen, take), on_receive(other, take));
        }
        // One is closed, and the other may still hold something.
        for (auto* const rest : {&chosen, &other}) {
          for (const std::uint64_t value : *rest) ++n, total += value;
        }
        note(n, total);
      });
    }
    senders.wait();
    for (auto* const c : {&buffered, &direct, &chosen, &other}) c->close();
    receivers.wait();
  });
  const std::uint64_t values = each * k_senders;
  EXPECT_EQ(count.load(), 3 * values);
  EXPECT_EQ(sum.load(), 3 * (values * (values + 1) / 2));
  say("channel operations", 2 * 3 * values, start);
}

void compute(std::chrono::microseconds time) {
  const rt::os::nanos until = rt::os::now() + time / 1ns;
  while (rt::os::now() < until) rt::cpu_relax();
}

std::chrono::microseconds at_most(std::chrono::microseconds limit, rt::random_source& random) {
  return std::chrono::microseconds(random.below(static_cast<std::uint32_t>(limit.count())));
}

std::vector<future<void>> spawn_some(rt::random_source& random) {
  std::vector<future<void>> all;
  for (std::uint32_t i = random.below(20) + 1; i != 0; --i) {
    all.push_back(async([time = at_most(20us, random)] { compute(time); }));
  }
  return all;
}

// Makes goroutines runnable, one way or another, and is busy with itself for long after that: if
// the others do not learn of them, nobody does.
void leave_work_to_others(rt::random_source& random) {
  event go_on;
  std::vector<future<void>> all;
  switch (random.below(3)) {
    case 0:
      all = spawn_some(random);
      break;
    case 1:
      all.push_back(async([time = at_most(20us, random)] { compute(time); }));
      break;
    case 2:
      for (std::uint32_t i = random.below(5) + 1; i != 0; --i) {
        all.push_back(async([&] { go_on.wait(); }));
      }
      this_goroutine::sleep_for(2ms);
      go_on.set();
      break;
  }
  compute(1ms + at_most(2ms, random));
  for (auto& one : all) one.get();
}

// Everything that goroutines do to each other, and to their threads, at random. In between they
// rest, for longer the more there are of them: where everybody is busy somebody always looks, and
// one who has just fallen asleep looks again soon (idle.cpp).
void mixed_work(std::uint64_t seed, std::uint32_t workers, const std::atomic<bool>& stop,
                std::atomic<std::uint64_t>& rounds) {
  rt::random_source random(seed);
  while (!stop) {
    switch (random.below(6)) {
      case 0:
      case 1:
        leave_work_to_others(random);
        break;
      case 2:
        for (auto& one : spawn_some(random)) one.get();
        this_goroutine::yield();
        break;
      case 3:
        blocking([&] { std::this_thread::sleep_for(at_most(100us, random)); });
        break;
      case 4:
        blocking(hand_off_now, [&] { std::this_thread::sleep_for(at_most(100us, random)); });
        break;
      case 5: {
        const thread_lock here;
        for (auto& one : spawn_some(random)) one.get();
        break;
      }
    }
    rounds.fetch_add(1, std::memory_order_relaxed);
    if (random.below(4) != 0) this_goroutine::sleep_for(at_most(workers * 2ms, random));
  }
}

constexpr rt::os::nanos k_most_waste =
    rt::sanitizer::k_thread || rt::sanitizer::k_address ? 10'000'000 : 1'000'000;

// Whenever a goroutine is runnable and a P idle, somebody is looking, or is about to.
TEST_P(LongHaul, NoPIsIdleBesideWork) {
  const auto length = std::chrono::milliseconds(times(300));
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> turns{0};
  runtime r({.procs = ps()});
  const auto workers = static_cast<std::uint32_t>(1 + ps());
  for (std::uint32_t i = 0; i < workers; ++i) {
    r.go([&, i] { mixed_work(1 + i, workers, stop, turns); });
  }
  waste_meter meter(r);
  std::thread([&] {
    rt::os::wake_calling_thread_on_time();
    const auto start = clock::now();
    while (clock::now() - start < length) {
      meter.look();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }).join();
  stop = true;
  std::printf(
      "%llu looks, %llu at waste, %.0f %% of the time, %llu rounds of work; longest waste %.3f "
      "ms\n",
      static_cast<unsigned long long>(meter.looks()),
      static_cast<unsigned long long>(meter.looks_at_waste()),
      static_cast<double>(meter.covered()) / static_cast<double>(length / 1ns) * 100,
      static_cast<unsigned long long>(turns.load()), static_cast<double>(meter.longest()) / 1e6);
  EXPECT_GT(turns, 0u);
  EXPECT_GT(meter.covered(), 0);
  EXPECT_LE(meter.longest(), k_most_waste);
}

// That the test above can fail: a goroutine whose spawner was made to believe that somebody looks.
TEST(WasteMeter, SeesALostWakeUp) {
  runtime r({.procs = 2});
  r.run([] {});
  waste_meter meter(r);
  // Now and then threads that are about to fall asleep find the goroutine by themselves.
  while (meter.longest() <= k_most_waste) {
    {
      const waste_meter::false_spinner nobody(meter);
      r.go([] {});
    }
    const auto start = clock::now();
    while (clock::now() - start < 2ns * k_most_waste) meter.look();
    meter.make_good();
    while (r.read_stats().goroutines != 0) std::this_thread::sleep_for(1ms);
  }
}

constexpr rt::os::nanos k_step = 100'000;

// A thread that was inside when the episode began, and has since had so much CPU time.
rt::testing::suspect inside(rt::os::nanos at, rt::os::nanos cpu_time, bool could_run = true) {
  return {.thread = 1, .could_run = could_run, .cpu_time = cpu_time, .at = at};
}

TEST(WasteMeter, CountsTheTimeOfTheWallWithoutSuspects) {
  rt::testing::episode e;
  for (int i = 0; i <= 10; ++i) e.look(i * k_step, true, 0, {});
  EXPECT_EQ(e.longest(), 10 * k_step);
}

TEST(WasteMeter, CountsTheCpuTimeOfASuspect) {
  rt::testing::episode e;
  for (int i = 0; i <= 10; ++i) e.look(i * k_step, true, 0, {inside(i * k_step, i * 1'000)});
  EXPECT_EQ(e.longest(), 10'000);
}

TEST(WasteMeter, ASuspectThatSleepsIsNoExcuse) {
  rt::testing::episode e;
  for (int i = 0; i <= 10; ++i) e.look(i * k_step, true, 0, {inside(i * k_step, 0, false)});
  EXPECT_EQ(e.longest(), 10 * k_step);
}

TEST(WasteMeter, OneWhoComesLaterIsNoSuspect) {
  rt::testing::episode e;
  e.look(0, true, 0, {});
  for (int i = 1; i <= 10; ++i) e.look(i * k_step, true, 0, {inside(i * k_step, 0)});
  EXPECT_EQ(e.longest(), 10 * k_step);
}

TEST(WasteMeter, OneWhoHasLeftIsNoSuspectAnyMore) {
  rt::testing::episode e;
  e.look(0, true, 0, {inside(0, 0)});
  e.look(k_step, true, 0, {inside(k_step, 0)});
  e.look(2 * k_step, true, 0, {});
  for (int i = 3; i <= 10; ++i) e.look(i * k_step, true, 0, {inside(i * k_step, 0)});
  EXPECT_EQ(e.longest(), 9 * k_step);
}

TEST(WasteMeter, ASearchBeginsAnotherEpisode) {
  rt::testing::episode e;
  for (int i = 0; i <= 10; ++i) e.look(i * k_step, true, i < 4 ? 0 : 1, {});
  EXPECT_EQ(e.longest(), 6 * k_step);
}

TEST(WasteMeter, WorkThatWasSeenToRunEndsTheEpisode) {
  rt::testing::episode e;
  for (int i = 0; i <= 10; ++i) e.look(i * k_step, i != 3, 0, {});
  EXPECT_EQ(e.longest(), 6 * k_step);
}

}  // namespace
}  // namespace magpie
