// Channels and select under load, with 1 to 16 Ps and plain threads among the goroutines. Short by
// default; MAGPIE_STRESS=N makes every test N times as long. A wake-up that is lost shows as a test
// that does not end; a value lost or doubled in the count and the sum of what arrived.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

#include "base/random.h"
#include "support/stress.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;
using rt::random_source;
using rt::testing::rounds;

constexpr auto ignore = [](auto&&...) {};

// What went in or came out.
struct tally {
  std::atomic<std::uint64_t> count{0}, sum{0};
  void add(std::uint64_t value) {
    count.fetch_add(1, std::memory_order_relaxed);
    sum.fetch_add(value, std::memory_order_relaxed);
  }
  friend void expect_equal(const tally& a, const tally& b) {
    EXPECT_EQ(a.count, b.count);
    EXPECT_EQ(a.sum, b.sum);
  }
};

// Runs every task as a goroutine, but each fourth as a plain thread, and waits for all.
void run_mixed(runtime& r, std::vector<std::function<void()>> tasks) {
  std::vector<std::thread> threads;
  std::atomic<std::size_t> left{0};
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (i % 4 == 3) {
      threads.emplace_back(std::move(tasks[i]));
    } else {
      ++left;
      r.go([&left, task = std::move(tasks[i])] {
        task();
        --left;
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  while (left != 0) std::this_thread::yield();
  while (r.read_stats().goroutines != 0) std::this_thread::yield();
}

class ChanStress : public rt::testing::with_ps {};
INSTANTIATE_TEST_SUITE_P(Ps, ChanStress, ::testing::Values(1, 2, 4, 16));

template <class T>
T make_value(std::uint64_t n) {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    return n;
  } else {
    return T(n);
  }
}

struct boxed {  // moves quietly
  std::unique_ptr<std::uint64_t> box;
  explicit boxed(std::uint64_t n) : box(std::make_unique<std::uint64_t>(n)) {}
  explicit operator std::uint64_t() const { return *box; }
};

// Its move throws now and then; what was to be moved is untouched then.
struct touchy {
  static inline std::atomic<std::uint32_t> moves{0};
  std::unique_ptr<std::uint64_t> box;
  explicit touchy(std::uint64_t n) : box(std::make_unique<std::uint64_t>(n)) {}
  touchy(touchy&& other) : box((sometimes_throw(), std::move(other.box))) {}
  touchy& operator=(touchy&& other) {
    sometimes_throw();
    box = std::move(other.box);
    return *this;
  }
  explicit operator std::uint64_t() const { return *box; }
  static void sometimes_throw() {
    if (moves.fetch_add(1, std::memory_order_relaxed) % 13 == 0) throw 13;
  }
};

// Until it does not throw.
template <class F>
auto insist(F f) {
  for (;;) {
    try {
      return f();
    } catch (int) {
    }
  }
}

// Senders and receivers of all forms on one channel; the last sender closes it.
template <class T>
void producers_and_consumers(int ps, int capacity) {
  constexpr int k_senders = 6, k_receivers = 6;
  const int each = rounds(4'000);
  runtime r({.procs = ps});
  const channel<T> c(capacity);
  tally in, out;
  std::atomic<int> senders{k_senders};
  std::vector<std::function<void()>> tasks;
  for (int who = 0; who < k_senders; ++who) {
    tasks.push_back([&, who] {
      random_source random(static_cast<std::uint64_t>(who) + 1);
      for (int i = 0; i < each; ++i) {
        const std::uint64_t n = static_cast<std::uint64_t>(who * each + i);
        T value = make_value<T>(n);
        in.add(n);
        switch (random.below(4)) {
          case 0:
            while (!insist([&] { return c.try_send(value); })) this_goroutine::yield();
            break;
          case 1:
            while (!insist([&] { return c.send_for(value, duration(random.below(50'000))); })) {
            }
            break;
          default:
            insist([&] { return c.send_for(value, no_timeout); });
        }
      }
      if (--senders == 0) c.close();
    });
    tasks.push_back([&, who] {
      random_source random(static_cast<std::uint64_t>(who) + 100);
      T value = make_value<T>(0);
      for (;;) {
        channel_result result = channel_result::would_block;
        switch (random.below(4)) {
          case 0:
            result = insist([&] { return c.try_receive(value); });
            if (result == channel_result::would_block) this_goroutine::yield();
            break;
          case 1:
            result = insist([&] { return c.receive_for(value, duration(random.below(50'000))); });
            break;
          default:
            result = insist([&] { return c.receive_for(value, no_timeout); });
        }
        if (result == channel_result::closed) return;
        if (result == channel_result::ok) out.add(static_cast<std::uint64_t>(value));
      }
    });
  }
  static_assert(k_senders == k_receivers);
  run_mixed(r, std::move(tasks));
  expect_equal(in, out);
  EXPECT_EQ(c.size(), 0u);
}

TEST_P(ChanStress, AllFormsOnAnUnbufferedChannel) {
  producers_and_consumers<std::uint64_t>(ps(), 0);
}
TEST_P(ChanStress, AllFormsOnASmallBuffer) { producers_and_consumers<std::uint64_t>(ps(), 1); }
TEST_P(ChanStress, AllFormsOnALargeBuffer) { producers_and_consumers<std::uint64_t>(ps(), 128); }
TEST_P(ChanStress, ValuesThatAreMoved) {
  producers_and_consumers<boxed>(ps(), 0);
  producers_and_consumers<boxed>(ps(), 3);
}
TEST_P(ChanStress, ValuesThatThrow) {
  producers_and_consumers<touchy>(ps(), 0);
  producers_and_consumers<touchy>(ps(), 2);
}

// Everybody closes; one succeeds, and what was sent before arrives.
TEST_P(ChanStress, ClosesRace) {
  const int times = rounds(300);
  runtime r({.procs = ps()});
  for (int i = 0; i < times; ++i) {
    const channel<std::uint64_t> c(i % 3);
    tally in, out;
    std::atomic<int> closed{0};
    std::vector<std::function<void()>> tasks;
    for (int who = 0; who < 4; ++who) {
      tasks.push_back([&] {
        try {
          for (std::uint64_t n = 1;; ++n) {
            c.send(n);
            in.add(n);
          }
        } catch (const closed_channel&) {
        }
      });
      tasks.push_back([&] {
        for (const std::uint64_t n : c) out.add(n);
      });
      if (who < 2) {
        tasks.push_back([&] {
          while (in.count < 20) this_goroutine::yield();
          try {
            c.close();
            ++closed;
          } catch (const closed_channel&) {
          }
        });
      }
    }
    run_mixed(r, std::move(tasks));
    expect_equal(in, out);
    ASSERT_EQ(closed, 1);
  }
}

// Selects that send and receive on the same few channels, against each other. A value counts when
// it was sent and when it was received; in the end one drains what is left in the buffers.
template <class T>
void selects_in_both_directions(int ps) {
  const int each = rounds(3'000);
  runtime r({.procs = ps});
  const channel<T> c[4] = {channel<T>(0), channel<T>(1), channel<T>(0), channel<T>(7)};
  tally in, out;
  std::vector<std::function<void()>> tasks;
  for (int who = 0; who < 8; ++who) {
    tasks.push_back([&, who] {
      random_source random(static_cast<std::uint64_t>(who) + 7);
      const auto receive = [&](std::optional<T> v) { out.add(static_cast<std::uint64_t>(*v)); };
      for (int i = 0; i < each; ++i) {
        const std::uint64_t n = random.below(1'000'000);
        const auto sent = [&] { in.add(n); };
        const auto &a = c[random.below(4)], &b = c[random.below(4)], &d = c[random.below(4)];
        switch (random.below(4)) {
          case 0:
            select(on_send(a, make_value<T>(n), sent), on_receive(b, receive),
                   on_timeout(duration(random.below(100'000)), ignore));
            break;
          case 1:
            select(on_receive(a, receive), on_send(b, make_value<T>(n), sent),
                   on_receive(d, receive), otherwise(ignore));
            break;
          case 2:
            select(on_send(a, make_value<T>(n), sent), on_send(b, make_value<T>(n), sent),
                   on_receive(a, receive), on_receive(d, receive), on_timeout(1ms, ignore));
            break;
          default: {
            std::vector<select_case> cases;
            for (int k = 0; k < 12; ++k) {
              if (random.below(2) == 0) {
                cases.push_back(on_receive(c[random.below(4)], receive));
              } else {
                cases.push_back(on_send(c[random.below(4)], make_value<T>(n), sent));
              }
            }
            cases.push_back(on_timeout(duration(random.below(200'000)), ignore));
            select(cases);
          }
        }
      }
    });
  }
  run_mixed(r, std::move(tasks));
  for (const auto& one : c) {
    T value = make_value<T>(0);
    while (one.try_receive(value) == channel_result::ok) out.add(static_cast<std::uint64_t>(value));
  }
  expect_equal(in, out);
}

TEST_P(ChanStress, SelectsInBothDirections) { selects_in_both_directions<std::uint64_t>(ps()); }
TEST_P(ChanStress, SelectsWithValuesThatAreMoved) { selects_in_both_directions<boxed>(ps()); }

// Throwing moves inside of select, received whole or not at all.
struct careful {  // counts as throwing, and does not
  std::uint64_t n;
  explicit careful(std::uint64_t v) : n(v) {}
  careful(careful&& other) : n(other.n) {}
  careful& operator=(careful&& other) {
    n = other.n;
    return *this;
  }
  explicit operator std::uint64_t() const { return n; }
};
static_assert(detail::element_kind_of<careful> == detail::element_kind::throwing);

TEST_P(ChanStress, SelectsWithValuesMovedInTurns) { selects_in_both_directions<careful>(ps()); }

// Many selects wait for a "done" channel beside their own work; it is closed under way.
TEST_P(ChanStress, ADoneChannelEndsAll) {
  const int times = rounds(30);
  runtime r({.procs = ps()});
  for (int i = 0; i < times; ++i) {
    const channel<unit> done;
    const channel<int> work(4);
    std::vector<std::function<void()>> tasks;
    std::atomic<int> worked{0};
    for (int who = 0; who < 20; ++who) {
      tasks.push_back([&, who] {
        for (bool on = true; on;) {
          if (who % 2 == 0) {
            select(on_receive(done, [&](auto) { on = false; }), on_send(work, 1, ignore));
          } else {
            select(on_receive(work, [&](auto) { ++worked; }),
                   on_receive(done, [&](auto) { on = false; }));
          }
        }
      });
    }
    tasks.push_back([&] {
      while (worked < 200) this_goroutine::yield();
      done.close();
    });
    run_mixed(r, std::move(tasks));
  }
}

// A ring of goroutines through which values travel, and pairs that play ping-pong beside it.
TEST_P(ChanStress, RingsAndPingPongs) {
  const int turns = rounds(300);
  runtime r({.procs = ps()});
  std::vector<std::function<void()>> tasks;
  std::vector<channel<int>> ring(50);
  for (std::size_t i = 0; i < ring.size(); ++i) {
    tasks.push_back([&, i] {
      for (int n = 0; n < turns; ++n) {
        if (i == 0) {
          ring[1].send(n);
          EXPECT_EQ(ring[0].receive(), n);
        } else {
          ring[(i + 1) % ring.size()].send(*ring[i].receive());
        }
      }
    });
  }
  std::vector<channel<int>> balls(40);
  for (std::size_t i = 0; i < balls.size(); i += 2) {
    tasks.push_back([&, i] {
      for (int n = 0; n < turns; ++n) {
        balls[i].send(n);
        EXPECT_EQ(balls[i + 1].receive(), n);
      }
    });
    tasks.push_back([&, i] {
      for (int n = 0; n < turns; ++n) balls[i + 1].send(*balls[i].receive());
    });
  }
  run_mixed(r, std::move(tasks));
}

// The tests above without the monitor: nothing may need it.
class ChanStressWithoutMonitor : public ::testing::TestWithParam<std::string> {};

TEST_P(ChanStressWithoutMonitor, Ends) {
  rt::testing::expect_to_end_without_monitor("Ps/ChanStress." + GetParam() + "/*");
}
INSTANTIATE_TEST_SUITE_P(Of, ChanStressWithoutMonitor,
                         ::testing::Values("AllFormsOnAnUnbufferedChannel",
                                           "AllFormsOnASmallBuffer", "ValuesThatThrow",
                                           "ClosesRace", "SelectsInBothDirections",
                                           "SelectsWithValuesMovedInTurns", "ADoneChannelEndsAll",
                                           "RingsAndPingPongs"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace magpie
