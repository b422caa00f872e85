// blocking(): a thread may block, its P must not.
#include <magpie/blocking.h>

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <magpie/runtime.h>

#include "os/thread.h"
#include "sched/scheduler.h"
#include "support/baton.h"
#include "support/process_counts.h"

namespace magpie {
namespace {

using rt::os::current_thread_id;
using rt::os::thread_id;
using rt::testing::baton;

// The thread's errno of this moment; the compiler may not remember where it was.
[[gnu::noinline]] int errno_now() {
  asm volatile("" ::: "memory");
  return errno;
}

struct pipe_ends {
  pipe_ends() {
    if (pipe(ends) != 0) std::abort();
  }
  ~pipe_ends() {
    close(ends[0]);
    close(ends[1]);
  }
  char read_one() const {
    char c = 0;
    EXPECT_EQ(read(ends[0], &c, 1), 1);
    return c;
  }
  void write_one(char c) const { EXPECT_EQ(write(ends[1], &c, 1), 1); }
  int ends[2];
};

// On one P: `in_call` runs inside a blocking call of one goroutine, which has lost its P for sure
// when it returns, and can have it back only on the thread of another goroutine. `after` runs
// behind the call.
template <class InCall, class After>
void with_forced_migration(InCall in_call, After after) {
  runtime r({.procs = 1});
  std::atomic<bool> in_the_call{false}, other_runs{false};
  r.run([&] {
    future<void> moved = async([&] {
      const thread_id before = current_thread_id();
      try {
        blocking(hand_off_now, [&] {
          in_the_call = true;
          while (!other_runs) std::this_thread::yield();
          return in_call();
        });
        after();
      } catch (const std::runtime_error&) {
        EXPECT_NE(current_thread_id(), before) << "the premise of the test";
        throw;
      }
      EXPECT_NE(current_thread_id(), before) << "the premise of the test";
    });
    while (!in_the_call) this_goroutine::yield();
    async([&] {
      other_runs = true;
      // Until the one that comes back has found no P and queues for one.
      while (r.read_stats().global_queue_length == 0) std::this_thread::yield();
      errno = EXDEV;
    }).get();
    moved.get();
  });
}

TEST(Blocking, ReturnsWhatTheFunctionReturns) {
  const auto all = [] {
    EXPECT_EQ(blocking([] { return 1; }), 1);
    EXPECT_EQ(blocking(hand_off_now, [] { return 2; }), 2);
    blocking([] {});
    int number = 0;
    int& same = blocking([&]() -> int& { return number; });
    EXPECT_EQ(&same, &number);
    EXPECT_EQ(*blocking([] { return std::make_unique<int>(3); }), 3);
  };
  all();  // on a plain thread
  runtime r({.procs = 1});
  r.run(all);
}

TEST(Blocking, LetsAnotherGoroutineRunOnTheOnlyP) {
  runtime r({.procs = 1});
  r.run([] {
    const pipe_ends pipe;
    future<char> reader = async([&] { return blocking([&] { return pipe.read_one(); }); });
    this_goroutine::yield();
    async([&] { pipe.write_one('x'); }).get();
    EXPECT_EQ(reader.get(), 'x');
  });
}

TEST(Blocking, HandedOffAtOnceLetsAnotherGoroutineRunOnTheOnlyP) {
  runtime r({.procs = 1});
  r.run([] {
    const pipe_ends pipe;
    future<char> reader =
        async([&] { return blocking(hand_off_now, [&] { return pipe.read_one(); }); });
    this_goroutine::yield();
    async([&] { pipe.write_one('x'); }).get();
    EXPECT_EQ(reader.get(), 'x');
  });
  EXPECT_GE(r.read_stats().hand_offs, 1u);
}

TEST(Blocking, EveryHandOffIsCountedOnce) {
  constexpr int k_calls = 20;
  runtime r({.procs = 2});
  r.run([] {
    for (int i = 0; i < k_calls; ++i) blocking(hand_off_now, [] {});
  });
  EXPECT_EQ(r.read_stats().hand_offs, k_calls);
}

TEST(Blocking, ManyBlockedGoroutinesDoNotStopTheOthers) {
  constexpr int k_blocked = 50;
  runtime r({.procs = 1});
  const std::vector<pipe_ends> pipes(k_blocked);
  r.run([&] {
    std::atomic<int> inside{0};
    std::vector<future<char>> readers;
    for (int i = 0; i < k_blocked; ++i) {
      readers.push_back(async([&, i] {
        return blocking([&, i] {
          ++inside;
          return pipes[static_cast<std::size_t>(i)].read_one();
        });
      }));
    }
    while (inside != k_blocked) this_goroutine::yield();
    EXPECT_GE(r.read_stats().threads, k_blocked + 1) << "each blocks a thread of its own";
    std::vector<future<void>> workers;
    std::atomic<int> work{0};
    for (int i = 0; i < 100; ++i) {
      workers.push_back(async([&] {
        for (int n = 0; n < 10; ++n) {
          ++work;
          this_goroutine::yield();
        }
      }));
    }
    for (auto& worker : workers) worker.get();
    EXPECT_EQ(work, 1000);
    for (int i = 0; i < k_blocked; ++i) pipes[static_cast<std::size_t>(i)].write_one('a');
    for (auto& reader : readers) EXPECT_EQ(reader.get(), 'a');
  });
}

TEST(Blocking, ThreadsStayWithinTheLimit) {
  constexpr int k_limit = 4;
  constexpr int k_blocked = 40;
  const pipe_ends pipe;
  runtime r({.procs = 2, .max_threads = k_limit});
  std::atomic<int> inside{0}, done{0};
  for (int i = 0; i < k_blocked; ++i) {
    r.go([&] {
      blocking([&] {
        ++inside;
        pipe.read_one();
        --inside;
      });
      ++done;
    });
  }
  while (inside != k_limit) std::this_thread::yield();
  for (int i = 0; i < k_blocked; ++i) pipe.write_one('x');
  while (done != k_blocked) std::this_thread::yield();
  EXPECT_LE(r.read_stats().threads_peak, k_limit);
}

// Far more calls than threads: those beyond the limit wait for their turn, and so does nobody else.
TEST(Blocking, TenThousandCallsAtOnceWithinTheLimit) {
  constexpr int k_calls = 10'000;
  constexpr int k_limit = 64;
  const std::size_t threads_before = rt::testing::thread_count();
  std::atomic<int> back{0}, in_call{0}, most_in_call{0};
  std::atomic<std::uint64_t> computed{0};
  std::size_t most_threads = 0;
  runtime r({.procs = 2, .max_threads = k_limit});
  r.go([&] {
    while (back != k_calls) {
      computed.fetch_add(1, std::memory_order_relaxed);
      this_goroutine::checkpoint();
    }
  });
  for (int i = 0; i < k_calls; ++i) {
    r.go([&] {
      blocking([&] {
        const int now = ++in_call;
        for (int seen = most_in_call;
             seen < now && !most_in_call.compare_exchange_weak(seen, now);) {
        }
        const timespec time{.tv_sec = 0, .tv_nsec = 1'000'000};
        nanosleep(&time, nullptr);
        --in_call;
      });
      ++back;
    });
  }
  // From look to look the one who computes gets on.
  std::uint64_t computed_before = 0;
  int looks = 0;
  while (back != k_calls) {
    most_threads = std::max(most_threads, rt::testing::thread_count());
    EXPECT_LE(r.read_stats().threads, k_limit);
    while (computed == computed_before && back != k_calls) std::this_thread::yield();
    if (back != k_calls) ++looks;
    computed_before = computed;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GT(looks, 1);
  EXPECT_GT(most_in_call, 2) << "more than there are Ps";
  EXPECT_LE(most_in_call, k_limit);
  EXPECT_LE(r.read_stats().threads_peak, k_limit);
  EXPECT_LE(most_threads, threads_before + k_limit + 3) << "the spawner, the monitor, the service";
}

TEST(Blocking, KeepsErrno) {
  const auto all = [] {
    EXPECT_EQ(blocking([] { return close(-1); }), -1);
    EXPECT_EQ(errno_now(), EBADF);
    blocking(hand_off_now, [] { errno = ENOSPC; });
    EXPECT_EQ(errno_now(), ENOSPC);
  };
  all();
  runtime r({.procs = 1});
  r.run([&] {
    for (int i = 0; i < 100; ++i) all();
  });
}

TEST(Blocking, KeepsErrnoOnTheWayToAnotherThread) {
  with_forced_migration([] { errno = EDOM; }, [] { EXPECT_EQ(errno_now(), EDOM); });
}

TEST(Blocking, LetsExceptionsPass) {
  const auto all = [] {
    EXPECT_THROW(blocking([] { throw std::runtime_error("out"); }), std::runtime_error);
    EXPECT_THROW(blocking(hand_off_now, [] { throw 1; }), int);
  };
  all();
  runtime r({.procs = 1});
  r.run([&] {
    for (int i = 0; i < 100; ++i) all();
  });
}

TEST(Blocking, LetsExceptionsPassOnTheWayToAnotherThread) {
  EXPECT_THROW(with_forced_migration([] { throw std::runtime_error("out"); },
                                     [] { ADD_FAILURE() << "nothing thrown"; }),
               std::runtime_error);
}

TEST(Blocking, LetsExitPass) {
  runtime r({.procs = 1});
  EXPECT_THROW(r.run([] { blocking([] { this_goroutine::exit(); }); }), misuse);
  r.run([] {});
}

// How deep the caller is inside the runtime, as the scheduler counts it.
std::uint32_t gate_depth() { return rt::current_m()->depth.load(); }

TEST(Blocking, Nests) {
  runtime r({.procs = 1});
  r.run([] {
    EXPECT_EQ(gate_depth(), 0u) << "this is user code";
    const int got = blocking([] {
      return blocking([] { return 1; }) + blocking(hand_off_now, [] { return 2; }) +
             blocking([] { return blocking([] { return 4; }); });
    });
    EXPECT_EQ(got, 7);
    EXPECT_EQ(gate_depth(), 0u) << "every way in has its way out";
    EXPECT_EQ(blocking(hand_off_now, [] { return blocking([] { return 3; }); }), 3);
    EXPECT_EQ(gate_depth(), 0u);
    EXPECT_THROW(blocking([] { blocking([] { throw 1; }); }), int);
    EXPECT_EQ(gate_depth(), 0u);
  });
}

TEST(Blocking, NestsWhileItLosesItsP) {
  with_forced_migration(
      [] {
        blocking([] { errno = EDOM; });
        blocking(hand_off_now, [] {});
      },
      [] {
        EXPECT_EQ(errno_now(), EDOM);
        EXPECT_EQ(gate_depth(), 0u);
      });
}

TEST(Blocking, ShortCallsKeepTheirP) {
  runtime r({.procs = 1});
  r.run([] {
    int stayed = 0;
    for (int i = 0; i < 1000; ++i) {
      const thread_id before = current_thread_id();
      blocking([] {});
      if (current_thread_id() == before) ++stayed;
    }
    EXPECT_GT(stayed, 0);
  });
  EXPECT_EQ(r.read_stats().hand_offs, 0u) << "nobody gave a P away by himself";
}

}  // namespace
}  // namespace magpie
