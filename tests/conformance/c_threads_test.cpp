// Section C of Go's behaviours: goroutines locked to their thread. One test per row.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <new>
#include <optional>
#include <semaphore>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

#include "conformance.h"
#include "os/thread.h"
#include "support/baton.h"
#include "support/process_counts.h"

namespace magpie {
namespace {

using rt::os::current_thread_id;
using rt::os::thread_id;
using rt::testing::baton;

// Locks the goroutine to its thread and never unlocks it.
void lock_for_ever() {
  alignas(thread_lock) unsigned char room[sizeof(thread_lock)];
  ::new (room) thread_lock;
}

bool thread_exists(thread_id thread) {
  return std::filesystem::exists("/proc/self/task/" + std::to_string(thread));
}

// Keeps a P busy with goroutines that come, go and move.
class traffic {
 public:
  explicit traffic(runtime& r) {
    for (int i = 0; i < 4; ++i) {
      r.go([this] {
        while (!stop_) {
          async([this] { note_thread(); }).get();
          note_thread();
          this_goroutine::yield();
        }
        --left_;
      });
    }
  }
  ~traffic() {
    stop_ = true;
    while (left_ != 0) std::this_thread::yield();
  }
  // Since the last forget().
  bool ran_on(thread_id thread) {
    const std::lock_guard hold(lock_);
    return threads_.contains(thread);
  }
  void forget() {
    const std::lock_guard hold(lock_);
    threads_.clear();
  }

 private:
  void note_thread() {
    const std::lock_guard hold(lock_);
    threads_.insert(current_thread_id());
  }
  std::atomic<bool> stop_{false};
  std::atomic<int> left_{4};
  std::mutex lock_;
  std::set<thread_id> threads_;
};

TEST_P(Conformance, C02_LockOSThreadNesting) {
  runtime r({.procs = ps()});
  traffic others(r);
  r.run([&] {
    std::optional<thread_lock> outer, inner;
    outer.emplace();
    const thread_id mine = current_thread_id();
    others.forget();
    const auto stays = [&] {
      for (int i = 0; i < 20; ++i) {
        this_goroutine::yield();
        EXPECT_EQ(current_thread_id(), mine);
        async([&] { EXPECT_NE(current_thread_id(), mine) << "nobody else runs there"; }).get();
        EXPECT_EQ(current_thread_id(), mine);
        blocking([] {});
        EXPECT_EQ(current_thread_id(), mine);
        blocking(hand_off_now, [] { sched_yield(); });
        EXPECT_EQ(current_thread_id(), mine);
      }
      EXPECT_FALSE(others.ran_on(mine));
    };
    stays();
    inner.emplace();
    stays();
    inner.reset();
    stays();  // still locked by the first
    outer.reset();
    this_goroutine::yield();
  });
}

// Once unlocked the thread serves others again.
TEST(Conformance, C02_UnlockedThreadServesOthers) {
  runtime r({.procs = 1});
  r.run([] {
    std::optional<thread_lock> lock;
    lock.emplace();
    const thread_id mine = current_thread_id();
    lock.reset();
    EXPECT_EQ(async([] { return current_thread_id(); }).get(), mine);
  });
}

TEST(Conformance, C02_LockedAndUnlockedInsideABlockingCall) {
  runtime r({.procs = 2});
  r.run([] {
    blocking([] { const thread_lock whole; });
    std::optional<thread_lock> lock;
    blocking(hand_off_now, [&] { lock.emplace(); });
    const thread_id mine = current_thread_id();
    for (int i = 0; i < 20; ++i) {
      async([&] { EXPECT_NE(current_thread_id(), mine) << "nobody else runs there"; }).get();
      this_goroutine::yield();
      EXPECT_EQ(current_thread_id(), mine);
    }
    blocking([&] { lock.reset(); });
    this_goroutine::yield();
  });
}

TEST_P(Conformance, C02_LockedAndUnlockedGoroutinesHandABatonAround) {
  runtime r({.procs = ps()});
  baton there, back;
  std::vector<int> got;
  r.run([&] {
    future<void> locked = async([&] {
      const thread_lock lock;
      const thread_id mine = current_thread_id();
      for (int i = 0; i < 200; ++i) {
        there.give();
        back.take();
        EXPECT_EQ(current_thread_id(), mine);
      }
    });
    for (int i = 0; i < 200; ++i) {
      there.take();
      got.push_back(i);
      back.give();
    }
    locked.get();
  });
  EXPECT_EQ(got.size(), 200u);
}

// One that is locked looks again and again whether something came.
TEST_P(Conformance, B02_YieldLockedProgress) {
  runtime r({.procs = ps()});
  for (int round = 0; round < 10; ++round) {
    r.run([] {
      const channel<int> request, answer;
      std::atomic<int> looks{0};
      go([&] {
        const thread_lock lock;
        const thread_id mine = current_thread_id();
        for (int got = 0; got == 0;) {
          select(on_receive(request, [&](std::optional<int> value) { got = *value; }),
                 otherwise([&] {
                   ++looks;
                   this_goroutine::yield();
                 }));
          EXPECT_EQ(current_thread_id(), mine);
          if (got != 0) answer.send(got + 1);
        }
      });
      while (looks < 3) this_goroutine::yield();
      request.send(41);
      EXPECT_EQ(answer.receive(), 42);
    });
  }
}

TEST_P(Conformance, B03_YieldLocked) {
  runtime r({.procs = ps()});
  const channel<thread_id> ended;
  r.go([&] {
    lock_for_ever();
    const thread_id mine = current_thread_id();
    for (int i = 0; i < 10; ++i) {
      this_goroutine::yield();
      EXPECT_EQ(current_thread_id(), mine);
      this_goroutine::sleep_for(std::chrono::milliseconds(1));
      EXPECT_EQ(current_thread_id(), mine);
    }
    ended.send(mine);
  });
  const std::optional<thread_id> thread = r.run([&] { return ended.receive(); });
  ASSERT_TRUE(thread.has_value());
  while (thread_exists(*thread)) std::this_thread::yield();
}

// The same with children instead of sleeps, which may run on no thread but another one.
TEST_P(Conformance, B03_YieldLockedWithChildren) {
  runtime r({.procs = ps()});
  for (int round = 0; round < 10; ++round) {
    r.run([] {
      baton sent;
      go([&] {
        lock_for_ever();
        for (int i = 0; i < 10; ++i) {
          this_goroutine::yield();
          async([] {}).get();
        }
        sent.give();
      });
      sent.take();
    });
  }
}

TEST_P(Conformance, B04_BlockLocked) {
  runtime r({.procs = ps()});
  for (int round = 0; round < 10; ++round) {
    r.run([] {
      const channel<int> numbers;
      go([=] {
        const thread_lock lock;
        const thread_id mine = current_thread_id();
        for (int i = 0; i < 10; ++i) {
          numbers.send(i);
          EXPECT_EQ(current_thread_id(), mine);
        }
        numbers.close();
      });
      std::vector<int> got;
      for (const int i : numbers) got.push_back(i);
      EXPECT_THAT(got, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    });
  }
}

// The thread of a goroutine that ended locked ends, and nobody runs on it any more.
TEST_P(Conformance, C03_LockOSThreadExit) {
  runtime r({.procs = ps()});
  for (int round = 0; round < 20; ++round) {
    thread_id locked_thread = 0;
    r.run([&] {
      baton over;
      go([&] {
        lock_for_ever();
        locked_thread = current_thread_id();
        over.give();
      });
      over.take();
      EXPECT_NE(current_thread_id(), locked_thread);
      // A thread that is made later may get the number of one that is gone.
      while (thread_exists(locked_thread)) {
        EXPECT_NE(async([] { return current_thread_id(); }).get(), locked_thread);
        EXPECT_NE(current_thread_id(), locked_thread);
        this_goroutine::yield();
      }
    });
  }
}

// A parent that waits for a child which ends locked goes on elsewhere.
TEST_P(Conformance, C03_ChildThatEndsLockedIsJoined) {
  runtime r({.procs = ps()});
  r.run([] {
    for (int i = 0; i < 50; ++i) {
      const thread_id before = async([] {
                                 lock_for_ever();
                                 return current_thread_id();
                               }).get();
      EXPECT_NE(current_thread_id(), before);
    }
  });
}

// Its thread sleeps at the end, and loses its P: it is still found for the last step.
TEST(Conformance, C03_EndsLockedAfterItsPWasTaken) {
  runtime r({.procs = 1});
  for (int round = 0; round < 5; ++round) {
    std::atomic<bool> over{false};
    r.go([&] {
      while (!over) this_goroutine::yield();
    });
    r.run([] {
      go([] {
        lock_for_ever();
        usleep(20'000);
      });
    });
    while (r.read_stats().goroutines > 1) std::this_thread::yield();
    over = true;
    while (r.read_stats().goroutines != 0) std::this_thread::yield();
  }
  EXPECT_GE(r.read_stats().retakes, 1u);
}

TEST(Conformance, C03_LocalsOfOneThatEndsLockedAreDestroyed) {
  static std::atomic<int> destroyed{0};
  struct noted {
    ~noted() { ++destroyed; }
  };
  static goroutine_local<noted> local;
  destroyed = 0;
  runtime r({.procs = 2});
  r.run([] {
    async([] {
      this_goroutine::set_name("a name that is too long to be kept in the string itself");
      local.get();
      lock_for_ever();
    }).get();
  });
  while (r.read_stats().goroutines != 0) std::this_thread::yield();
  EXPECT_EQ(destroyed, 1);
}

TEST(Conformance, C03_StateOfTheThreadGoesWithIt) {
  runtime r({.procs = 2});
  const auto blocks_user_signal = [] {
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    return sigismember(&mask, SIGUSR2) == 1;
  };
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  r.run([&] {
    const bool before = blocks_user_signal();
    for (int i = 0; i < 20; ++i) {
      async([&] {
        lock_for_ever();
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, SIGUSR2);
        pthread_sigmask(before ? SIG_UNBLOCK : SIG_BLOCK, &one, nullptr);
        cpu_set_t first;
        CPU_ZERO(&first);
        for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&first) == 0; ++cpu) {
          if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &first);
        }
        sched_setaffinity(0, sizeof first, &first);
        go([] {});  // a thread may be made for this one
        this_goroutine::yield();
      }).get();
    }
    for (int i = 0; i < 200; ++i) {
      async([&] {
        EXPECT_EQ(blocks_user_signal(), before);
        cpu_set_t now;
        EXPECT_EQ(sched_getaffinity(0, sizeof now, &now), 0);
        EXPECT_TRUE(CPU_EQUAL(&now, &all));
        this_goroutine::yield();
      }).get();
    }
  });
}

// A thousand threads, a hundred at a time, each with something of the kernel's that is its own.
TEST_P(Conformance, C07_LockOSThreadVgetrandom) {
  constexpr int k_batches = 10, k_at_a_time = k_sanitized ? 20 : 100;
  runtime r({.procs = ps()});
  const std::size_t descriptors = rt::testing::descriptor_count();
  r.run([] {
    for (int batch = 0; batch < k_batches; ++batch) {
      latch all_have_one(k_at_a_time);
      std::vector<future<void>> all;
      for (int i = 0; i < k_at_a_time; ++i) {
        all.push_back(async([&] {
          lock_for_ever();
          static thread_local volatile int state = 0;  // of the thread that ends
          EXPECT_EQ(state, 0) << "a thread that served one that ended locked";
          state = 1;
          char random[16];
          EXPECT_EQ(getrandom(random, sizeof random, 0), 16);
          all_have_one.arrive_and_wait();
          blocking([] { sched_yield(); });
          EXPECT_EQ(state, 1);
        }));
      }
      for (auto& one : all) one.get();
    }
  });
  EXPECT_GE(r.read_stats().threads_peak, k_at_a_time);
  while (r.read_stats().threads > 2 * ps() + 4) std::this_thread::yield();
  EXPECT_EQ(rt::testing::descriptor_count(), descriptors);
}

// The same where the limit of threads is reached all the time.
TEST(Conformance, C07_ManyThreadsThatEndLockedWithinALimit) {
  for (const int limit : {1, 2, 3}) {
    runtime r({.procs = 2, .max_threads = limit});
    std::atomic<int> left{100};
    for (int i = 0; i < 100; ++i) {
      r.go([&] {
        lock_for_ever();
        --left;
      });
    }
    while (left != 0) std::this_thread::yield();
    r.run([] {});
    EXPECT_LE(r.read_stats().threads_peak, limit);
  }
}

// Each has a thread, and there is none beside theirs to hand a P on.
TEST_P(Conformance, C07_LockedGoroutinesHoldAllThreadsOfTheLimit) {
  constexpr int k_rounds = 200;
  runtime r({.procs = ps(), .max_threads = 2});
  channel<int> there, back;
  std::atomic<int> left{2};
  r.go([&] {
    const thread_lock lock;
    for (int i = 0; i < k_rounds; ++i) {
      there.send(i);
      EXPECT_EQ(back.receive(), i);
    }
    --left;
  });
  r.go([&] {
    const thread_lock lock;
    for (int i = 0; i < k_rounds; ++i) {
      EXPECT_EQ(there.receive(), i);
      this_goroutine::yield();
      back.send(i);
    }
    --left;
  });
  while (left != 0) std::this_thread::yield();
}

// Nobody but the runtime's own helpers is left to look at the clock and at descriptors.
TEST_P(Conformance, C07_LockedGoroutinesWaitForTimeAndDescriptorsAtTheLimit) {
  constexpr int k_rounds = 20;
  for (const int limit : {1, 2}) {
    runtime r({.procs = ps(), .max_threads = limit});
    std::atomic<int> left{limit};
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    for (int i = 0; i < limit; ++i) {
      r.go([&] {
        const thread_lock lock;
        for (int round = 0; round < k_rounds; ++round) {
          this_goroutine::sleep_for(std::chrono::microseconds(300));
          char byte = 0;
          while (read(ends[0], &byte, 1) != 1) {
            ASSERT_EQ(errno, EAGAIN);
            wait_readable(ends[0]);
          }
        }
        --left;
      });
    }
    for (int i = 0; i < limit * k_rounds; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(500));
      ASSERT_EQ(write(ends[1], "x", 1), 1);
    }
    while (left != 0) std::this_thread::yield();
    r.run([] {});
    EXPECT_LE(r.read_stats().threads_peak, limit);
    close(ends[0]);
    close(ends[1]);
  }
}

// How often those threads have gone to sleep so far.
long sleeps_of_spawners() {
  long sleeps = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    bool is_one = false;
    for (std::string line; std::getline(status, line);) {
      if (line == "Name:\tmagpie-spawner") is_one = true;
      const bool counts = is_one && line.starts_with("voluntary_ctxt_switches:");
      if (counts) sleeps += std::stol(line.substr(line.find(':') + 1));
    }
  }
  return sleeps;
}

// A P is idle all the time, and nobody can be woken for it: no reason to wake the helpers for every
// goroutine that becomes runnable.
TEST(Conformance, C07_AtTheLimitThoseWhoRunDoNotKeepTheHelpersBusy) {
  constexpr int k_rounds = 20'000;
  runtime r({.procs = 2, .max_threads = 1});
  r.run([] {
    const long before = sleeps_of_spawners();
    const channel<int> there, back;
    go([=] {
      for (const int i : there) back.send(i);
    });
    for (int i = 0; i < k_rounds; ++i) {
      there.send(i);
      EXPECT_EQ(back.receive(), i);
    }
    there.close();
    EXPECT_GT(before, 0) << "the premise of the test";
    EXPECT_LT(sleeps_of_spawners() - before, k_rounds / 200);
  });
}

// One thread is in a call, the other has always somebody to run: what the first one's P kept time
// for is not forgotten.
TEST(Conformance, C07_TimersOfAPWithoutThreadAtTheLimit) {
  runtime r({.procs = 2, .max_threads = 2});
  std::atomic<bool> done{false};
  std::atomic<int> left{8};
  std::binary_semaphore release{0};
  for (int i = 0; i < 2; ++i) {
    r.go([&] {
      while (!done) this_goroutine::yield();
    });
  }
  r.go([&] {
    std::vector<timer> soon;
    for (int i = 0; i < 8; ++i) {
      soon.push_back(after_func(std::chrono::milliseconds(1 + i), [&] { --left; }));
    }
    blocking(hand_off_now, [&] { release.acquire(); });
  });
  while (left != 0) std::this_thread::yield();
  done = true;
  release.release();
  r.run([] {});
}

std::atomic<int> g_destroyed{0};
struct of_thread {
  bool used = false;
  ~of_thread() {
    if (used) ++g_destroyed;
  }
};
thread_local of_thread t_local;

TEST(Conformance, C09_DestructorsOfTheThreadRunWhenItEnds) {
  g_destroyed = 0;
  runtime r({.procs = 2});
  r.run([] {
    for (int i = 0; i < 10; ++i) {
      async([] {
        lock_for_ever();
        t_local.used = true;
      }).get();
    }
  });
  while (g_destroyed != 10) std::this_thread::yield();
}

}  // namespace
}  // namespace magpie
