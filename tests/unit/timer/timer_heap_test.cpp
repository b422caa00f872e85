#include "timer/timer_heap.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <thread>
#include <vector>

#include "base/random.h"
#include "sched/timers.h"

namespace magpie::rt {
namespace {

// The heap only passes it on.
struct test_harvest : harvest {
  std::vector<timer*> fired;
};

struct test_timer : timer {
  explicit test_timer(os::nanos w = 0, os::nanos p = 0) : timer(ring), period(p) { when = w; }
  static os::nanos ring(timer& t, os::nanos, harvest& out) {
    auto& self = static_cast<test_timer&>(t);
    ++self.rings;
    static_cast<test_harvest&>(out).fired.push_back(&t);
    return self.period == 0 ? 0 : t.when + self.period;
  }
  os::nanos period;
  int rings = 0;
};

TEST(TimerHeap, IsEmptyAtFirst) {
  timer_heap heap;
  test_harvest out;
  EXPECT_EQ(heap.next(), os::k_never);
  EXPECT_EQ(heap.pending(), 0u);
  EXPECT_EQ(heap.run_expired(os::k_never - 1, out), 0u);
}

TEST(TimerHeap, FiresInOrderOfTimeAndNotBefore) {
  std::deque<test_timer> timers;
  timer_heap heap;
  random_source random(1);
  for (int i = 0; i < 1000; ++i) {
    heap.add(timers.emplace_back(static_cast<os::nanos>(1 + random.below(500))));
  }
  test_harvest out;
  os::nanos last = 0;
  for (os::nanos now = 0; now <= 500; now += 7) {
    out.fired.clear();
    heap.run_expired(now, out);
    for (const timer* const t : out.fired) {
      EXPECT_LE(last, t->when);
      EXPECT_LE(t->when, now);
      last = t->when;
    }
    EXPECT_GT(heap.next(), now);
  }
  heap.run_expired(500, out);
  for (const test_timer& t : timers) EXPECT_EQ(t.rings, 1);
  EXPECT_EQ(heap.pending(), 0u);
}

TEST(TimerHeap, SaysWhichIsTheEarliest) {
  test_timer five(5), three(3), four(4);
  timer_heap heap;
  EXPECT_EQ(heap.add(five), timer_heap::addition::earliest);
  EXPECT_EQ(heap.add(three), timer_heap::addition::earliest);
  EXPECT_EQ(heap.add(four), timer_heap::addition::later);
  EXPECT_EQ(heap.next(), 3);
}

TEST(TimerHeap, ACancelledTimerDoesNotFire) {
  timer_heap heap;
  test_timer a(1), b(2);
  heap.add(a);
  heap.add(b);
  EXPECT_TRUE(a.cancel());
  EXPECT_FALSE(a.cancel());
  test_harvest out;
  EXPECT_EQ(heap.run_expired(10, out), 1u);
  EXPECT_EQ(a.rings, 0);
  EXPECT_EQ(b.rings, 1);
  EXPECT_FALSE(b.cancel());
}

TEST(TimerHeap, ACancelledTimerCanBeSetAgain) {
  timer_heap heap;
  test_timer t(1);
  for (int i = 1; i <= 1000; ++i) {
    t.when = i;
    heap.add(t);
    if (i != 1000) {
      EXPECT_TRUE(t.cancel());
    }
  }
  test_harvest out;
  EXPECT_EQ(heap.run_expired(1000, out), 1u);
  EXPECT_EQ(t.rings, 1);
}

TEST(TimerHeap, APeriodicTimerComesAgain) {
  timer_heap heap;
  test_timer t(10, 10);
  heap.add(t);
  test_harvest out;
  EXPECT_EQ(heap.run_expired(35, out), 3u);
  EXPECT_EQ(heap.next(), 40);
  EXPECT_TRUE(t.cancel());
  EXPECT_EQ(heap.run_expired(100, out), 0u);
}

TEST(TimerHeap, NothingIsSetWhenNobodyAgrees) {
  timer_heap heap;
  test_timer t(1);
  EXPECT_EQ(heap.add(
                t, [](void*) { return false; }, nullptr),
            timer_heap::addition::refused);
  test_harvest out;
  EXPECT_EQ(heap.run_expired(10, out), 0u);
  EXPECT_EQ(t.rings, 0);
}

TEST(TimerHeap, NothingFiresWhileItIsPaused) {
  test_timer t(1);
  timer_heap heap;
  heap.add(t);
  heap.pause();
  test_harvest out;
  EXPECT_EQ(heap.run_expired(10, out), 0u);
  EXPECT_EQ(heap.next(), os::k_never);
  heap.resume();
  EXPECT_EQ(heap.next(), 1);
  EXPECT_EQ(heap.run_expired(10, out), 1u);
}

TEST(TimerHeap, CancelledOnesAreSweptOut) {
  std::deque<test_timer> timers;
  timer_heap heap;
  for (int i = 0; i < 10'000; ++i) {
    heap.add(timers.emplace_back(1'000'000 + i));
    if (i % 10 != 0) {
      EXPECT_TRUE(timers.back().cancel());
    }
  }
  EXPECT_EQ(heap.pending(), 1000u);
  test_harvest out;
  EXPECT_EQ(heap.run_expired(2'000'000, out), 1000u);
}

TEST(TimerHeap, AbsorbsAnother) {
  std::deque<test_timer> timers;
  timer_heap from, to;
  for (int i = 0; i < 1000; ++i) {
    (i % 3 == 0 ? to : from).add(timers.emplace_back((i * 7919) % 1000));
  }
  EXPECT_TRUE(timers[1].cancel());
  to.absorb(from);
  EXPECT_TRUE(timers[2].cancel());
  EXPECT_EQ(from.next(), os::k_never);
  test_harvest out;
  EXPECT_EQ(to.run_expired(1000, out), 998u);
  test_timer more(5);
  from.add(more);  // still of use
  EXPECT_EQ(from.run_expired(5, out), 1u);
}

TEST(TimerHeap, LeavesItsTimersIdleWhenItGoes) {
  test_timer t(1);
  static int farewells;
  farewells = 0;
  struct owned : timer {
    owned() : timer(test_timer::ring, [](timer&) { ++farewells; }) { when = 1; }
  } other;
  {
    timer_heap heap;
    heap.add(t);
    heap.add(other);
  }
  EXPECT_FALSE(t.cancel());
  EXPECT_EQ(farewells, 1);
}

// Against a model: random additions, cancellations and times.
TEST(TimerHeap, DoesWhatAMapDoes) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    random_source random(seed);
    std::deque<test_timer> timers(300);
    timer_heap heap;
    std::multimap<os::nanos, test_timer*> model;
    os::nanos now = 0;
    const auto forget = [&](test_timer& t) {
      for (auto i = model.begin(); i != model.end(); ++i) {
        if (i->second == &t) {
          model.erase(i);
          return true;
        }
      }
      return false;
    };
    for (int step = 0; step < 5000; ++step) {
      test_timer& t = timers[random.below(300)];
      if (random.below(3) == 0) {
        now += random.below(20);
        test_harvest out;
        heap.run_expired(now, out);
        for (timer* const fired : out.fired) {
          ASSERT_FALSE(model.empty());
          ASSERT_EQ(model.begin()->first, fired->when);
          ASSERT_TRUE(forget(*static_cast<test_timer*>(fired)));
        }
        ASSERT_TRUE(model.empty() || model.begin()->first > now);
      } else if (t.pending) {
        ASSERT_TRUE(t.cancel());
        ASSERT_TRUE(forget(t));
      } else {
        t.when = now + random.below(200);
        heap.add(t);
        model.emplace(t.when, &t);
      }
    }
  }
}

// One thread fires, each of the others adds and cancels its own. Every timer that was not
// cancelled rings once.
TEST(TimerHeap, CancelRacesWithFiring) {
  timer_heap heaps[2];
  std::atomic<bool> stop{false};
  std::thread firing([&] {
    test_harvest out;
    while (!stop) {
      for (timer_heap& heap : heaps) heap.run_expired(os::now(), out);
      heaps[0].absorb(heaps[1]);
      out.fired.clear();
    }
  });
  std::vector<std::thread> owners;
  for (int i = 0; i < 3; ++i) {
    owners.emplace_back([&, i] {
      random_source random(static_cast<std::uint64_t>(i) + 1);
      int cancelled = 0, added = 0;
      for (int round = 0; round < 20'000; ++round) {
        test_timer t(os::now() + random.below(3'000));
        heaps[random.below(2)].add(t);
        ++added;
        for (std::uint32_t pause = random.below(300); pause != 0; --pause) cpu_relax();
        if (t.cancel()) {
          ++cancelled;
          ASSERT_EQ(t.rings, 0);
        } else {
          ASSERT_EQ(t.rings, 1);
        }
      }
      EXPECT_GT(added, cancelled);
    });
  }
  for (std::thread& owner : owners) owner.join();
  stop = true;
  firing.join();
}

}  // namespace
}  // namespace magpie::rt
