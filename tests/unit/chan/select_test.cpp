// select: one case, exactly once, each with equal chance.
#include <magpie/select.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
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

constexpr auto ignore = [](auto&&...) {};

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

// Every test twice: asked by a plain thread, and by a goroutine.
class Select : public ::testing::TestWithParam<bool> {
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
INSTANTIATE_TEST_SUITE_P(AskedBy, Select, ::testing::Bool(), [](const auto& asked) {
  return std::string(asked.param ? "Goroutine" : "PlainThread");
});

TEST_P(Select, DoesTheCaseThatIsReady) {
  as_asked([] {
    channel<int> a(1), b(1);
    b.send(7);
    std::optional<int> got;
    EXPECT_EQ(select(on_receive(a, ignore), on_receive(b, [&](std::optional<int> v) { got = v; })),
              1);
    EXPECT_EQ(got, 7);
    b.send(0);
    bool sent = false;
    EXPECT_EQ(select(on_send(a, 8, [&] { sent = true; }), on_send(b, 9, ignore)), 0);
    EXPECT_TRUE(sent);
    EXPECT_EQ(a.receive(), 8);
    EXPECT_EQ(b.size(), 1u);
  });
}

TEST_P(Select, WaitsForASender) {
  as_asked([] {
    channel<int> a, b;
    future<void> sends = async([=] {
      wait_for_waiting(b, 1);
      b.send(5);
    });
    std::optional<int> got;
    EXPECT_EQ(select(on_receive(a, ignore), on_receive(b, [&](std::optional<int> v) { got = v; })),
              1);
    EXPECT_EQ(got, 5);
    sends.get();
    EXPECT_EQ(waiting_in(a), 0);
    EXPECT_EQ(waiting_in(b), 0);
  });
}

TEST_P(Select, WaitsForAReceiver) {
  as_asked([] {
    channel<std::string> a, b(1);
    b.send("full");
    future<std::optional<std::string>> receives = async([=] {
      wait_for_waiting(a, 1);
      return a.receive();
    });
    EXPECT_EQ(select(on_send(a, "to a", ignore), on_send(b, "to b", ignore)), 0);
    EXPECT_EQ(receives.get(), "to a");
    EXPECT_EQ(waiting_in(b), 0);
    EXPECT_EQ(b.size(), 1u);
  });
}

TEST_P(Select, SeesAClosedChannel) {
  as_asked([] {
    channel<int> a, closed;
    closed.close();
    bool empty = false;
    EXPECT_EQ(select(on_receive(a, ignore),
                     on_receive(closed, [&](std::optional<int> v) { empty = !v; })),
              1);
    EXPECT_TRUE(empty);
    EXPECT_THROW(select(on_receive(a, ignore), on_send(closed, 1, ignore)), closed_channel);
    EXPECT_THROW(select(on_send(closed, 1, ignore)), closed_channel);
    EXPECT_THROW(select(on_send(closed, 1, ignore), otherwise(ignore)), closed_channel);
  });
}

TEST_P(Select, IsWokenByClose) {
  as_asked([] {
    channel<int> a, b;
    future<void> closes = async([=] {
      wait_for_waiting(a, 1);
      a.close();
    });
    bool empty = false;
    EXPECT_EQ(
        select(on_receive(a, [&](std::optional<int> v) { empty = !v; }), on_receive(b, ignore)), 0);
    EXPECT_TRUE(empty);
    closes.get();

    channel<int> c;
    future<void> closes_too = async([=] {
      wait_for_waiting(c, 1);
      c.close();
    });
    EXPECT_THROW(select(on_receive(b, ignore), on_send(c, 1, ignore)), closed_channel);
    closes_too.get();
    EXPECT_EQ(waiting_in(b), 0);
  });
}

TEST_P(Select, OtherwiseIsForWhenNothingIsReady) {
  as_asked([] {
    channel<int> a, b(1), nil(nullptr);
    EXPECT_EQ(select(otherwise(ignore)), 0);
    EXPECT_EQ(select(on_receive(a, ignore), otherwise(ignore)), 1);
    EXPECT_EQ(select(on_send(a, 1, ignore), otherwise(ignore)), 1);
    EXPECT_EQ(select(on_receive(nil, ignore), otherwise(ignore)), 1);
    EXPECT_EQ(select(on_receive(a, ignore), on_receive(b, ignore), on_send(nil, 1, ignore),
                     otherwise(ignore)),
              3);
    EXPECT_EQ(select(on_receive(a, ignore), on_send(b, 1, ignore), otherwise(ignore)), 1);
    EXPECT_EQ(select(on_receive(b, ignore), otherwise(ignore)), 0);
  });
}

TEST_P(Select, TimesOut) {
  as_asked([] {
    channel<int> a, b;
    const auto start = clock::now();
    EXPECT_EQ(select(on_receive(a, ignore), on_timeout(1h, ignore), on_timeout(5ms, ignore),
                     on_send(b, 1, ignore)),
              2);
    EXPECT_GE(clock::now() - start, 5ms);
    EXPECT_EQ(waiting_in(a), 0);
    EXPECT_EQ(waiting_in(b), 0);
    EXPECT_EQ(select(on_timeout(1ms, ignore)), 0);
    EXPECT_EQ(select(on_receive(a, ignore), on_timeout(-1s, ignore)), 1);
    EXPECT_EQ(select(on_receive(a, ignore), on_deadline(clock::now() + 2ms, ignore)), 1);
    EXPECT_EQ(select(on_receive(a, ignore), on_deadline(clock::now() - 1s, ignore)), 1);
    EXPECT_EQ(select(on_timeout(1h, ignore), otherwise(ignore)), 1);
    EXPECT_EQ(select(on_receive(channel<int>(nullptr), ignore), on_timeout(1ms, ignore)), 1);
  });
}

TEST_P(Select, ATimeoutThatIsNotNeededDoesNothing) {
  as_asked([] {
    channel<int> a;
    future<void> sends = async([=] {
      wait_for_waiting(a, 1);
      a.send(1);
    });
    EXPECT_EQ(select(on_receive(a, ignore), on_timeout(1h, ignore)), 0);
    sends.get();
    channel<int> ready(1);
    ready.send(1);
    EXPECT_EQ(select(on_receive(ready, ignore), on_timeout(0s, ignore)), 0);
  });
}

// Otherwise a channel that always has something would keep the deadline from ever being seen.
TEST_P(Select, ADeadlineThatIsOverIsReadyLikeAnyOther) {
  as_asked([] {
    channel<int> busy;
    busy.close();
    const time_point past = std::chrono::time_point_cast<duration>(clock::now()) - 1s;
    std::array<int, 2> hits{};
    for (int i = 0; i < 1000; ++i) {
      ++hits[static_cast<std::size_t>(select(on_receive(busy, ignore), on_deadline(past, ignore)))];
    }
    EXPECT_GT(hits[0], 300);
    EXPECT_GT(hits[1], 300);
  });
}

TEST_P(Select, PicksEachReadyCaseWithEqualChance) {
  as_asked([] {
    channel<int> a(1), b(1), never;
    a.send(1);
    std::array<int, 6> hits{};
    constexpr int k_rounds = 20'000;
    for (int i = 0; i < k_rounds; ++i) {
      // Ready: a twice, b's send twice.
      const int picked = select(on_receive(a, [&](std::optional<int> v) { a.send(*v); }),
                                on_receive(never, ignore), on_send(b, 1, [&] { b.receive(); }),
                                on_send(never, 1, ignore),
                                on_receive(a, [&](std::optional<int> v) { a.send(*v); }),
                                on_send(b, 2, [&] { b.receive(); }));
      ++hits[static_cast<std::size_t>(picked)];
    }
    for (const std::size_t ready : {0, 2, 4, 5}) {
      EXPECT_NEAR(hits[ready], k_rounds / 4, k_rounds / 4 / 5) << ready;
    }
  });
}

// The same when they become ready together while it waits: a closed channel has both.
TEST_P(Select, RunsExactlyOneHandler) {
  as_asked([] {
    for (int i = 0; i < 500; ++i) {
      channel<int> a, b;
      future<void> first = async([=] { a.try_send(1); });
      future<void> second = async([=] { b.send(2); });
      int ran = 0;
      select(on_receive(a, [&](auto) { ++ran; }), on_receive(b, [&](auto) { ++ran; }),
             on_receive(b, [&](auto) { ++ran; }));
      EXPECT_EQ(ran, 1);
      first.get();
      int rest;
      (void)b.try_receive(rest);
      if (!second.ready()) (void)b.receive_for(rest, 0s);
      // Whoever of the two was not taken is let go.
      while (!second.ready()) {
        (void)b.try_receive(rest);
        this_goroutine::yield();
      }
    }
  });
}

TEST_P(Select, HandlersMayThrow) {
  as_asked([] {
    channel<int> a(1);
    a.send(1);
    EXPECT_THROW(
        select(on_receive(a, [](std::optional<int>) { throw std::runtime_error("handler"); })),
        std::runtime_error);
    EXPECT_EQ(a.size(), 0u);
    EXPECT_THROW(select(otherwise([] { throw 1; })), int);
  });
}

TEST_P(Select, AHandlerMaySelect) {
  as_asked([] {
    channel<int> a(1), b(1);
    int inner = -1;
    EXPECT_EQ(select(on_send(
                  a, 1, [&] { inner = select(on_receive(b, ignore), on_receive(a, ignore)); })),
              0);
    EXPECT_EQ(inner, 1);
  });
}

TEST_P(Select, TakesHalvesAndTemporaries) {
  as_asked([] {
    channel<int> c(1);
    const sender<int> send = c;
    const receiver<int> receive = c;
    EXPECT_EQ(select(on_send(send, 3, ignore)), 0);
    std::optional<int> got;
    EXPECT_EQ(select(on_receive(receive, [&](std::optional<int> v) { got = v; })), 0);
    EXPECT_EQ(got, 3);
    EXPECT_EQ(select(on_send(sender<int>(c), 4, ignore), otherwise(ignore)), 0);
    EXPECT_EQ(select(on_receive(receiver<int>(c), ignore), otherwise(ignore)), 0);
    // A handler without an argument.
    c.close();
    bool called = false;
    EXPECT_EQ(select(on_receive(receive, [&] { called = true; })), 0);
    EXPECT_TRUE(called);
  });
}

TEST_P(Select, MovesWhatCanOnlyBeMoved) {
  as_asked([] {
    channel<std::unique_ptr<int>> a(1), b;
    auto value = std::make_unique<int>(1);
    EXPECT_EQ(select(on_send(a, std::move(value), ignore), on_receive(b, ignore)), 0);
    std::unique_ptr<int> got;
    EXPECT_EQ(select(on_receive(b, ignore), on_receive(a, [&](auto v) { got = std::move(*v); })),
              1);
    ASSERT_NE(got, nullptr);
    EXPECT_EQ(*got, 1);
  });
}

TEST_P(Select, NamedCasesMayBeUsedAgain) {
  as_asked([] {
    channel<std::string> c(1);
    std::string got;
    auto send = on_send(c, std::string(100, 'x'), ignore);
    auto receive = on_receive(c, [&](std::optional<std::string> v) { got = *v; });
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(select(send, otherwise(ignore)), 0);
      got.clear();
      EXPECT_EQ(select(receive, otherwise(ignore)), 0);
      EXPECT_EQ(got, std::string(100, 'x'));
    }
  });
}

TEST_P(Select, ASpanOfCasesMayBeUsedAgainAndAgain) {
  as_asked([] {
    channel<std::string> c(2);
    channel<int> numbers(1);
    std::vector<std::string> got;
    std::vector<select_case> cases{
        on_send(c, std::string(50, 'y'), ignore),
        on_receive(numbers, ignore),
        on_timeout(1ms, ignore),
    };
    EXPECT_EQ(select(cases), 0);
    EXPECT_EQ(select(cases), 0);
    EXPECT_EQ(select(cases), 2);
    EXPECT_EQ(select(cases), 2);
    numbers.send(1);
    EXPECT_EQ(select(cases), 1);
    EXPECT_EQ(c.receive(), std::string(50, 'y'));
    EXPECT_EQ(c.receive(), std::string(50, 'y'));
    // A copy is a case of its own.
    std::vector<select_case> copies = cases;
    EXPECT_EQ(select(copies), 0);
  });
}

TEST_P(Select, ACaseThatCanOnlyBeMovedIsSpent) {
  as_asked([] {
    channel<std::unique_ptr<int>> c(2);
    std::vector<select_case> cases;
    cases.push_back(on_send(c, std::make_unique<int>(1), ignore));
    EXPECT_EQ(select(cases), 0);
    EXPECT_THROW(select(cases), misuse);
    EXPECT_EQ(c.size(), 1u);
    EXPECT_THROW(std::vector<select_case>{cases}, misuse);
  });
}

TEST_P(Select, ASelectCaseKeepsItsChannel) {
  as_asked([] {
    std::vector<select_case> cases;
    std::optional<std::string> got;
    {
      channel<std::string> c(1);
      c.send("kept");
      cases.push_back(on_receive(c, [&](std::optional<std::string> v) { got = v; }));
    }
    EXPECT_EQ(select(cases), 0);
    EXPECT_EQ(got, "kept");
  });
}

TEST_P(Select, TakesThousandsOfCases) {
  as_asked([] {
    constexpr std::size_t k_cases = 3000;
    std::vector<channel<int>> channels;
    std::vector<select_case> cases;
    int got = 0;
    for (std::size_t i = 0; i < k_cases; ++i) {
      channels.emplace_back();
      cases.push_back(on_receive(channels.back(), [&](std::optional<int> v) { got = *v; }));
    }
    std::reverse(cases.begin(), cases.end());
    for (const std::size_t which : {std::size_t{0}, k_cases / 2, k_cases - 1}) {
      future<void> sends = async([&channels, which] {
        wait_for_waiting(channels[which], 1);
        channels[which].send(static_cast<int>(which));
      });
      EXPECT_EQ(select(cases), static_cast<int>(k_cases - 1 - which));
      EXPECT_EQ(got, static_cast<int>(which));
      sends.get();
    }
    for (const channel<int>& c : channels) EXPECT_EQ(waiting_in(c), 0);
  });
}

// Something other than a channel that a select can wait for: what descriptors will be.
class bell : public detail::select_source {
 public:
  bell()
      : select_source{
            &lock_,
            [](select_source& s) { return std::exchange(static_cast<bell&>(s).rung_, false); },
            [](select_source& s, rt::wait_node& n) {
              rt::push_back(static_cast<bell&>(s).list_, n);
            },
            [](select_source& s, rt::wait_node& n) {
              rt::remove(static_cast<bell&>(s).list_, n);
            }} {}

  void ring() {
    const rt::entry inside;
    rt::object_guard held(lock_);
    rt::wait_node* const node = rt::pop_front(list_);
    rung_ = node == nullptr;
    held.unlock();
    if (node != nullptr) node->who->wake(inside.m());
  }
  bool somebody_waits() {
    const rt::entry inside;
    const rt::object_guard held(lock_);
    return list_.first != nullptr;
  }

  void prepare(detail::select_entry& e, detail::case_use) {
    e.what = detail::select_entry::kind::source;
    e.source = this;
  }
  void finish(channel_result) { ++finished; }

  int finished = 0;

 private:
  detail::lock_word lock_;
  detail::wait_list list_;
  bool rung_ = false;
};

TEST_P(Select, WaitsForOtherThingsThanChannels) {
  as_asked([] {
    channel<int> c;
    bell b;
    EXPECT_EQ(select(on_receive(c, ignore), b, otherwise(ignore)), 2);
    b.ring();
    EXPECT_EQ(select(on_receive(c, ignore), b, otherwise(ignore)), 1);
    EXPECT_EQ(select(b, otherwise(ignore)), 1);
    future<void> rings = async([&] {
      while (!b.somebody_waits()) this_goroutine::yield();
      b.ring();
    });
    EXPECT_EQ(select(on_receive(c, ignore), b), 1);
    rings.get();
    EXPECT_EQ(b.finished, 2);
    future<void> sends = async([&] {
      while (!b.somebody_waits()) this_goroutine::yield();
      c.send(1);
    });
    EXPECT_EQ(select(on_receive(c, ignore), b), 0);
    sends.get();
    EXPECT_FALSE(b.somebody_waits());
    EXPECT_EQ(waiting_in(c), 0);
  });
}

}  // namespace
}  // namespace magpie
