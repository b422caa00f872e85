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
#include "os/clock.h"
#include "support/baton.h"

namespace magpie {
namespace {

using rt::testing::baton;

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

// Work conservation: whenever a goroutine is runnable and a P idle, somebody is looking. A sampler
// measures for how long that was not so.
TEST_P(LongHaul, NoPIsIdleBesideWork) {
  const auto length = std::chrono::milliseconds(times(300));
  runtime r({.procs = ps()});
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> turns{0};
  for (int i = 0; i < 2 * ps(); ++i) {
    r.go([&, i] {
      rt::random_source random(static_cast<std::uint64_t>(i) + 1);
      while (!stop) {
        const auto children = 1 + random.below(20);
        std::vector<future<void>> all;
        for (std::uint32_t c = 0; c < children; ++c) {
          all.push_back(async([work = random.below(20'000)] {
            const rt::os::nanos until = rt::os::now() + work;
            while (rt::os::now() < until) rt::cpu_relax();
          }));
        }
        for (auto& child : all) child.get();
        turns.fetch_add(1, std::memory_order_relaxed);
        switch (random.below(4)) {
          case 0:
            this_goroutine::yield();
            break;
          case 1:
            this_goroutine::sleep_for(std::chrono::microseconds(random.below(300)));
            break;
          case 2:
            blocking([&] { std::this_thread::sleep_for(std::chrono::microseconds(50)); });
            break;
        }
      }
    });
  }
  // While the sampler itself is not running nothing is known.
  constexpr rt::os::nanos k_gap = 200'000;
  rt::os::nanos longest = 0, last = rt::os::now(), since = last;
  const auto start = clock::now();
  std::uint64_t samples = 0;
  while (clock::now() - start < length) {
    const stats s = r.read_stats();
    const rt::os::nanos now = rt::os::now();
    ++samples;
    std::size_t waiting = s.global_queue_length;
    for (const std::size_t in_ring : s.local_queue_lengths) waiting += in_ring;
    const bool wasted = waiting != 0 && s.idle_procs != 0 && s.spinning == 0;
    if (!wasted || now - last > k_gap) since = now;
    longest = std::max(longest, now - since);
    last = now;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  stop = true;
  std::printf("%llu samples, %llu rounds of work; longest waste %.3f ms\n",
              static_cast<unsigned long long>(samples),
              static_cast<unsigned long long>(turns.load()), static_cast<double>(longest) / 1e6);
  EXPECT_GT(turns, 0u);
  // A millisecond on a quiet machine; a thread that has published its work and lost its processor
  // before it could wake somebody is beyond our control.
  EXPECT_LT(longest, 50'000'000);
}

}  // namespace
}  // namespace magpie
