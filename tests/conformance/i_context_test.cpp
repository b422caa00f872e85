// Section I of Go's behaviours: contexts. One test per row. Where Go's tests bring a context of
// another make, these bring a std::stop_token, which is how others make such a thing in C++.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <magpie/magpie.h>

#include "base/random.h"
#include "conformance.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;

struct reason : std::runtime_error {
  using std::runtime_error::runtime_error;
};
std::exception_ptr because(const char* text) { return std::make_exception_ptr(reason(text)); }

bool is_done(const context& c) {
  unit out;
  return c.done().try_receive(out) == channel_result::closed;
}

void expect_alive(const context& c) {
  EXPECT_FALSE(is_done(c));
  EXPECT_FALSE(c.error());
  EXPECT_EQ(c.cause(), nullptr);
}
void expect_canceled(const context& c) {
  EXPECT_TRUE(is_done(c));
  EXPECT_EQ(c.error(), std::errc::operation_canceled);
}
void expect_times_out(const context& c) {
  EXPECT_FALSE(c.done().receive());
  EXPECT_EQ(c.error(), std::errc::timed_out);
}

const context_key<int> k_number("number");
const context_key<int> k_other("number");
const context_key<std::string> k_text("text");
const context_key<std::shared_ptr<int>> k_witness("witness");

TEST(Conformance, I01_TheBackgroundIsNeverDone) {
  const context c = context::background();
  EXPECT_FALSE(c.done());
  EXPECT_FALSE(c.error());
  EXPECT_FALSE(c.deadline());
}

TEST_P(Conformance, I02_WithCancel) {
  runtime r({.procs = ps()});
  r.run([] {
    auto [top, cancel] = with_cancel(context::background());
    const context wrapped = with_value(top, k_number, 1);
    const context child = with_cancel(top).first;
    const context of_wrapped = with_cancel(wrapped).first;
    for (const context& c : {top, wrapped, child, of_wrapped}) expect_alive(c);
    cancel();
    for (const context& c : {top, wrapped, child, of_wrapped}) expect_canceled(c);
  });
}

TEST_P(Conformance, I03_ParentFinishesChild) {
  runtime r({.procs = ps()});
  r.run([] {
    const auto witness = std::make_shared<int>();
    auto [parent, cancel] = with_cancel(with_value({}, k_witness, witness));
    const context child = with_cancel(parent).first;
    const context value = with_value(parent, k_number, 1);
    const context timed = with_timeout(value, 1h).first;
    channel<unit> called;
    const auto prevent = after_done(parent, [called] { called.close(); });
    for (const context& c : {parent, child, value, timed}) expect_alive(c);
    cancel();
    for (const context& c : {parent, child, value, timed}) expect_canceled(c);
    EXPECT_FALSE(called.receive());
    EXPECT_FALSE(prevent());
    expect_canceled(with_cancel(parent).first);
  });
}

// A child that ended, or was dropped, is not known to its parent any more.
TEST_P(Conformance, I05_CancelRemoves) {
  runtime r({.procs = ps()});
  r.run([] {
    const auto witness = std::make_shared<int>();
    auto [parent, cancel] = with_cancel({});
    for (const bool timed : {false, true}) {
      std::optional<std::pair<context, cancel_function>> child =
          timed ? with_timeout(with_value(parent, k_witness, witness), 1h)
                : with_cancel(with_value(parent, k_witness, witness));
      child->second();
      expect_canceled(child->first);
      child.reset();
      EXPECT_EQ(witness.use_count(), 1);
    }
    {
      const auto prevent = after_done(parent, [witness] { ADD_FAILURE(); });
      EXPECT_EQ(witness.use_count(), 2);
      EXPECT_TRUE(prevent());
    }
    EXPECT_EQ(witness.use_count(), 1);
    cancel();
  });
}

TEST_P(Conformance, I07_Deadline) {
  runtime r({.procs = ps()});
  r.run([] {
    expect_times_out(with_deadline({}, clock::now() + 1ms).first);
    expect_times_out(with_value(with_deadline({}, clock::now() + 1ms).first, k_number, 1));
    const context soon = with_deadline({}, clock::now() + 1ms).first;
    expect_times_out(with_deadline(with_value(soon, k_number, 1), clock::now() + 1h).first);
    expect_times_out(with_deadline({}, clock::now() - 1ms).first);
    expect_times_out(with_deadline({}, clock::now()).first);
  });
}

TEST_P(Conformance, I08_Timeout) {
  runtime r({.procs = ps()});
  r.run([] {
    expect_times_out(with_timeout({}, 1ms).first);
    expect_times_out(with_value(with_timeout({}, 1ms).first, k_number, 1));
    const context soon = with_timeout({}, 1ms).first;
    expect_times_out(with_timeout(with_value(soon, k_number, 1), 1h).first);
    expect_times_out(with_timeout({}, -1ms).first);
    expect_times_out(with_timeout({}, 0s).first);
  });
}

TEST_P(Conformance, I09_CanceledTimeout) {
  runtime r({.procs = ps()});
  r.run([] {
    auto [top, unused] = with_timeout({}, 1h);
    auto [below, cancel] = with_timeout(with_value(top, k_number, 1), 2h);
    cancel();
    expect_canceled(below);
    expect_alive(top);
  });
}

TEST(Conformance, I10_Values) {
  const auto expect = [](const context& c, const int* number, const int* other, const char* text) {
    if (number == nullptr) {
      EXPECT_EQ(c.value(k_number), nullptr);
    } else {
      EXPECT_EQ(*c.value(k_number), *number);
    }
    EXPECT_EQ(c.value(k_other) == nullptr, other == nullptr);
    EXPECT_EQ(c.value(k_text) == nullptr, text == nullptr);
    if (text != nullptr) {
      EXPECT_EQ(*c.value(k_text), text);
    }
  };
  const int one = 1, two = 2;
  const context c0 = context::background();
  const context c1 = with_value(c0, k_number, 1);
  const context c2 = with_value(c1, k_text, "two");
  const context c3 = with_value(c2, k_other, 0);  // another key of the same type and name
  const context c4 = with_value(c3, k_number, 2);
  expect(c0, nullptr, nullptr, nullptr);
  expect(c1, &one, nullptr, nullptr);
  expect(c2, &one, nullptr, "two");
  expect(c3, &one, &one, "two");
  expect(c4, &two, &one, "two");
  const context_key<int*> pointer;
  ASSERT_NE(with_value(c4, pointer, nullptr).value(pointer), nullptr);
  EXPECT_EQ(*with_value(c4, pointer, nullptr).value(pointer), nullptr);
}

TEST_P(Conformance, I13_LayersCancel) {
  runtime r({.procs = ps()});
  r.run([] {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      rt::random_source random(seed);
      context leaf;
      std::vector<cancel_function> ends;
      std::vector<std::unique_ptr<context_key<int>>> keys;
      for (int layer = 0; layer < 30 || ends.empty(); ++layer) {
        switch (random.below(3)) {
          case 0:
            keys.push_back(std::make_unique<context_key<int>>());
            leaf = with_value(leaf, *keys.back(), static_cast<int>(keys.size()));
            break;
          case 1: {
            auto [next, end] = with_cancel(leaf);
            leaf = next;
            ends.push_back(end);
            break;
          }
          default: {
            auto [next, end] = with_timeout(leaf, 1h);
            leaf = next;
            ends.push_back(end);
          }
        }
      }
      const auto check_values = [&] {
        for (std::size_t i = 0; i < keys.size(); ++i) {
          ASSERT_EQ(*leaf.value(*keys[i]), static_cast<int>(i) + 1);
        }
      };
      expect_alive(leaf);
      check_values();
      ends[random.below(static_cast<std::uint32_t>(ends.size()))]();
      expect_canceled(leaf);
      check_values();
    }
  });
}

TEST_P(Conformance, I15_WithCancelOfACanceledParent) {
  runtime r({.procs = ps()});
  r.run([] {
    auto [parent, cancel] = with_cancel({});
    cancel(because("gone"));
    const context child = with_cancel(parent).first;
    expect_canceled(child);
    EXPECT_EQ(child.cause(), parent.cause());
    EXPECT_THROW(std::rethrow_exception(child.cause()), reason);
  });
}

// What Go checks when it runs: a key is never nil, and can always be compared.
TEST(Conformance, I17_KeysAreComparedByAddress) {
  static_assert(!std::is_copy_constructible_v<context_key<int>>);
  static_assert(!std::is_convertible_v<std::nullptr_t, context_key<int>>);
}

TEST(Conformance, I18_ADeadlineIsATimeout) {
  const context c = with_timeout({}, 0s).first;
  EXPECT_EQ(c.error(), std::errc::timed_out);
  EXPECT_EQ(c.error(), make_error_code(std::errc::timed_out));
  EXPECT_NE(c.error(), std::errc::operation_canceled);
}

TEST_P(Conformance, I21_WithoutCancel) {
  runtime r({.procs = ps()});
  r.run([] {
    auto [top, cancel] = with_timeout(with_value({}, k_number, 1), 1h);
    const context kept = without_cancel(top);
    cancel();
    EXPECT_FALSE(kept.deadline());
    EXPECT_FALSE(kept.done());
    EXPECT_FALSE(kept.error());
    EXPECT_EQ(*kept.value(k_number), 1);
  });
}

TEST_P(Conformance, I22_AForeignEndAboveOfOurs) {
  runtime r({.procs = ps()});
  r.run([] {
    std::stop_source foreign;
    auto [top, cancel] = with_cancel({});
    const context wrapped = with_stop_token(top, foreign.get_token()).first;
    const context below = with_cancel(wrapped).first;
    foreign.request_stop();
    expect_canceled(below);
    EXPECT_EQ(below.cause(), wrapped.cause());
    expect_alive(top);
    const context again = with_stop_token(top, {}).first;
    cancel(because("ours"));
    expect_canceled(again);
    EXPECT_EQ(again.cause(), top.cause());
  });
}

TEST_P(Conformance, I23_CausesDoNotGoUp) {
  runtime r({.procs = ps()});
  r.run([] {
    std::stop_source foreign;
    const context top = with_stop_token({}, foreign.get_token()).first;
    auto [below, cancel] = with_cancel(top);
    cancel(because("below"));
    EXPECT_THROW(std::rethrow_exception(below.cause()), reason);
    expect_alive(top);
    const context other = with_cancel(top).first;
    foreign.request_stop();
    expect_canceled(other);
    EXPECT_THROW(std::rethrow_exception(below.cause()), reason);
    EXPECT_THROW(std::rethrow_exception(other.cause()), std::system_error);
  });
}

TEST_P(Conformance, I24_AfterFuncIsCalled) {
  runtime r({.procs = ps()});
  r.run([] {
    channel<unit> called;
    const auto calls = [called] { called.send({}); };
    auto [ctx, cancel] = with_cancel({});
    const auto after_cancel = after_done(ctx, calls);
    cancel();
    (void)called.receive();
    EXPECT_FALSE(after_cancel());
    const auto after_timeout = after_done(with_timeout({}, 1ms).first, calls);
    (void)called.receive();
    EXPECT_FALSE(after_timeout());
    const auto at_once = after_done(ctx, calls);
    (void)called.receive();
    EXPECT_FALSE(at_once());
    auto [other, cancel_other] = with_cancel({});
    const auto prevented = after_done(other, [] { ADD_FAILURE(); });
    EXPECT_TRUE(prevented());
    cancel_other();
    EXPECT_FALSE(prevented());
  });
}

TEST_P(Conformance, I26_AfterFuncIsCalledAsynchronously) {
  runtime r({.procs = ps()});
  r.run([] {
    auto [ctx, cancel] = with_cancel({});
    channel<unit> to_it;
    const auto prevent = after_done(ctx, [to_it] { (void)to_it.receive(); });
    cancel();  // does not wait for the function, which waits for us
    to_it.send({});
  });
}

TEST_P(Conformance, I28_ForeignEndsReachAllKinds) {
  runtime r({.procs = ps()});
  const std::size_t goroutines = r.read_stats().goroutines;
  r.run([&] {
    std::stop_source foreign;
    const context parent = with_stop_token({}, foreign.get_token()).first;
    const context cancelled = with_cancel(parent).first;
    const context timed = with_timeout(parent, 1h).first;
    channel<unit> called;
    const auto prevent = after_done(parent, [called] { called.close(); });
    EXPECT_EQ(r.read_stats().goroutines, goroutines + 1);  // none waits for the token
    foreign.request_stop();
    expect_canceled(cancelled);
    expect_canceled(timed);
    EXPECT_FALSE(called.receive());
  });
}

TEST_P(Conformance, I29_WhatEndsEarlierLeavesItsForeignParent) {
  runtime r({.procs = ps()});
  r.run([] {
    const auto witness = std::make_shared<int>();
    std::stop_source foreign;
    for (int i = 0; i < 1000; ++i) {
      auto [c, cancel] = with_stop_token(with_value({}, k_witness, witness), foreign.get_token());
      if (i % 2 == 0) cancel();
    }
    EXPECT_EQ(witness.use_count(), 1);
    foreign.request_stop();
  });
}

}  // namespace
}  // namespace magpie
