// An object may be destroyed by the first who is back, while others are still on their way out of
// the call that released it, or that it released. Most of this shows under the sanitizers only.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

namespace magpie {
namespace {

using namespace std::chrono_literals;

constexpr int k_waiters = 5;

// Starts goroutines, and returns when all of them have parked.
template <class Wait>
void start_waiters(wait_group& all, Wait wait) {
  const auto parks = [] { return runtime::current().read_stats().parks; };
  const auto before = parks();
  for (int i = 0; i < k_waiters; ++i) all.go([wait, i] { wait(i); });
  while (parks() < before + k_waiters) this_goroutine::yield();
}

template <class Object, class Release, class Wait>
void destroyed_by_the_first_one_back(Object* (*make)(), Release release, Wait wait) {
  for (const int ps : {1, 2, 4}) {
    runtime r({.procs = ps});
    r.run([&] {
      for (int round = 0; round < 200; ++round) {
        Object* const object = make();
        std::atomic<bool> is_first{true};
        wait_group all;
        start_waiters(all, [&, object](int i) {
          wait(*object, i);
          if (is_first.exchange(false)) delete object;
        });
        release(*object);
        all.wait();
        ASSERT_FALSE(is_first);
      }
    });
  }
}

TEST(Lifetime, AWaitGroupMayGoWithTheFirstOneBack) {
  destroyed_by_the_first_one_back<wait_group>(
      [] {
        auto* const w = new wait_group;
        w->add(1);
        return w;
      },
      [](wait_group& w) { w.done(); }, [](wait_group& w, int) { w.wait(); });
}

TEST(Lifetime, ALatchMayGoWithTheFirstOneBack) {
  destroyed_by_the_first_one_back<latch>([] { return new latch(1); },
                                         [](latch& l) { l.count_down(); },
                                         [](latch& l, int) { l.wait(); });
}

TEST(Lifetime, ABarrierMayGoWithTheFirstOneBack) {
  destroyed_by_the_first_one_back<barrier<>>([] { return new barrier<>(k_waiters + 1); },
                                             [](barrier<>& b) { (void)b.arrive(); },
                                             [](barrier<>& b, int) { b.arrive_and_wait(); });
}

TEST(Lifetime, AnEventMayGoWithTheFirstOneBack) {
  destroyed_by_the_first_one_back<event>([] { return new event; }, [](event& e) { e.set(); },
                                         [](event& e, int i) {
                                           if (i % 2 == 0) {
                                             e.wait();
                                           } else {
                                             EXPECT_TRUE(e.wait_for(1h));
                                           }
                                         });
}

TEST(Lifetime, AOnceMayGoWithTheFirstOneBack) {
  for (const int ps : {1, 2, 4}) {
    runtime r({.procs = ps});
    r.run([&] {
      for (int round = 0; round < 200; ++round) {
        auto* const object = new once;
        event go_on;
        std::atomic<bool> is_first{true};
        wait_group all;
        // One parks in the function, the others wait for it.
        start_waiters(all, [&, object](int) {
          object->call([&] { go_on.wait(); });
          if (is_first.exchange(false)) delete object;
        });
        go_on.set();
        all.wait();
      }
    });
  }
}

// Somebody who does not wait but looks may destroy it, too.
template <class Object, class Release, class Wait, class Look>
void destroyed_by_one_who_looks(Object* (*make)(), Release release, Wait wait, Look is_over) {
  for (const int ps : {1, 2}) {
    runtime r({.procs = ps});
    r.run([&] {
      for (int round = 0; round < 100; ++round) {
        Object* const object = make();
        wait_group all;
        start_waiters(all, [=](int) { wait(*object); });
        std::thread looks([=] {
          while (!is_over(*object)) {
          }
          delete object;
        });
        release(*object);
        blocking([&] { looks.join(); });
        all.wait();
      }
    });
  }
}

TEST(Lifetime, MayGoWithOneWhoLooks) {
  destroyed_by_one_who_looks<event>([] { return new event; }, [](event& e) { e.set(); },
                                    [](event& e) { e.wait(); },
                                    [](event& e) { return e.is_set(); });
  destroyed_by_one_who_looks<latch>([] { return new latch(1); }, [](latch& l) { l.count_down(); },
                                    [](latch& l) { l.wait(); },
                                    [](latch& l) { return l.try_wait(); });
  destroyed_by_one_who_looks<wait_group>(
      [] {
        auto* const w = new wait_group;
        w->add(1);
        return w;
      },
      [](wait_group& w) { w.done(); }, [](wait_group& w) { w.wait(); },
      [](wait_group& w) { return w.wait(), true; });
}

TEST(Lifetime, AOnceMayGoWithOneWhoLooks) {
  for (const int ps : {1, 2}) {
    runtime r({.procs = ps});
    r.run([&] {
      for (int round = 0; round < 100; ++round) {
        auto* const object = new once;
        event go_on;
        wait_group all;
        start_waiters(all, [&go_on, object](int) { object->call([&] { go_on.wait(); }); });
        std::thread looks([object] {
          while (!object->done()) {
          }
          delete object;
        });
        go_on.set();
        all.wait();
        blocking([&] { looks.join(); });
      }
    });
  }
}

// Those whose time is up just then have not been notified, but do not need it any more.
TEST(Lifetime, AConditionVariableMayGoRightAfterNotifyAll) {
  for (const int ps : {1, 2, 4}) {
    runtime r({.procs = ps});
    r.run([&] {
      for (int round = 0; round < 200; ++round) {
        mutex guard;
        auto cv = std::make_unique<condition_variable>();
        int waiting = 0;
        const auto wait = [&](int i) {
          std::unique_lock hold(guard);
          ++waiting;
          if (i == 0) {
            cv->wait(hold);
          } else {
            cv->wait_for(hold, 50us * i);
          }
        };
        wait_group all;
        std::thread outside([&] { wait(3); });
        for (int i = 0; i < k_waiters; ++i) all.go([&wait, i] { wait(i); });
        for (bool all_wait = false; !all_wait;) {
          this_goroutine::yield();
          const std::scoped_lock hold(guard);
          all_wait = waiting == k_waiters + 1;
        }
        // Some are notified, some run out of time meanwhile.
        const auto until = clock::now() + std::chrono::microseconds(round);
        while (clock::now() < until) {
        }
        cv->notify_all();
        cv.reset();
        all.wait();
        blocking([&] { outside.join(); });
      }
    });
  }
}

// The same with an event: one who was released destroys it.
TEST(Lifetime, AnEventMayGoWhileTimesRunOut) {
  for (const int ps : {1, 2, 4}) {
    runtime r({.procs = ps});
    r.run([&] {
      for (int round = 0; round < 200; ++round) {
        auto* const object = new event;
        wait_group all;
        start_waiters(all, [object](int i) {
          if (i == 0) {
            object->wait();
            delete object;
          } else {
            (void)object->wait_for(50us * i);
          }
        });
        const auto until = clock::now() + std::chrono::microseconds(round);
        while (clock::now() < until) {
        }
        object->set();
        all.wait();
      }
    });
  }
}

// ---- Channels: the handle by which others are inside may go -----------------------------------

TEST(Lifetime, AChannelMayGoWithTheFirstOneBack) {
  destroyed_by_the_first_one_back<channel<int>>([] { return new channel<int>; },
                                                [](channel<int>& c) { c.close(); },
                                                [](channel<int>& c, int) { c.receive(); });
}

TEST(Lifetime, AChannelMayGoWithOneWhoLooks) {
  destroyed_by_one_who_looks<channel<int>>(
      [] { return new channel<int>; }, [](channel<int>& c) { c.close(); },
      [](channel<int>& c) { c.receive(); },
      [](channel<int>& c) {
        int nothing;
        return c.try_receive(nothing) == channel_result::closed;
      });
}

// Those who wait are woken in batches: when the last batch is a whole one, there is another look.
TEST(Lifetime, AChannelOfManyWaitersMayGo) {
  constexpr int k_two_batches = 256;
  runtime r({.procs = 4});
  r.run([] {
    for (int round = 0; round < 20; ++round) {
      auto* const c = new channel<int>;
      std::atomic<int> left{k_two_batches};
      wait_group all;
      const auto parks = [] { return runtime::current().read_stats().parks; };
      const auto before = parks();
      for (int i = 0; i < k_two_batches; ++i) {
        all.go([&left, c] {
          c->receive();
          if (--left == 0) delete c;
        });
      }
      while (parks() < before + k_two_batches) this_goroutine::yield();
      c->close();
      all.wait();
    }
  });
}

// Elements whose move may throw take another way.
struct wary {
  wary() = default;
  wary(wary&& other) noexcept(false) : value(other.value) {}
  wary& operator=(wary&& other) noexcept(false) {
    value = other.value;
    return *this;
  }
  int value = 0;
};

TEST(Lifetime, AChannelOfWaryElementsMayGoWithTheReceiver) {
  for (const int ps : {1, 2, 4}) {
    runtime r({.procs = ps});
    r.run([] {
      for (int round = 0; round < 500; ++round) {
        auto* const c = new channel<wary>;
        wait_group all;
        all.go([c] {
          EXPECT_TRUE(c->receive());
          delete c;
        });
        if (round % 2 == 0) this_goroutine::yield();
        c->send({});
        all.wait();
      }
    });
  }
}

}  // namespace
}  // namespace magpie
