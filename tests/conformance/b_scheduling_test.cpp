// Section B of Go's behaviours: how goroutines share the processors. One test per row.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <magpie/debug.h>
#include <magpie/magpie.h>

#include "conformance.h"
#include "fiber/sanitizer.h"
#include "support/baton.h"

namespace magpie {
namespace {

using rt::testing::baton;
using namespace std::chrono_literals;

INSTANTIATE_TEST_SUITE_P(Ps, Conformance, ::testing::Values(1, 2, 4, 16));

template <class Condition>
bool becomes_true_within(clock::duration limit, Condition condition) {
  const auto deadline = clock::now() + limit;
  while (!condition()) {
    if (clock::now() > deadline) return false;
    this_goroutine::yield();
  }
  return true;
}

// One looks again and again whether something came, and lets others run in between.
TEST_P(Conformance, B01_YieldProgress) {
  runtime r({.procs = ps()});
  for (int round = 0; round < 20; ++round) {
    r.run([] {
      const channel<int> request, answer;
      std::atomic<int> looks{0};
      go([&] {
        for (int got = 0; got == 0;) {
          select(on_receive(request, [&](std::optional<int> value) { got = *value; }),
                 otherwise([&] {
                   ++looks;
                   this_goroutine::yield();
                 }));
          if (got != 0) answer.send(got + 1);
        }
      });
      while (looks < 3) this_goroutine::yield();
      request.send(41);
      EXPECT_EQ(answer.receive(), 42);
    });
  }
}

// As many goroutines as Ps count one number up by turns, each waiting for its turn without ever
// stopping: all of them must run at once. `idle` is what one does while it waits.
template <class Idle>
void count_by_turns(int goroutines, int rounds, Idle idle) {
  std::atomic<int> number{0};
  std::vector<future<void>> all;
  for (int who = 0; who < goroutines; ++who) {
    all.push_back(async([&, who] {
      for (int round = 0; round < rounds; ++round) {
        const int mine = goroutines * round + who;
        while (number != mine) idle();
        number = mine + 1;
      }
    }));
  }
  for (auto& one : all) one.get();
  EXPECT_EQ(number, goroutines * rounds);
}

TEST_P(Conformance, B05_GoroutineParallelism) {
  runtime r({.procs = ps()});
  for (int attempt = 0; attempt < 10; ++attempt) {
    // The thread is yielded, the P is not: more Ps than processors would take seconds otherwise.
    r.run([&] { count_by_turns(ps(), 3, [] { sched_yield(); }); });
  }
}

TEST(Conformance, B05_GoroutineParallelismWithoutHelpOfTheKernel) {
  runtime r({.procs = 2});
  for (int attempt = 0; attempt < 10; ++attempt) {
    r.run([] { count_by_turns(2, 3, [] {}); });
  }
}

// One stops the world, one changes the number of Ps, beside one that respawns itself for ever.
TEST_P(Conformance, B07_StopTheWorldDeadlock) {
  static constexpr int k_rounds = k_sanitized ? 20 : 100;
  struct respawns {
    std::atomic<bool>& stop;
    std::atomic<std::uint64_t>& generations;
    void operator()() const {
      ++generations;
      if (!stop) go(*this);
    }
  };
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> generations{0};
  runtime r({.procs = ps()});
  r.run([&] {
    go(respawns{stop, generations});
    future<void> stops = async([&] {
      for (int i = 0; i < k_rounds; ++i) {
        const debug::world_pause pause;
        const std::uint64_t before = generations;
        sched_yield();
        EXPECT_EQ(generations, before);
      }
    });
    future<void> three = async([] {
      for (int i = 0; i < k_rounds; ++i) set_procs(3);
    });
    future<void> others = async([] {
      for (int i = 0; i < k_rounds; ++i) {
        set_procs(1 + i % 5);
        (void)runtime::current().read_stats();
      }
    });
    stops.get();
    three.get();
    others.get();
    const std::uint64_t before = generations;
    while (generations == before) this_goroutine::yield();
    stop = true;
  });
}

// Two goroutines keep a channel and a select busy and never let their P rest.
TEST_P(Conformance, B08_TimerFairness) {
  runtime r({.procs = ps()});
  r.run([] {
    const channel<int> busy;
    const channel<unit> done;
    std::atomic<std::uint64_t> received{0};
    wait_group pair;
    pair.go([&] {
      for (bool ends = false; !ends;) {
        select(on_send(busy, 1, [] {}), on_receive(done, [&](auto) { ends = true; }));
      }
    });
    pair.go([&] {
      for (bool ends = false; !ends;) {
        select(on_receive(busy, [&](auto) { ++received; }),
               on_receive(done, [&](auto) { ends = true; }));
      }
    });
    while (received == 0) this_goroutine::yield();
    const time_point begin = clock::now();
    after(20ms).receive();
    EXPECT_GE(clock::now() - begin, 20ms);
    done.close();
    pair.wait();
  });
}

TEST_P(Conformance, B10_Preemption) {
  runtime r({.procs = ps(), .time_slice = std::chrono::milliseconds(1)});
  for (int attempt = 0; attempt < 5; ++attempt) {
    r.run([] { count_by_turns(2, 3, [] { this_goroutine::checkpoint(); }); });
  }
}

// The same when every P has fallen asleep before.
TEST(Conformance, B10_PreemptionAfterARest) {
  runtime r({.procs = 1, .time_slice = std::chrono::milliseconds(1)});
  for (int attempt = 0; attempt < 5; ++attempt) {
    while (r.read_stats().idle_procs != 1) std::this_thread::yield();
    r.run([] { count_by_turns(2, 2, [] { this_goroutine::checkpoint(); }); });
  }
}

// 5 goroutines spin with checkpoints: the world stops nevertheless, again and again, the number of
// Ps changes, and others run.
TEST_P(Conformance, B11_PreemptionGC) {
  constexpr int k_spinners = 5;
  runtime r({.procs = ps(), .time_slice = 1ms});
  std::atomic<bool> stop{false};
  std::array<std::atomic<std::uint64_t>, k_spinners> turns{};
  for (auto& mine : turns) {
    r.go([&] {
      while (!stop) {
        ++mine;
        this_goroutine::checkpoint();
      }
    });
  }
  const auto now = [&] {
    std::vector<std::uint64_t> all;
    for (const auto& one : turns) all.push_back(one);
    return all;
  };
  for (const auto& one : turns) {
    while (one == 0) std::this_thread::yield();
  }
  for (int i = 0; i < 20; ++i) {
    std::vector<std::uint64_t> stopped;
    {
      const debug::world_pause pause;
      stopped = now();
      for (int k = 0; k < 10; ++k) sched_yield();
      EXPECT_EQ(now(), stopped);
    }
    r.set_procs(1 + i % 3);
    r.run([] {});
    for (std::size_t k = 0; k < turns.size(); ++k) {
      while (turns[k] == stopped[k]) std::this_thread::yield();
    }
  }
  stop = true;
}

// One P, and two goroutines that make one system call after the other: the end of a sleep is seen.
// With `call` around each of them.
template <class Call>
void sleep_beside_two_that_write(Call call) {
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(nowhere, 0);
  runtime r({.procs = 1});
  std::atomic<bool> stop{false};
  std::array<std::atomic<std::uint64_t>, 2> written{};
  r.run([&] {
    wait_group both;
    for (auto& mine : written) {
      both.go([&] {
        while (!stop) {
          call([&] { EXPECT_EQ(write(nowhere, ".", 1), 1); });
          ++mine;
        }
      });
    }
    this_goroutine::sleep_for(10ms);
    stop = true;
    both.wait();
  });
  close(nowhere);
  EXPECT_GT(written[0] + written[1], 0u);
}

TEST(Conformance, B13_GCFairness) {
  sleep_beside_two_that_write([](auto f) { f(); });
}

TEST(Conformance, B13_GCFairnessInsideBlocking) {
  sleep_beside_two_that_write([](auto f) { blocking(f); });
}

// Two pairs play ping-pong on one P, one with heavy strokes and one with light ones.
TEST(Conformance, B15_PingPongHog) {
  struct pair {
    explicit pair(int w) : work(w) {}
    const int work;
    baton ball[2];
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> count{0};
    void play(int side) {
      for (;;) {
        ball[side].take();
        if (stop) break;
        for (int i = 0; i < work; ++i) {
          count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        }
        ball[1 - side].give();
      }
      if (!ball[1 - side].try_take()) ball[1 - side].give();  // the partner stops, too
    }
  };
  runtime r({.procs = 1, .time_slice = std::chrono::milliseconds(10)});
  pair hog(1'000'000), light(1'000);
  std::vector<future<void>> players;
  r.run([&] {
    for (pair* p : {&hog, &light}) {
      for (int side : {0, 1}) players.push_back(async([p, side] { p->play(side); }));
    }
    hog.ball[0].give();
    light.ball[0].give();
  });
  // 100 ms as the hog's own progress tells them, so that a loaded machine changes nothing.
  while (hog.count < 100'000'000) std::this_thread::yield();
  const double ratio = static_cast<double>(hog.count) / static_cast<double>(light.count);
  hog.stop = light.stop = true;
  for (auto& player : players) player.get();
  EXPECT_LT(ratio, 20.0) << hog.count << " and " << light.count;
  EXPECT_GT(ratio, 1.0 / 20.0) << hog.count << " and " << light.count;
}

TEST(Conformance, B16_PreemptionAfterSyscall) {
  for (const int microseconds : {10, 100, 1000}) {
    const std::chrono::microseconds length(microseconds);
    runtime r({.procs = 2});
    r.run([&] {
      std::atomic<bool> stop{false};
      std::atomic<int> started{0}, stopped{0};
      std::vector<future<void>> all;
      for (int i = 0; i < 8; ++i) {
        all.push_back(async([&] {
          ++started;
          while (!stop) {
            blocking([&] {
              for (const auto until = clock::now() + length; clock::now() < until;) {
              }
            });
          }
          ++stopped;
        }));
      }
      EXPECT_TRUE(becomes_true_within(std::chrono::seconds(20), [&] { return started == 8; }));
      stop = true;
      EXPECT_TRUE(becomes_true_within(std::chrono::seconds(20), [&] { return stopped == 8; }));
      for (auto& one : all) one.get();
    });
  }
}

TEST_P(Conformance, B23_NumberOfGoroutinesReturnsToItsStart) {
  runtime r({.procs = ps()});
  r.run([] {
    const std::size_t start = goroutine_count();
    std::atomic<bool> ran{false};
    go([&] { ran = true; });
    EXPECT_TRUE(becomes_true_within(std::chrono::seconds(10),
                                    [&] { return ran && goroutine_count() == start; }));
  });
}

// Numbers made of nothing but zero and successor, counted by recursion.
struct peano {
  struct number {
    const number* one_less;
  };
  static int count(const number* n) { return n == nullptr ? 0 : count(n->one_less) + 1; }
};

int deep(int levels) {
  // Each level keeps a number in its own frame.
  struct recursion {
    [[gnu::noinline]] static int go_down(const peano::number* n, int left) {
      const peano::number more{n};
      asm volatile("" : : "r"(&more) : "memory");
      if (left == 0) return peano::count(n);
      const int below = go_down(&more, left - 1);
      asm volatile("" ::: "memory");
      return below;
    }
  };
  return recursion::go_down(nullptr, levels);
}

// ThreadSanitizer has room for 64 Ki calls on a stack of its own.
constexpr int k_depth = rt::sanitizer::k_thread ? 20'000 : 200'000;

TEST(Conformance, B24_DeepRecursion) {
  runtime r({.procs = 2, .stack_size = std::size_t{256} << 20});
  r.run([] {
    std::vector<future<int>> all;
    for (int i = 0; i < 4; ++i) all.push_back(async([] { return deep(k_depth); }));
    for (auto& one : all) EXPECT_EQ(one.get(), k_depth);
  });
  baton done;
  go({.stack_size = std::size_t{256} << 20}, [&] {
    EXPECT_EQ(deep(k_depth), k_depth);
    done.give();
  });
  done.take();
}

// A goroutine stops in the middle of unwinding; others use and leave stacks meanwhile.
TEST_P(Conformance, B26_LocalsSurviveOthersOnRecycledStacks) {
  struct stops_in_destructor {
    ~stops_in_destructor() {
      for (int i = 0; i < 3; ++i) {
        go([] {
          volatile char dirt[8000];
          for (volatile char& c : dirt) c = 0x55;
        });
        this_goroutine::yield();
        async([] {
          try {
            volatile char dirt[4000];
            for (volatile char& c : dirt) c = 0x33;
            throw std::string("inner");
          } catch (const std::string& text) {
            EXPECT_EQ(text, "inner");
            this_goroutine::yield();
            EXPECT_EQ(text, "inner");
          }
        }).get();
      }
    }
  };
  runtime r({.procs = ps()});
  r.run([] {
    std::vector<future<void>> all;
    for (int g = 0; g < 50; ++g) {
      all.push_back(async([g] {
        std::array<volatile int, 1000> local;
        for (int i = 0; i < 1000; ++i) local[static_cast<std::size_t>(i)] = g * 1000 + i;
        try {
          const stops_in_destructor guard;
          throw g;
        } catch (const int& thrown) {
          this_goroutine::yield();
          EXPECT_EQ(thrown, g);
        }
        for (int i = 0; i < 1000; ++i) {
          ASSERT_EQ(local[static_cast<std::size_t>(i)], g * 1000 + i);
        }
      }));
    }
    for (auto& one : all) one.get();
  });
}

}  // namespace
}  // namespace magpie
