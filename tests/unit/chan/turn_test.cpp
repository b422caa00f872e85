// Channels of elements whose move may throw: nothing is lost, and the partner still waits.
#include <magpie/channel.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <vector>

#include <magpie/async.h>
#include <magpie/runtime.h>
#include <magpie/select.h>

#include "chan/chan.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;

// Throws when it is moved while it is told to; what was to be moved is untouched then.
struct touchy {
  static inline std::atomic<int> throws_left{0};
  static inline std::atomic<int> alive{0};
  static inline std::function<void()> while_moving;
  int value = 0;

  touchy() { ++alive; }
  explicit touchy(int v) : value(v) { ++alive; }
  touchy(touchy&& other) : value(other.value) {
    other.leave();
    ++alive;
  }
  touchy& operator=(touchy&& other) {
    other.leave();
    value = other.value;
    return *this;
  }
  ~touchy() { --alive; }

  void leave() {
    if (while_moving) while_moving();
    int left = throws_left;
    while (left > 0 && !throws_left.compare_exchange_weak(left, left - 1)) {
    }
    if (left > 0) throw std::runtime_error("touchy");
  }
};
static_assert(detail::element_kind_of<touchy> == detail::element_kind::throwing);

template <class T>
int waiting_in(const channel<T>& c) {
  const rt::entry inside;
  const rt::object_guard held(c.core()->lock);
  int n = 0;
  for (const rt::wait_node* node = c.core()->senders.first; node; node = node->next) ++n;
  for (const rt::wait_node* node = c.core()->receivers.first; node; node = node->next) ++n;
  return n;
}

template <class T>
void wait_for_waiting(const channel<T>& c, int count) {
  while (waiting_in(c) != count) this_goroutine::yield();
}

class Touchy : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(touchy::throws_left, 0);
    touchy::while_moving = nullptr;
    EXPECT_EQ(touchy::alive, 0);
  }
};

TEST_F(Touchy, GoesThroughWhenNothingThrows) {
  run([] {
    for (const int capacity : {0, 1, 3}) {
      channel<touchy> c(capacity);
      go([=] {
        for (int i = 0; i < 100; ++i) c.send(touchy(i));
        c.close();
      });
      int next = 0;
      for (const touchy& t : c) EXPECT_EQ(t.value, next++);
      EXPECT_EQ(next, 100);
    }
  });
}

// Whoever gets the value may drop the handle by which the other one is still inside.
TEST_F(Touchy, ACallKeepsTheChannel) {
  run([] {
    const channel<touchy> c;
    const auto handles = [&c] { return c.core()->references.load(); };
    const auto before = handles();
    future<void> sends = async([&c] { c.send(touchy(1)); });
    while (waiting_in(c) == 0) this_goroutine::yield();
    EXPECT_EQ(handles(), before + 1);
    EXPECT_TRUE(c.receive());
    sends.get();
    EXPECT_EQ(handles(), before);
  });
}

TEST_F(Touchy, ASenderThatThrowsLeavesTheReceiverWaiting) {
  run([] {
    channel<touchy> c;
    future<int> receives = async([=] { return c.receive()->value; });
    wait_for_waiting(c, 1);
    touchy value(5);
    touchy::throws_left = 1;
    EXPECT_THROW(c.try_send(value), std::runtime_error);
    wait_for_waiting(c, 1);
    EXPECT_TRUE(c.try_send(value));
    EXPECT_EQ(receives.get(), 5);
  });
}

TEST_F(Touchy, AReceiverThatThrowsLeavesTheSenderWaiting) {
  run([] {
    channel<touchy> c;
    future<void> sends = async([=] { c.send(touchy(6)); });
    wait_for_waiting(c, 1);
    touchy out;
    touchy::throws_left = 1;
    EXPECT_THROW(c.try_receive(out), std::runtime_error);
    wait_for_waiting(c, 1);
    EXPECT_FALSE(sends.ready());
    EXPECT_EQ(c.receive()->value, 6);
    sends.get();
  });
}

// Who asks right afterwards, without waiting for anybody, finds it there.
TEST_F(Touchy, APartnerIsBackAtOnce) {
  runtime r({.procs = 1});
  r.run([] {
    channel<touchy> c;
    future<void> sends = async([=] { c.send(touchy(1)); });
    wait_for_waiting(c, 1);
    touchy value;
    touchy::throws_left = 1;
    EXPECT_THROW(c.try_receive(value), std::runtime_error);
    EXPECT_EQ(c.try_receive(value), channel_result::ok);
    EXPECT_EQ(value.value, 1);
    sends.get();

    future<int> receives = async([=] {
      touchy got;
      EXPECT_EQ(c.receive_for(got, 1h), channel_result::ok);
      return got.value;
    });
    wait_for_waiting(c, 1);
    touchy::throws_left = 1;
    EXPECT_THROW(c.try_send(value), std::runtime_error);
    EXPECT_TRUE(c.try_send(value));
    EXPECT_EQ(receives.get(), 1);
  });
}

TEST_F(Touchy, APartnerKeepsItsPlace) {
  runtime r({.procs = 1});
  r.run([] {
    channel<touchy> c;
    std::vector<future<void>> sends;
    for (int i = 1; i <= 3; ++i) {
      sends.push_back(async([=] { c.send(touchy(i)); }));
      wait_for_waiting(c, i);
    }
    touchy out;
    touchy::throws_left = 1;
    EXPECT_THROW(c.try_receive(out), std::runtime_error);
    for (int i = 1; i <= 3; ++i) EXPECT_EQ(c.receive()->value, i);
    for (auto& one : sends) one.get();
  });
}

// Its time is up while it is on its way back.
TEST_F(Touchy, APartnerWhoseTimeIsUpMeanwhileLeaves) {
  runtime r({.procs = 1});
  r.run([] {
    channel<touchy> c;
    static constexpr auto k_time = 500ms;  // so long that a busy machine gets to the receiver
    future<bool> sends = async([=] {
      touchy value(1);
      return c.send_for(value, k_time);
    });
    wait_for_waiting(c, 1);
    touchy out;
    touchy::while_moving = [] {
      this_goroutine::sleep_for(k_time + 10ms);
      touchy::throws_left = 1;
    };
    EXPECT_THROW(c.try_receive(out), std::runtime_error);
    touchy::while_moving = nullptr;
    EXPECT_FALSE(sends.get());
    EXPECT_EQ(c.try_receive(out), channel_result::would_block);
    EXPECT_EQ(waiting_in(c), 0);
  });
}

// One that waited for several things goes on with another of them.
TEST_F(Touchy, ASelectThatGoesElsewhereAfterwardsLeavesNoTrace) {
  runtime r({.procs = 1});
  r.run([] {
    channel<touchy> c;
    channel<int> other(1);
    future<int> selects =
        async([=] { return select(on_receive(c, [](auto) {}), on_receive(other, [](auto) {})); });
    wait_for_waiting(c, 1);
    touchy value(1);
    touchy::throws_left = 1;
    EXPECT_THROW(c.try_send(value), std::runtime_error);
    other.send(1);
    EXPECT_EQ(selects.get(), 1);
    EXPECT_FALSE(c.try_send(value));
    EXPECT_EQ(select(on_send(c, touchy(2), [] {}), on_receive(other, [](auto) {}),
                     on_timeout(1ms, [] {})),
              2);
    EXPECT_EQ(waiting_in(c), 0);
  });
}

TEST_F(Touchy, TheBufferIsAsBeforeWhenAMoveThrows) {
  run([] {
    channel<touchy> c(2);
    touchy value(1);
    touchy::throws_left = 1;
    EXPECT_THROW(c.try_send(value), std::runtime_error);
    EXPECT_EQ(c.size(), 0u);
    EXPECT_TRUE(c.try_send(value));
    EXPECT_TRUE(c.try_send(touchy(2)));
    touchy out;
    touchy::throws_left = 1;
    EXPECT_THROW(c.try_receive(out), std::runtime_error);
    EXPECT_EQ(c.size(), 2u);
    EXPECT_EQ(c.receive()->value, 1);
    EXPECT_EQ(c.receive()->value, 2);
  });
}

// The receiver lets the sender in, who moves its value itself and sees its own exception.
TEST_F(Touchy, ASenderThatWaitedForRoomSeesItsOwnException) {
  run([] {
    channel<touchy> c(1);
    c.send(touchy(1));
    std::atomic<bool> thrown{false};
    future<void> sends = async([&] {
      touchy value(2);
      try {
        c.send_for(value, 1h);
      } catch (const std::runtime_error&) {
        thrown = true;
      }
    });
    wait_for_waiting(c, 1);
    EXPECT_EQ(c.receive()->value, 1);  // moved before the next line
    sends.get();
    EXPECT_FALSE(thrown);
    EXPECT_EQ(c.receive()->value, 2);

    c.send(touchy(3));
    future<void> throws = async([&] {
      touchy value(4);
      EXPECT_THROW(c.send_for(value, 1h), std::runtime_error);
    });
    wait_for_waiting(c, 1);
    // The first move is the receiver's; only the second one throws.
    int moves = 0;
    touchy::while_moving = [&moves] { touchy::throws_left = ++moves == 2 ? 1 : 0; };
    touchy out;
    EXPECT_EQ(c.try_receive(out), channel_result::ok);
    EXPECT_EQ(out.value, 3);
    throws.get();
    touchy::while_moving = nullptr;
    EXPECT_EQ(c.size(), 0u);
    EXPECT_TRUE(c.try_send(touchy(5)));
    EXPECT_EQ(c.receive()->value, 5);
  });
}

// A move may do anything, also wait: it holds no lock.
TEST_F(Touchy, AMoveMayUseTheRuntime) {
  run([] {
    channel<touchy> c(1);
    touchy::while_moving = [] { async([] { this_goroutine::yield(); }).get(); };
    future<void> sends = async([=] {
      for (int i = 0; i < 20; ++i) c.send(touchy(i));
      c.close();
    });
    int next = 0;
    for (const touchy& t : c) EXPECT_EQ(t.value, next++);
    EXPECT_EQ(next, 20);
    sends.get();
  });
}

TEST_F(Touchy, TimesOut) {
  run([] {
    channel<touchy> c;
    touchy value(1);
    EXPECT_FALSE(c.send_for(value, 2ms));
    EXPECT_EQ(c.receive_for(value, 2ms), channel_result::would_block);
    EXPECT_FALSE(c.try_send(value));
    EXPECT_EQ(waiting_in(c), 0);
  });
}

TEST_F(Touchy, CloseWakesBothSides) {
  run([] {
    channel<touchy> c;
    future<bool> receives = async([=] { return c.receive().has_value(); });
    wait_for_waiting(c, 1);
    c.close();
    EXPECT_FALSE(receives.get());
    channel<touchy> full(1);
    full.send(touchy(1));
    future<void> sends = async([=] { full.send(touchy(2)); });
    wait_for_waiting(full, 1);
    full.close();
    EXPECT_THROW(sends.get(), closed_channel);
    EXPECT_THROW(full.close(), closed_channel);
    EXPECT_THROW(full.send(touchy(3)), closed_channel);
  });
}

TEST_F(Touchy, SelectsAmongThem) {
  run([] {
    channel<touchy> a, b(1);
    channel<int> plain;
    int got = 0;
    const auto take = [&](std::optional<touchy> t) { got = t->value; };
    b.send(touchy(1));
    EXPECT_EQ(select(on_receive(a, take), on_receive(plain, [](auto) {}), on_receive(b, take)), 2);
    EXPECT_EQ(got, 1);
    // One that waits, is met by a sender whose move throws, and waits on.
    future<void> selects =
        async([&] { EXPECT_EQ(select(on_receive(a, take), on_receive(plain, [](auto) {})), 0); });
    wait_for_waiting(a, 1);
    touchy value(2);
    touchy::throws_left = 1;
    EXPECT_THROW(a.try_send(value), std::runtime_error);
    wait_for_waiting(a, 1);
    EXPECT_TRUE(a.try_send(value));
    selects.get();
    EXPECT_EQ(got, 2);
    EXPECT_EQ(waiting_in(plain), 0);
    // One that waits to send, and is let into the buffer.
    b.send(touchy(3));
    future<void> sends =
        async([&] { EXPECT_EQ(select(on_send(b, touchy(4), [] {}), on_receive(a, take)), 0); });
    wait_for_waiting(b, 1);
    EXPECT_EQ(b.receive()->value, 3);
    sends.get();
    EXPECT_EQ(b.receive()->value, 4);
    EXPECT_EQ(select(on_receive(b, take), on_receive(a, take), otherwise([] {})), 2);
  });
}

}  // namespace
}  // namespace magpie
