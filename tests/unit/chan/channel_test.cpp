// Channels: what every operation does in every state of the channel.
#include <magpie/channel.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <magpie/async.h>
#include <magpie/runtime.h>

#include "chan/chan.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

static_assert(std::is_convertible_v<channel<int>, sender<int>>);
static_assert(std::is_convertible_v<channel<int>, receiver<int>>);
static_assert(!std::is_convertible_v<sender<int>, receiver<int>>);
static_assert(!std::is_convertible_v<int, channel<int>>);
static_assert(std::is_convertible_v<std::nullptr_t, channel<int>>);
static_assert(std::is_nothrow_move_constructible_v<channel<int>>);
static_assert(std::input_iterator<channel<int>::iterator>);
static_assert(std::is_base_of_v<std::logic_error, closed_channel>);

// Every test twice: asked by a plain thread, and by a goroutine.
class Channel : public ::testing::TestWithParam<bool> {
 protected:
  template <class F>
  void as_asked(F f) {
    if (GetParam()) {
      run(f);
    } else {
      f();
    }
  }
};
INSTANTIATE_TEST_SUITE_P(AskedBy, Channel, ::testing::Bool(), [](const auto& asked) {
  return std::string(asked.param ? "Goroutine" : "PlainThread");
});

TEST_P(Channel, HandsAValueOverWithoutABuffer) {
  as_asked([] {
    channel<int> c;
    future<void> sends = async([=] { c.send(42); });
    EXPECT_EQ(c.receive(), 42);
    sends.get();
    EXPECT_EQ(c.size(), 0u);
    EXPECT_EQ(c.capacity(), 0u);
  });
}

TEST_P(Channel, KeepsAsManyAsItsCapacityInOrder) {
  as_asked([] {
    channel<int> c(3);
    for (int i = 1; i <= 3; ++i) c.send(i);
    EXPECT_EQ(c.size(), 3u);
    EXPECT_EQ(c.capacity(), 3u);
    int four = 4;
    EXPECT_FALSE(c.try_send(four));
    EXPECT_EQ(c.receive(), 1);
    EXPECT_TRUE(c.try_send(four));
    EXPECT_EQ(c.receive(), 2);
    EXPECT_EQ(c.receive(), 3);
    EXPECT_EQ(c.receive(), 4);
    EXPECT_EQ(c.size(), 0u);
  });
}

// How many wait in the channel, to send or to receive.
int waiting_in(detail::channel_core& c) {
  const rt::entry inside;
  const rt::object_guard held(c.lock);
  int n = 0;
  for (const rt::wait_node* node = c.senders.first; node != nullptr; node = node->next) ++n;
  for (const rt::wait_node* node = c.receivers.first; node != nullptr; node = node->next) ++n;
  return n;
}

TEST_P(Channel, ThoseWhoWaitAreServedInOrder) {
  as_asked([] {
    channel<int> c(1);
    c.send(0);
    std::vector<future<void>> senders;
    for (int i = 1; i <= 20; ++i) {
      senders.push_back(async([=] { c.send(i); }));
      while (waiting_in(*c.core()) != i) this_goroutine::yield();
    }
    for (int i = 0; i <= 20; ++i) EXPECT_EQ(c.receive(), i);
    for (auto& one : senders) one.get();

    std::vector<future<std::optional<int>>> receivers;
    for (int i = 1; i <= 20; ++i) {
      receivers.push_back(async([=] { return c.receive(); }));
      while (waiting_in(*c.core()) != i) this_goroutine::yield();
    }
    for (int i = 0; i < 20; ++i) c.send(i);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(receivers[static_cast<std::size_t>(i)].get(), i);
  });
}

TEST_P(Channel, TriesWithoutWaiting) {
  as_asked([] {
    channel<int> c;
    int value = 1;
    EXPECT_FALSE(c.try_send(value));
    EXPECT_EQ(value, 1);
    EXPECT_FALSE(c.try_send(2));
    EXPECT_EQ(c.try_receive(value), channel_result::would_block);
    EXPECT_EQ(value, 1);

    future<std::optional<int>> receives = async([=] { return c.receive(); });
    while (!c.try_send(3)) this_goroutine::yield();
    EXPECT_EQ(receives.get(), 3);

    future<void> sends = async([=] { c.send(4); });
    while (c.try_receive(value) != channel_result::ok) this_goroutine::yield();
    EXPECT_EQ(value, 4);
    sends.get();
  });
}

TEST_P(Channel, AClosedOneIsDrainedThenEmptyForEver) {
  as_asked([] {
    channel<int> c(2);
    c.send(1);
    c.send(2);
    c.close();
    EXPECT_EQ(c.receive(), 1);
    int value = 0;
    EXPECT_EQ(c.try_receive(value), channel_result::ok);
    EXPECT_EQ(value, 2);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(c.receive(), std::nullopt);
      EXPECT_EQ(c.try_receive(value), channel_result::closed);
      EXPECT_EQ(c.receive_for(value, 1h), channel_result::closed);
      EXPECT_EQ(value, 2);
    }
  });
}

TEST_P(Channel, SendingToAClosedOneThrows) {
  as_asked([] {
    for (const int capacity : {0, 1}) {
      channel<std::string> c(capacity);
      c.close();
      std::string value = "kept";
      EXPECT_THROW(c.send("x"), closed_channel);
      EXPECT_THROW(c.try_send(value), closed_channel);
      EXPECT_THROW(c.send_for(value, 1h), closed_channel);
      EXPECT_THROW(c.send_for(value, 0s), closed_channel);
      EXPECT_EQ(value, "kept");
      EXPECT_THROW(c.close(), closed_channel);
    }
    EXPECT_THROW(channel<int>(nullptr).close(), closed_channel);
  });
}

TEST_P(Channel, ExceptionsSayWhatGoSays) {
  as_asked([] {
    const auto text = [](auto f) -> std::string {
      try {
        f();
      } catch (const closed_channel& e) {
        return e.what();
      }
      return "nothing";
    };
    channel<int> c;
    c.close();
    EXPECT_EQ(text([&] { c.send(1); }), "send on closed channel");
    EXPECT_EQ(text([&] { c.close(); }), "close of closed channel");
    EXPECT_EQ(text([] { channel<int>(nullptr).close(); }), "close of nil channel");
  });
}

TEST_P(Channel, CloseWakesAllReceivers) {
  as_asked([] {
    channel<int> c;
    std::vector<future<std::optional<int>>> all;
    for (int i = 0; i < 300; ++i) all.push_back(async([=] { return c.receive(); }));
    while (waiting_in(*c.core()) != 300) this_goroutine::yield();
    c.close();
    for (auto& one : all) EXPECT_EQ(one.get(), std::nullopt);
  });
}

TEST_P(Channel, CloseMakesSendersThrowThatWait) {
  as_asked([] {
    channel<int> c(1);
    c.send(0);
    std::vector<future<void>> all;
    for (int i = 0; i < 300; ++i) all.push_back(async([=] { c.send(1); }));
    while (waiting_in(*c.core()) != 300) this_goroutine::yield();
    c.close();
    for (auto& one : all) EXPECT_THROW(one.get(), closed_channel);
    EXPECT_EQ(c.receive(), 0);
    EXPECT_EQ(c.receive(), std::nullopt);
  });
}

TEST_P(Channel, TimedFormsGiveUp) {
  as_asked([] {
    channel<int> c;
    int value = 7;
    const auto start = clock::now();
    EXPECT_EQ(c.receive_for(value, 5ms), channel_result::would_block);
    EXPECT_GE(clock::now() - start, 5ms);
    EXPECT_FALSE(c.send_for(value, 5ms));
    EXPECT_GE(clock::now() - start, 10ms);
    EXPECT_EQ(value, 7);
    EXPECT_EQ(c.receive_for(value, -1s), channel_result::would_block);
    EXPECT_FALSE(c.send_for(value, 0s));
    // Whoever gave up has left nothing behind.
    EXPECT_FALSE(c.try_send(value));
    EXPECT_EQ(c.try_receive(value), channel_result::would_block);
    channel<int> nil(nullptr);
    EXPECT_EQ(nil.receive_for(value, 1ms), channel_result::would_block);
    EXPECT_FALSE(nil.send_for(value, 1ms));
  });
}

TEST_P(Channel, TimedFormsSucceed) {
  as_asked([] {
    channel<int> c;
    int value = 0;
    future<void> sends = async([=] { c.send(1); });
    EXPECT_EQ(c.receive_for(value, 1h), channel_result::ok);
    EXPECT_EQ(value, 1);
    sends.get();
    future<std::optional<int>> receives = async([=] { return c.receive(); });
    value = 2;
    EXPECT_TRUE(c.send_for(value, std::chrono::hours::max()));
    EXPECT_EQ(receives.get(), 2);
    future<void> closes = async([=] { c.close(); });
    EXPECT_EQ(c.receive_for(value, no_timeout), channel_result::closed);
    closes.get();
  });
}

TEST_P(Channel, ARangeEndsWhenTheChannelIsClosedAndDrained) {
  as_asked([] {
    channel<int> c(2);
    future<void> sends = async([=] {
      for (int i = 0; i < 10; ++i) c.send(i);
      c.close();
    });
    std::vector<int> got;
    for (const int value : receiver<int>(c)) got.push_back(value);
    EXPECT_THAT(got, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    for (const int value : c) FAIL() << value;
    sends.get();
  });
}

TEST_P(Channel, CarriesWhatCanOnlyBeMoved) {
  as_asked([] {
    channel<std::unique_ptr<int>> c(2);
    c.send(std::make_unique<int>(1));
    auto second = std::make_unique<int>(2);
    EXPECT_TRUE(c.try_send(second));
    EXPECT_EQ(second, nullptr);
    auto third = std::make_unique<int>(3);
    EXPECT_FALSE(c.try_send(third));
    EXPECT_EQ(*third, 3);
    EXPECT_FALSE(c.try_send(std::move(third)));
    ASSERT_NE(third, nullptr);
    EXPECT_EQ(**c.receive(), 1);
    std::unique_ptr<int> out;
    EXPECT_EQ(c.try_receive(out), channel_result::ok);
    EXPECT_EQ(*out, 2);
  });
}

struct counted {
  static inline std::atomic<int> alive{0};
  int value;
  explicit counted(int v) : value(v) { ++alive; }
  counted(counted&& other) noexcept : value(other.value) { ++alive; }
  counted(const counted&) = delete;
  counted& operator=(counted&&) = delete;
  ~counted() { --alive; }
};

TEST_P(Channel, DestroysWhatNobodyReceived) {
  as_asked([] {
    {
      channel<counted> c(5);
      for (int i = 0; i < 4; ++i) c.send(counted(i));
      EXPECT_EQ(c.receive()->value, 0);
      counted out(0);
      EXPECT_EQ(c.try_receive(out), channel_result::ok);  // without an assignment
      EXPECT_EQ(out.value, 1);
      c.send(counted(4));
      c.send(counted(5));
      EXPECT_EQ(counted::alive, 5);
    }
    EXPECT_EQ(counted::alive, 0);
  });
}

TEST_P(Channel, WorksForElementsOfManySizes) {
  as_asked([] {
    const auto check = []<std::size_t Size>(std::integral_constant<std::size_t, Size>) {
      using bytes = std::array<std::uint8_t, Size>;
      for (const int capacity : {0, 1, 5}) {
        channel<bytes> c(capacity);
        go([=] {
          for (int i = 0; i < 20; ++i) {
            bytes b;
            b.fill(static_cast<std::uint8_t>(i));
            c.send(b);
          }
          c.close();
        });
        int i = 0;
        for (const bytes& b : c) {
          for (const std::uint8_t byte : b) ASSERT_EQ(byte, i);
          ++i;
        }
        EXPECT_EQ(i, 20);
      }
    };
    check(std::integral_constant<std::size_t, 1>());
    check(std::integral_constant<std::size_t, 3>());
    check(std::integral_constant<std::size_t, 4>());
    check(std::integral_constant<std::size_t, 8>());
    check(std::integral_constant<std::size_t, 16>());
    check(std::integral_constant<std::size_t, 100>());
    check(std::integral_constant<std::size_t, 5000>());
  });
}

struct alignas(256) over_aligned {
  int value;
};

TEST_P(Channel, KeepsElementsAligned) {
  as_asked([] {
    channel<over_aligned> c(3);
    for (int i = 0; i < 3; ++i) c.send({i});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(c.receive()->value, i);
  });
}

TEST_P(Channel, SignalsNeedNoMemory) {
  as_asked([] {
    channel<unit> c(4'000'000'000u);
    for (int i = 0; i < 1000; ++i) c.send({});
    EXPECT_EQ(c.size(), 1000u);
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(c.receive(), unit{});
  });
}

TEST(ChannelHandle, RefusesAbsurdCapacities) {
  const auto least = std::numeric_limits<std::int64_t>::min();
  const auto most = std::numeric_limits<std::uint64_t>::max();
  const auto many = std::numeric_limits<std::uint32_t>::max();
  struct huge {
    char bytes[1 << 20];
  };
  EXPECT_THROW(channel<int>{-1}, std::length_error);
  EXPECT_THROW(channel<unit>{least}, std::length_error);
  EXPECT_THROW(channel<unit>{most}, std::length_error);
  EXPECT_THROW(channel<huge>{many}, std::length_error);
}

TEST(ChannelHandle, TakesACapacityOfAnyIntegralType) {
  EXPECT_EQ(channel<int>(false).capacity(), 0u);
  EXPECT_EQ(channel<int>(true).capacity(), 1u);
  EXPECT_EQ(channel<int>('\2').capacity(), 2u);
  EXPECT_EQ(channel<int>(u8'\3').capacity(), 3u);
  EXPECT_EQ(channel<int>(L'\4').capacity(), 4u);
  EXPECT_EQ(channel<int>(std::uint8_t{5}).capacity(), 5u);
  EXPECT_EQ(channel<int>(6ull).capacity(), 6u);
  EXPECT_THROW(channel<int>(static_cast<signed char>(-1)), std::length_error);
}

TEST(ChannelHandle, CopiesMeanTheSameChannel) {
  const channel<int> a(1);
  const channel<int> b = a;
  EXPECT_TRUE(a == b);
  EXPECT_FALSE(a == channel<int>(1));
  a.send(1);
  EXPECT_EQ(b.size(), 1u);
  const sender<int> send = a;
  const receiver<int> receive = a;
  EXPECT_EQ(receive.receive(), 1);
  send.send(2);
  EXPECT_EQ(b.receive(), 2);
  EXPECT_EQ(send.capacity(), 1u);
}

TEST(ChannelHandle, NilIsFalseAndEmpty) {
  const channel<int> nil(nullptr);
  EXPECT_FALSE(nil);
  EXPECT_TRUE(channel<int>());
  EXPECT_TRUE(channel<int>(0));
  EXPECT_EQ(nil.size(), 0u);
  EXPECT_EQ(nil.capacity(), 0u);
  int value = 0;
  EXPECT_FALSE(nil.try_send(value));
  EXPECT_EQ(nil.try_receive(value), channel_result::would_block);
  EXPECT_FALSE(sender<int>());
  EXPECT_FALSE(receiver<int>(nil));
}

TEST(ChannelHandle, LastsUntilTheLastCopyIsGone) {
  receiver<std::string> half;
  {
    channel<std::string> whole(1);
    whole.send("still here");
    half = whole;
  }
  EXPECT_EQ(half.receive(), "still here");
}

TEST(ChannelBetween, PlainThreads) {
  channel<int> there, back;
  std::thread other([=] {
    for (const int value : there) back.send(value + 1);
    back.close();
  });
  for (int i = 0; i < 1000; ++i) {
    there.send(i);
    ASSERT_EQ(back.receive(), i + 1);
  }
  there.close();
  EXPECT_EQ(back.receive(), std::nullopt);
  other.join();
}

TEST(ChannelBetween, TwoRuntimes) {
  runtime left({.procs = 1}), right({.procs = 2});
  channel<int> there, back(3);
  right.go([=] {
    for (const int value : there) back.send(value + 1);
    back.close();
  });
  left.run([=] {
    for (int i = 0; i < 1000; ++i) {
      there.send(i);
      ASSERT_EQ(back.receive(), i + 1);
    }
    there.close();
    EXPECT_EQ(back.receive(), std::nullopt);
  });
}

// The handle may go as soon as the call has returned, although the partner is still in it.
TEST(ChannelHandle, MayBeDroppedAsSoonAsTheCallReturned) {
  runtime r({.procs = 4});
  r.run([] {
    for (int i = 0; i < 2000; ++i) {
      auto c = std::make_unique<channel<int>>();
      go([copy = *c]() mutable {
        copy.send(1);
        copy = nullptr;
      });
      EXPECT_EQ(c->receive(), 1);
      c.reset();
    }
  });
}

}  // namespace
}  // namespace magpie
