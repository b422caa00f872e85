// Locks and meeting points under load, with 1 to 16 Ps. Short by default; MAGPIE_STRESS=N makes
// every test N times as long. A wake-up that is lost shows as a test that does not end; a touch
// of what is gone, under the sanitizers.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <shared_mutex>
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

// Some goroutines and some plain threads, each with a random source of its own.
template <class Work>
void from_both_sides(int ps, int goroutines, int threads, Work work) {
  runtime r({.procs = ps});
  std::vector<std::thread> outside;
  for (int t = 0; t < threads; ++t) {
    outside.emplace_back([&work, t] {
      random_source random(static_cast<std::uint64_t>(t) + 1000);
      work(random);
    });
  }
  r.run([&] {
    wait_group all;
    for (int g = 0; g < goroutines; ++g) {
      all.go([&work, g] {
        random_source random(static_cast<std::uint64_t>(g) + 1);
        work(random);
      });
    }
    all.wait();
  });
  for (std::thread& t : outside) t.join();
}

class SyncStress : public rt::testing::with_ps {};
INSTANTIATE_TEST_SUITE_P(Ps, SyncStress, ::testing::Values(1, 2, 4, 16));

TEST_P(SyncStress, TimedLocksRaceWithUnlocks) {
  mutex guard;
  long counted = 0;
  std::atomic<long> expected{0};
  const int each = rounds(5000);
  from_both_sides(ps(), 20, 3, [&](random_source& random) {
    for (int i = 0; i < each; ++i) {
      switch (random.below(4)) {
        case 0:
          if (!guard.try_lock_for(std::chrono::nanoseconds(random.below(20'000)))) continue;
          break;
        case 1:
          if (!guard.try_lock()) continue;
          break;
        default:
          guard.lock();
      }
      ++counted;
      if (random.below(16) == 0) this_goroutine::yield();
      guard.unlock();
      ++expected;
    }
  });
  EXPECT_EQ(counted, expected);
  EXPECT_TRUE(guard.try_lock());
}

TEST_P(SyncStress, ReadersAndWritersWithTimeouts) {
  shared_mutex guard;
  std::atomic<int> activity{0}, wrong{0};
  const int each = rounds(3000);
  from_both_sides(ps(), 20, 3, [&](random_source& random) {
    const auto timeout = [&] { return std::chrono::nanoseconds(random.below(20'000)); };
    for (int i = 0; i < each; ++i) {
      const auto kind = random.below(40);
      if (kind < 3) {
        if (kind == 0) {
          guard.lock();
        } else if (kind == 1 ? !guard.try_lock() : !guard.try_lock_for(timeout())) {
          continue;
        }
        if ((activity += 10'000) != 10'000) ++wrong;
        if (random.below(8) == 0) this_goroutine::yield();
        activity -= 10'000;
        guard.unlock();
      } else {
        if (kind < 30) {
          guard.lock_shared();
        } else if (!guard.try_lock_shared_for(timeout())) {
          continue;
        }
        if (++activity >= 10'000) ++wrong;
        if (random.below(16) == 0) this_goroutine::yield();
        --activity;
        guard.unlock_shared();
      }
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(guard.try_lock());
}

// Many more goroutines than Ps: those let in run much later than those who come.
TEST_P(SyncStress, AHundredReadersAndWriters) {
  for (const std::uint64_t percent_of_writers : {1u, 10u, 50u}) {
    shared_mutex guard;
    long written = 0;  // under the lock
    std::atomic<long> expected{0};
    std::atomic<int> inside{0}, wrong{0};
    const int each = rounds(1000);
    from_both_sides(ps(), 100, 1, [&](random_source& random) {
      long mine = 0;
      for (int i = 0; i < each; ++i) {
        const bool lingers = random.below(64) == 0;
        if (random.below(100) < percent_of_writers) {
          const std::scoped_lock hold(guard);
          if ((inside += 10'000) != 10'000) ++wrong;
          const long before = written;
          if (lingers) this_goroutine::yield();
          written = before + 1;
          inside -= 10'000;
          ++mine;
        } else {
          const std::shared_lock hold(guard);
          if (++inside >= 10'000) ++wrong;
          const long before = written;
          if (lingers) this_goroutine::yield();
          if (written != before) ++wrong;
          --inside;
        }
      }
      expected += mine;
    });
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(written, expected);
    EXPECT_TRUE(guard.try_lock());
  }
}

TEST_P(SyncStress, SemaphoresWithMixedUnitsAndTimeouts) {
  constexpr int k_units = 5;
  semaphore s(k_units);
  std::atomic<int> taken{0}, wrong{0};
  const int each = rounds(3000);
  from_both_sides(ps(), 20, 3, [&](random_source& random) {
    for (int i = 0; i < each; ++i) {
      const int units = 1 + static_cast<int>(random.below(k_units));
      if (random.below(3) == 0) {
        if (!s.try_acquire_for(std::chrono::nanoseconds(random.below(20'000)), units)) continue;
      } else {
        s.acquire(units);
      }
      if ((taken += units) > k_units) ++wrong;
      if (random.below(8) == 0) this_goroutine::yield();
      taken -= units;
      s.release(units);
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(s.try_acquire(k_units));
}

// A bounded buffer; both sides wait with and without deadlines, and are notified one or all.
TEST_P(SyncStress, ConditionStorm) {
  mutex guard;
  condition_variable changed;
  int filled = 0;
  std::atomic<int> produced{0}, consumed{0}, number{0};
  const int each = rounds(2000);
  from_both_sides(ps(), 16, 4, [&](random_source& random) {
    const bool produces = number++ % 2 == 0;
    for (int i = 0; i < each; ++i) {
      std::unique_lock hold(guard);
      const auto may_go = [&] { return produces ? filled < 3 : filled > 0; };
      while (!may_go()) {
        if (random.below(2) == 0) {
          changed.wait_for(hold, std::chrono::nanoseconds(random.below(50'000)));
        } else {
          changed.wait(hold, may_go);
        }
      }
      filled += produces ? 1 : -1;
      ++(produces ? produced : consumed);
      changed.notify_all();
    }
  });
  EXPECT_EQ(produced, consumed);
  EXPECT_EQ(filled, 0);
}

// Every notification goes to exactly one: nobody is left, nobody wakes without.
TEST_P(SyncStress, NotificationsAreNeitherLostNorMade) {
  runtime r({.procs = ps()});
  r.run([&] {
    mutex guard;
    condition_variable cv;
    int waiting = 0, woken = 0;
    constexpr int k_waiters = 10;
    const int each = rounds(500);
    wait_group all;
    for (int g = 0; g < k_waiters; ++g) {
      all.go([&] {
        for (int i = 0; i < each; ++i) {
          std::unique_lock hold(guard);
          ++waiting;
          cv.wait(hold);
          ++woken;
        }
      });
    }
    int notified = 0;
    while (notified < k_waiters * each) {
      {
        const std::scoped_lock hold(guard);
        EXPECT_LE(woken, notified);
        if (waiting > notified) {
          ++notified;
          cv.notify_one();
        }
      }
      this_goroutine::yield();
    }
    all.wait();
    EXPECT_EQ(woken, notified);
  });
}

// ---- Destroyed as soon as the last call has returned ------------------------------------------

TEST_P(SyncStress, AMutexGoesRightAfterTheLastUnlock) {
  struct shared {
    mutex guard;
    int owners;
  };
  from_both_sides(ps(), 4, 2, [&](random_source& random) {
    for (int i = 0; i < rounds(500); ++i) {
      auto* const s = new shared{{}, 3};
      const auto drop = [s](bool timed) {
        if (timed) {
          while (!s->guard.try_lock_for(1us)) {
          }
        } else {
          s->guard.lock();
        }
        const bool last = --s->owners == 0;
        s->guard.unlock();
        if (last) delete s;
      };
      const bool timed = random.below(2) == 0;
      go([=] { drop(timed); });
      go([=] { drop(false); });
      drop(timed);
    }
  });
}

TEST_P(SyncStress, ASharedMutexGoesRightAfterTheLastUnlock) {
  struct shared {
    shared_mutex guard;
    std::atomic<int> owners{4};
    bool gone = false;
  };
  from_both_sides(ps(), 4, 2, [&](random_source& random) {
    for (int i = 0; i < rounds(500); ++i) {
      auto* const s = new shared;
      const auto drop = [s](bool timed) {
        for (int k = 0; k < 3; ++k) {
          if (!timed || !s->guard.try_lock_shared_for(1us)) s->guard.lock_shared();
          s->guard.unlock_shared();
        }
        s->guard.lock();
        const bool last = --s->owners == 0;
        s->guard.unlock();
        if (last) delete s;
      };
      const bool timed = random.below(2) == 0;
      for (int g = 0; g < 3; ++g) go([=] { drop(timed); });
      drop(timed);
    }
  });
}

// What one goroutine does to release another, which then destroys the object at once.
template <class Object, class Make, class Release, class Wait>
void destroy_after_wait(int ps, int times, Make make, Release release, Wait wait) {
  from_both_sides(ps, 4, 2, [&](random_source& random) {
    for (int i = 0; i < times; ++i) {
      std::unique_ptr<Object> object(make());
      Object* const raw = object.get();
      go([=] { release(*raw); });
      if (random.below(2) == 0) this_goroutine::yield();
      wait(*object);
      object.reset();
    }
  });
}

TEST_P(SyncStress, MeetingPointsGoRightAfterTheWait) {
  const int times = rounds(500);
  destroy_after_wait<event>(
      ps(), times, [] { return new event; }, [](event& e) { e.set(); }, [](event& e) { e.wait(); });
  destroy_after_wait<event>(
      ps(), times, [] { return new event; }, [](event& e) { e.set(); },
      [](event& e) {
        while (!e.wait_for(1us)) {
        }
      });
  destroy_after_wait<latch>(
      ps(), times, [] { return new latch(2); }, [](latch& l) { l.count_down(); },
      [](latch& l) { l.arrive_and_wait(); });
  destroy_after_wait<wait_group>(
      ps(), times,
      [] {
        auto* const w = new wait_group;
        w->add(1);
        return w;
      },
      [](wait_group& w) { w.done(); }, [](wait_group& w) { w.wait(); });
  destroy_after_wait<semaphore>(
      ps(), times, [] { return new semaphore(0); }, [](semaphore& s) { s.release(2); },
      [](semaphore& s) {
        if (!s.try_acquire_for(1us, 2)) s.acquire(2);
      });
  destroy_after_wait<barrier<>>(
      ps(), times, [] { return new barrier<>(2); }, [](barrier<>& b) { (void)b.arrive(); },
      [](barrier<>& b) { b.arrive_and_wait(); });
}

TEST_P(SyncStress, AOnceGoesRightAfterTheCall) {
  from_both_sides(ps(), 4, 2, [&](random_source&) {
    for (int i = 0; i < rounds(500); ++i) {
      // Kept by the one who did it until it is out; the other may only look.
      struct shared {
        once o;
        std::atomic<int> callers{2};
      };
      auto* const s = new shared;
      const auto call = [s] {
        int value = 0;
        s->o.call([&] {
          this_goroutine::yield();
          value = 1;
        });
        if (--s->callers == 0) delete s;
      };
      go(call);
      call();
    }
  });
}

TEST_P(SyncStress, AWaitGroupIsUsedAgainAndAgain) {
  runtime r({.procs = ps()});
  r.run([] {
    wait_group all;
    std::atomic<int> ran{0};
    const int times = rounds(1000);
    for (int i = 0; i < times; ++i) {
      for (int g = 0; g < 8; ++g) all.go([&] { ++ran; });
      all.wait();
    }
    EXPECT_EQ(ran, times * 8);
  });
}

TEST_P(SyncStress, BarriersMeet) {
  std::atomic<int> done{0};
  const int phases = rounds(500);
  barrier step(8, [&]() noexcept { ++done; });
  from_both_sides(ps(), 6, 2, [&](random_source& random) {
    for (int i = 0; i < phases; ++i) {
      auto token = step.arrive();
      if (random.below(4) == 0) this_goroutine::yield();
      step.wait(std::move(token));
    }
  });
  EXPECT_EQ(done, phases);
}

// The same without the monitor: nothing may need it.
TEST(SyncStress, WithoutTheMonitor) {
  rt::testing::expect_to_end_without_monitor("Ps/SyncStress.*");
}

}  // namespace
}  // namespace magpie
