#include <magpie/shared_mutex.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

#include "support/subprocess.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;
using rt::testing::run_program;

static_assert(sizeof(shared_mutex) <= 64);
[[maybe_unused]] constinit shared_mutex g_in_static_storage;

// Two readers at a time open the slots.
void let_readers_meet(shared_mutex& guard) {
  for (int i = 0; i < 3; ++i) guard.lock_shared();
  for (int i = 0; i < 3; ++i) guard.unlock_shared();
}

TEST(SharedMutex, ReadersShareAndWritersDoNot) {
  for (const bool with_slots : {false, true}) {
    shared_mutex guard;
    if (with_slots) let_readers_meet(guard);
    ASSERT_TRUE(guard.try_lock_shared());
    EXPECT_TRUE(guard.try_lock_shared());
    EXPECT_FALSE(guard.try_lock());
    EXPECT_FALSE(guard.try_lock_for(1ms));
    guard.unlock_shared();
    EXPECT_FALSE(guard.try_lock());
    guard.unlock_shared();
    ASSERT_TRUE(guard.try_lock());
    EXPECT_FALSE(guard.try_lock());
    EXPECT_FALSE(guard.try_lock_shared());
    EXPECT_FALSE(guard.try_lock_shared_for(1ms));
    EXPECT_FALSE(guard.try_lock_shared_until(std::chrono::system_clock::now() + 1ms));
    guard.unlock();
    EXPECT_TRUE(guard.try_lock_for(1ms));
    guard.unlock();
    EXPECT_TRUE(guard.try_lock_shared_for(1ms));
    guard.unlock_shared();
  }
}

TEST(SharedMutex, AReaderMayBeUnlockedElsewhere) {
  for (int i = 0; i < 100; ++i) {
    shared_mutex guard;
    let_readers_meet(guard);
    guard.lock_shared();
    guard.lock_shared();
    std::thread([&] { guard.unlock_shared(); }).join();
    EXPECT_FALSE(guard.try_lock());
    std::thread([&] { guard.unlock_shared(); }).join();
    EXPECT_TRUE(guard.try_lock());
    guard.unlock();
  }
}

// Holds in slots, holds that are counted, more than a line has slots: all are found.
TEST(SharedMutex, AWriterWaitsForEveryReader) {
  for (const int ps : {1, 2}) {
    runtime r({.procs = ps});
    r.run([&] {
      shared_mutex guard;
      let_readers_meet(guard);
      wait_group readers, writer;
      event leave;
      std::atomic<int> inside{0};
      std::atomic<bool> wrote{false};
      for (int i = 0; i < 50; ++i) {
        readers.go([&] {
          guard.lock_shared();
          ++inside;
          leave.wait();
          EXPECT_FALSE(wrote);
          guard.unlock_shared();
        });
      }
      while (inside < 50) this_goroutine::yield();
      for (int i = 0; i < 20; ++i) guard.lock_shared();
      writer.go([&] {
        const std::scoped_lock hold(guard);
        wrote = true;
      });
      this_goroutine::yield();
      leave.set();
      readers.wait();
      EXPECT_FALSE(wrote);
      for (int i = 0; i < 20; ++i) guard.unlock_shared();
      writer.wait();
      EXPECT_TRUE(wrote);
    });
  }
}

TEST(SharedMutex, AWaitingWriterStopsNewReadersAndThoseGoBeforeTheNextWriter) {
  runtime r({.procs = 1});
  r.run([&] {
    shared_mutex guard;
    std::vector<std::string> order;
    wait_group all;
    guard.lock_shared();
    all.go([&] {
      const std::scoped_lock hold(guard);
      order.emplace_back("first writer");
    });
    this_goroutine::yield();
    EXPECT_FALSE(guard.try_lock_shared());
    all.go([&] {
      const std::scoped_lock hold(guard);
      order.emplace_back("second writer");
    });
    this_goroutine::yield();
    for (int i = 0; i < 2; ++i) {
      all.go([&] {
        const std::shared_lock hold(guard);
        order.emplace_back("reader");
      });
    }
    this_goroutine::yield();
    EXPECT_THAT(order, ::testing::IsEmpty());
    guard.unlock_shared();
    all.wait();
    EXPECT_THAT(order, ::testing::ElementsAre("first writer", "reader", "reader", "second writer"));
  });
}

TEST(SharedMutex, AWriterThatGivesUpLetsTheReadersIn) {
  runtime r({.procs = 2});
  r.run([&] {
    shared_mutex guard;
    guard.lock_shared();
    wait_group all;
    event given_up;
    all.go([&] {
      EXPECT_FALSE(guard.try_lock_for(10ms));
      given_up.set();
    });
    for (int i = 0; i < 3; ++i) {
      all.go([&] {
        guard.lock_shared();
        guard.unlock_shared();
      });
    }
    all.wait();
    EXPECT_TRUE(given_up.is_set());
    guard.unlock_shared();
    EXPECT_TRUE(guard.try_lock());
    guard.unlock();
  });
}

TEST(SharedMutex, WorksWithTheLocksOfTheStandardLibrary) {
  shared_mutex a, b;
  std::shared_lock read(a);
  EXPECT_TRUE(read.owns_lock());
  read.unlock();
  EXPECT_TRUE(read.try_lock_for(1ms));
  read.unlock();
  const std::scoped_lock both(a, b);
  std::unique_lock third(a, std::try_to_lock);
  EXPECT_FALSE(third.owns_lock());
}

TEST(SharedMutex, UnlockingWhatIsNotLockedEndsTheProcess) {
  for (const char* const way : {"shared_unlock", "shared_unlock_read_locked",
                                "shared_unlock_shared", "shared_unlock_shared_write_locked",
                                "shared_unlock_shared_twice", "shared_unlock_shared_with_slots"}) {
    const auto end = run_program("sync_misuse", {way});
    EXPECT_EQ(end.signal, SIGABRT) << way;
    EXPECT_THAT(end.output, ::testing::HasSubstr("of unlocked shared_mutex")) << way;
  }
}

}  // namespace
}  // namespace magpie
