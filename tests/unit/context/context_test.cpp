#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <magpie/magpie.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "context/node.h"
#include "os/thread.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;

const std::error_code k_canceled = make_error_code(std::errc::operation_canceled);
const std::error_code k_timed_out = make_error_code(std::errc::timed_out);

struct reason : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::exception_ptr because(const char* text) { return std::make_exception_ptr(reason(text)); }

bool is_ready(const receiver<unit>& done) {
  unit out;
  return done.try_receive(out) == channel_result::closed;
}

void expect_alive(const context& c) {
  EXPECT_EQ(c.error(), std::error_code());
  EXPECT_FALSE(is_ready(c.done()));
  EXPECT_EQ(c.cause(), nullptr);
  EXPECT_FALSE(c.stop_token().stop_requested());
}

void expect_ended(const context& c, std::error_code how) {
  EXPECT_EQ(c.error(), how);
  EXPECT_TRUE(is_ready(c.done()));
  EXPECT_NE(c.cause(), nullptr);
  EXPECT_TRUE(c.stop_token().stop_requested());
}

template <class Exception>
std::string text_of(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const Exception& e) {
    return e.what();
  }
}

class Context : public ::testing::TestWithParam<int> {
 protected:
  runtime r{config{.procs = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Ps, Context, ::testing::Values(1, 2, 4, 16));

TEST_P(Context, TheBackgroundNeverEnds) {
  const context root = context::background();
  EXPECT_FALSE(root.done());
  EXPECT_EQ(root.error(), std::error_code());
  EXPECT_EQ(root.cause(), nullptr);
  EXPECT_FALSE(root.deadline());
  EXPECT_FALSE(root.stop_token().stop_possible());
}

TEST_P(Context, EndsWithItsFunction) {
  r.run([] {
    auto [ctx, cancel] = with_cancel(context::background());
    expect_alive(ctx);
    const receiver<unit> asked_before = ctx.done();
    const cancel_function again = cancel;
    cancel();
    expect_ended(ctx, k_canceled);
    EXPECT_TRUE(is_ready(asked_before));
    again(because("too late"));
    EXPECT_THROW(std::rethrow_exception(ctx.cause()), std::system_error);
    try {
      std::rethrow_exception(ctx.cause());
    } catch (const std::system_error& e) {
      EXPECT_EQ(e.code(), k_canceled);
    }
    cancel_function()();  // of nothing
  });
}

TEST_P(Context, WakesThoseWhoWait) {
  r.run([] {
    auto [ctx, cancel] = with_cancel({});
    std::vector<future<void>> all;
    for (int i = 0; i < 50; ++i) {
      all.push_back(async([c = ctx] { EXPECT_FALSE(c.done().receive()); }));
    }
    for (int i = 0; i < 50; ++i) {
      all.push_back(async([c = ctx] {
        bool called = false;
        select(on_done(c, [&] { called = true; }), on_timeout(1h, [] {}));
        EXPECT_TRUE(called);
      }));
    }
    this_goroutine::sleep_for(1ms);
    cancel();
    for (auto& one : all) one.get();
  });
}

TEST_P(Context, ChildrenEndWithTheirParentAndNotTheOtherWayRound) {
  r.run([] {
    auto [top, end_top] = with_cancel({});
    auto [left, end_left] = with_cancel(top);
    auto [right, end_right] = with_timeout(top, 1h);
    auto [below, end_below] = with_cancel(left);
    end_left(because("left"));
    expect_alive(top);
    expect_alive(right);
    expect_ended(left, k_canceled);
    expect_ended(below, k_canceled);
    EXPECT_EQ(below.cause(), left.cause());
    end_top(because("top"));
    expect_ended(right, k_canceled);
    EXPECT_EQ(text_of<reason>(right.cause()), "top");
    EXPECT_EQ(text_of<reason>(below.cause()), "left");
  });
}

TEST_P(Context, OneMadeTooLateEndsAtOnce) {
  r.run([] {
    auto [top, cancel] = with_cancel({});
    cancel(because("over"));
    for (const context& late :
         {with_cancel(top).first, with_timeout(top, 1h).first, with_timeout(top, -1s).first,
          with_stop_token(top, {}).first, with_cancel(with_cancel(top).first).first}) {
      expect_ended(late, k_canceled);
      EXPECT_EQ(late.cause(), top.cause());
    }
  });
}

TEST_P(Context, EndsAtItsDeadline) {
  r.run([] {
    const time_point start = clock::now();
    auto [ctx, cancel] = with_timeout({}, 2ms);
    EXPECT_GE(ctx.deadline().value(), start + 2ms);
    auto [below, cancel_below] = with_cancel(ctx);
    EXPECT_EQ(below.deadline(), ctx.deadline());
    (void)below.done().receive();
    EXPECT_GE(clock::now(), start + 2ms);
    expect_ended(ctx, k_timed_out);
    expect_ended(below, k_timed_out);
    EXPECT_EQ(below.cause(), ctx.cause());
    EXPECT_NE(text_of<std::system_error>(ctx.cause()), "");
    cancel();
    expect_ended(ctx, k_timed_out);
  });
}

TEST_P(Context, TheEarlierDeadlineCounts) {
  r.run([] {
    auto [soon, c1] = with_timeout({}, 1h);
    auto [later, c2] = with_timeout(soon, 2h);
    EXPECT_EQ(later.deadline(), soon.deadline());
    auto [sooner, c3] = with_timeout(later, 1ms);
    EXPECT_LT(sooner.deadline().value(), soon.deadline().value());
    (void)sooner.done().receive();
    expect_ended(sooner, k_timed_out);
    expect_alive(later);
  });
}

TEST_P(Context, ADeadlineThatHasPassedEndsItAtOnce) {
  r.run([] {
    expect_ended(with_timeout({}, 0s).first, k_timed_out);
    expect_ended(with_timeout({}, -1h).first, k_timed_out);
    expect_ended(with_deadline({}, clock::now()).first, k_timed_out);
    expect_ended(with_deadline({}, time_point::min()).first, k_timed_out);
  });
}

TEST_P(Context, ADeadlineOfNeverIsNone) {
  r.run([] {
    EXPECT_FALSE(with_timeout({}, no_timeout).first.deadline());
    EXPECT_FALSE(with_timeout({}, std::chrono::hours::max()).first.deadline());
    EXPECT_FALSE(with_deadline({}, never).first.deadline());
  });
}

TEST_P(Context, CancelledBeforeTheDeadlineIsCancelled) {
  r.run([] {
    const time_point deadline = clock::now() + 20ms;
    auto [ctx, cancel] = with_deadline({}, deadline);
    cancel();
    if (clock::now() >= deadline) GTEST_SKIP() << "too slow: the deadline came first";
    this_goroutine::sleep_until(deadline + 2ms);
    expect_ended(ctx, k_canceled);
  });
}

TEST_P(Context, HoldsValues) {
  r.run([] {
    const context_key<int> number("number");
    const context_key<int> other("number");
    const context_key<std::string> text;
    EXPECT_EQ(number.name(), "number");
    const context a = with_value(context::background(), number, 1);
    const context b = with_value(a, text, "hello");
    auto [c, cancel] = with_cancel(b);
    const context d = with_value(c, number, 2);
    EXPECT_EQ(context::background().value(number), nullptr);
    EXPECT_EQ(*a.value(number), 1);
    EXPECT_EQ(a.value(text), nullptr);
    EXPECT_EQ(*d.value(number), 2);
    EXPECT_EQ(*d.value(text), "hello");
    EXPECT_EQ(d.value(other), nullptr);
    expect_alive(d);
    cancel();
    expect_ended(d, k_canceled);
    EXPECT_EQ(*d.value(text), "hello");
    const context_key<std::unique_ptr<int>> moved;
    EXPECT_EQ(**with_value(d, moved, std::make_unique<int>(7)).value(moved), 7);
  });
}

TEST_P(Context, WithoutCancelKeepsOnlyTheValues) {
  r.run([] {
    const context_key<int> number;
    auto [top, cancel] = with_timeout(with_value({}, number, 3), 1h);
    const context kept = without_cancel(top);
    cancel();
    EXPECT_FALSE(kept.deadline());
    EXPECT_FALSE(kept.done());
    EXPECT_EQ(kept.error(), std::error_code());
    EXPECT_EQ(kept.cause(), nullptr);
    EXPECT_EQ(*kept.value(number), 3);
    expect_alive(with_cancel(kept).first);
  });
}

// ---- Who refers to whom -----------------------------------------------------------------------

// Shared with a value in a context: tells when that is gone.
const context_key<std::shared_ptr<int>> k_witness;

TEST_P(Context, OneThatNobodyRefersToIsGone) {
  r.run([] {
    const auto witness = std::make_shared<int>();
    auto [top, cancel] = with_cancel({});
    {
      auto [child, end_child] = with_timeout(with_value(top, k_witness, witness), 1h);
      (void)child.done();
      (void)child.stop_token();
      EXPECT_EQ(witness.use_count(), 2);
    }
    EXPECT_EQ(witness.use_count(), 1);
    cancel();
  });
}

TEST_P(Context, ManyChildrenOfALongLivedParent) {
  r.run([] {
    const auto witness = std::make_shared<int>();
    auto [top, cancel] = with_cancel({});
    for (int i = 0; i < 100'000; ++i) {
      const auto made = i % 2 == 0 ? with_cancel(with_value(top, k_witness, witness))
                                   : with_timeout(with_value(top, k_witness, witness), 1h);
      if (i % 3 == 0) made.second();
    }
    EXPECT_EQ(witness.use_count(), 1);
    expect_alive(top);
  });
}

TEST_P(Context, DoneKeepsItsContext) {
  r.run([] {
    const receiver<unit> timeout = with_timeout({}, 1ms).first.done();
    EXPECT_FALSE(timeout.receive());
    auto [top, cancel] = with_cancel({});
    const auto witness = std::make_shared<int>();
    receiver<unit> done = with_cancel(with_value(top, k_witness, witness)).first.done();
    receiver<unit> copy = done;
    EXPECT_EQ(witness.use_count(), 2);
    done = nullptr;
    EXPECT_EQ(witness.use_count(), 2);
    cancel();
    EXPECT_FALSE(copy.receive());
    copy = nullptr;
    EXPECT_EQ(witness.use_count(), 1);
  });
}

TEST_P(Context, DoneIsAskedForAgainAndAgain) {
  r.run([] {
    auto [ctx, cancel] = with_cancel({});
    for (int i = 0; i < 10; ++i) expect_alive(ctx);
    cancel();
    for (int i = 0; i < 10; ++i) expect_ended(ctx, k_canceled);
  });
}

TEST_P(Context, AVeryLongChain) {
  r.run([] {
    const context_key<int> number;
    auto [top, cancel] = with_cancel({});
    context leaf = with_value(top, number, 7);
    for (int i = 0; i < 100'000; ++i) leaf = with_cancel(leaf).first;
    EXPECT_EQ(*leaf.value(number), 7);
    cancel(because("the top"));
    expect_ended(leaf, k_canceled);
    EXPECT_EQ(leaf.cause(), top.cause());
    leaf = {};
    // And one that goes without having ended.
    context other;
    for (int i = 0; i < 100'000; ++i) other = with_cancel(other).first;
  });
}

// ---- after_done -------------------------------------------------------------------------------

TEST_P(Context, AfterDoneRunsItsFunctionOnce) {
  r.run([] {
    auto [ctx, cancel] = with_cancel({});
    channel<std::uint64_t> ids(8);
    const auto prevent = after_done(ctx, [ids] { ids.send(this_goroutine::id()); });
    EXPECT_EQ(ids.size(), 0u);
    cancel();
    EXPECT_FALSE(prevent());
    EXPECT_NE(ids.receive().value(), this_goroutine::id());
    cancel();
    const auto at_once = after_done(ctx, [ids] { ids.send(1); });
    EXPECT_TRUE(ids.receive());
    EXPECT_FALSE(at_once());
    EXPECT_EQ(ids.size(), 0u);
  });
}

TEST_P(Context, AfterDoneCanBePrevented) {
  const auto witness = std::make_shared<int>();
  r.run([&] {
    auto [ctx, cancel] = with_cancel({});
    {
      const auto prevent = after_done(ctx, [witness] { ADD_FAILURE(); });
      EXPECT_TRUE(prevent());
      EXPECT_FALSE(prevent());
    }
    EXPECT_EQ(witness.use_count(), 1);
    cancel();
    const auto of_nothing = after_done(context::background(), [] { ADD_FAILURE(); });
    EXPECT_TRUE(of_nothing());
    EXPECT_FALSE(of_nothing());
  });
}

TEST_P(Context, AfterDoneDoesNotDelayTheCancel) {
  r.run([] {
    auto [ctx, cancel] = with_cancel({});
    channel<unit> go_on, over;
    after_done(ctx, [=] {
      (void)go_on.receive();
      over.close();
    });
    cancel();
    go_on.send({});
    (void)over.receive();
  });
}

TEST_P(Context, AfterDoneKeepsWhatCanEndByItself) {
  r.run([] {
    channel<unit> over;
    after_done(with_timeout({}, 1ms).first, [over] { over.send({}); });
    EXPECT_TRUE(over.receive());
    auto [top, cancel] = with_cancel({});
    after_done(with_cancel(top).first, [over] { over.send({}); });
    cancel();
    EXPECT_TRUE(over.receive());
    const auto witness = std::make_shared<int>();
    after_done(with_cancel({}).first, [witness] { ADD_FAILURE(); });  // nobody can end it
    EXPECT_EQ(witness.use_count(), 1);
  });
}

TEST_P(Context, AfterDoneOfAValueContext) {
  r.run([] {
    const context_key<int> number;
    auto [ctx, cancel] = with_cancel({});
    channel<unit> over;
    after_done(with_value(ctx, number, 1), [over] { over.close(); });
    cancel();
    (void)over.receive();
  });
}

// ---- Stop tokens ------------------------------------------------------------------------------

TEST_P(Context, AStopRequestEndsIt) {
  r.run([] {
    std::stop_source source;
    auto [ctx, cancel] = with_stop_token(context::background(), source.get_token());
    auto [below, cancel_below] = with_cancel(ctx);
    expect_alive(below);
    source.request_stop();
    expect_ended(ctx, k_canceled);
    expect_ended(below, k_canceled);
    expect_ended(with_stop_token({}, source.get_token()).first, k_canceled);
  });
}

TEST_P(Context, ATokenThatOutlivesItsContext) {
  r.run([] {
    std::stop_source source;
    for (int i = 0; i < 1000; ++i) (void)with_stop_token({}, source.get_token());
    source.request_stop();
  });
}

TEST_P(Context, TheLastReferenceGoesWithTheStopRequest) {
  r.run([] {
    for (int i = 0; i < 200; ++i) {
      std::stop_source source;
      auto both = std::make_unique<std::pair<context, cancel_function>>(
          with_stop_token({}, source.get_token()));
      // Runs in the callback of the token, which has a reference of its own.
      const std::stop_callback drop(both->first.stop_token(), [&] { both.reset(); });
      source.request_stop();
      EXPECT_EQ(both, nullptr);
    }
  });
}

TEST_P(Context, AStopRequestThatRacesWithTheLastReference) {
  r.run([] {
    for (int i = 0; i < 300; ++i) {
      std::stop_source source;
      auto stops = async([&] { source.request_stop(); });
      {
        auto made = with_stop_token({}, source.get_token());
        if (i % 2 == 0) this_goroutine::yield();
        if (i % 3 == 0) (void)made.first.done().receive();
      }
      stops.get();
    }
  });
}

// A goroutine requests a stop and is on another thread when the context's callback is called; the
// thread where it was meanwhile belongs to another one, which calls in_its_place(). To libstdc++
// that one looks like the requester.
template <class F>
void request_and_move(std::stop_source& source, F in_its_place) {
  using rt::os::current_thread_id;
  std::atomic<rt::os::thread_id> requested_on{0};
  channel<unit> may_go_on;
  // Made after that of the context, and so called before it.
  const std::stop_callback move(source.get_token(), [&] {
    (void)may_go_on.receive();
    EXPECT_NE(current_thread_id(), requested_on);
  });
  group all;
  all.go([&] {
    requested_on = current_thread_id();
    source.request_stop();
  });
  std::atomic<bool> found{false};
  for (int i = 0; i < 2; ++i) {
    all.go([&] {
      for (; !found; this_goroutine::yield()) {
        const thread_lock stay;
        if (current_thread_id() != requested_on || found.exchange(true)) continue;
        may_go_on.close();
        return in_its_place();
      }
    });
  }
  all.wait();
}

TEST(ContextToken, TheLastReferenceGoesOnTheThreadWhereTheStopWasRequested) {
  runtime r({.procs = 2});
  r.run([] {
    std::stop_source source;
    auto both = std::make_unique<std::pair<context, cancel_function>>(
        with_stop_token({}, source.get_token()));
    std::atomic<bool> told{false};
    // relaxed: nothing but the watch may order the callback's return before its end.
    const std::stop_callback tell(both->first.stop_token(),
                                  [&] { told.store(true, std::memory_order_relaxed); });
    request_and_move(source, [&] {
      while (!told.load(std::memory_order_relaxed)) std::this_thread::yield();
      std::this_thread::sleep_for(2ms);
      both.reset();
    });
  });
}

TEST(ContextToken, TheLastReferenceGoesInACallbackThatHasMoved) {
  runtime r({.procs = 2});
  r.run([] {
    std::stop_source source;
    auto both = std::make_unique<std::pair<context, cancel_function>>(
        with_stop_token({}, source.get_token()));
    std::atomic<bool> dropped{false};
    const std::stop_callback drop(both->first.stop_token(), [&] {
      both.reset();
      dropped = true;
    });
    request_and_move(source, [&] {
      while (!dropped) std::this_thread::yield();
    });
  });
}

// Each callback is called inside that of the one before.
TEST(ContextToken, OneListensToAnother) {
  runtime r({.procs = 2});
  r.run([] {
    for (int round = 0; round < 50; ++round) {
      std::stop_source source;
      std::vector<std::pair<context, cancel_function>> chain;
      chain.push_back(with_stop_token({}, source.get_token()));
      for (int i = 0; i < 20; ++i) {
        chain.push_back(with_stop_token({}, chain.back().first.stop_token()));
      }
      auto drops = async([&] {
        const context last = chain.back().first;
        if (round % 2 == 0) (void)last.done().receive();
      });
      source.request_stop();
      expect_ended(chain.back().first, k_canceled);
      drops.get();
    }
  });
}

TEST_P(Context, ItsTokenIsRequestedWithIt) {
  r.run([] {
    auto [ctx, cancel] = with_cancel({});
    const std::stop_token token = ctx.stop_token();
    EXPECT_EQ(token, ctx.stop_token());
    bool called = false;
    const std::stop_callback callback(token, [&, c = ctx] {
      called = true;
      EXPECT_TRUE(is_ready(c.done()));
    });
    cancel();
    EXPECT_TRUE(called);
    auto [timed, cancel_timed] = with_timeout({}, 1ms);
    channel<unit> over;
    const std::stop_callback later(timed.stop_token(), [&] { over.close(); });
    (void)over.receive();
  });
}

// ---- Many at once -----------------------------------------------------------------------------

// Whoever returns from a cancel, first or not, finds everything below ended.
TEST_P(Context, CancelsThatRaceAllFindTheWholeTreeEnded) {
  r.run([] {
    for (int round = 0; round < 50; ++round) {
      auto [top, cancel_top] = with_cancel({});
      auto [middle, cancel_middle] = with_cancel(top);
      std::vector<context> leaves;
      std::vector<receiver<unit>> done;
      for (int i = 0; i < 50; ++i) {
        leaves.push_back(with_cancel(with_cancel(middle).first).first);
        if (i % 2 == 0) done.push_back(leaves.back().done());
      }
      const auto check = [&] {
        for (const context& leaf : leaves) EXPECT_EQ(leaf.error(), k_canceled);
        for (const receiver<unit>& one : done) EXPECT_TRUE(is_ready(one));
      };
      std::vector<future<void>> all;
      for (int i = 0; i < 4; ++i) {
        all.push_back(async([&, i, a = cancel_top, b = cancel_middle] {
          (i % 2 == 0 ? a : b)();
          check();
        }));
      }
      for (auto& one : all) one.get();
    }
  });
}

TEST_P(Context, AnErrorThatIsSeenMeansThatDoneIsReady) {
  r.run([] {
    for (int round = 0; round < 300; ++round) {
      auto [ctx, cancel] = with_cancel({});
      const receiver<unit> done = ctx.done();
      auto sees = async([&, c = ctx] {
        while (!c.error()) this_goroutine::yield();
        EXPECT_TRUE(is_ready(done));
      });
      if (round % 2 == 0) this_goroutine::yield();
      cancel();
      sees.get();
    }
  });
}

TEST_P(Context, ChildrenThatComeAndGoWhileTheParentEnds) {
  r.run([] {
    for (int round = 0; round < 50; ++round) {
      auto [top, cancel] = with_cancel({});
      std::vector<future<void>> all;
      for (int i = 0; i < 4; ++i) {
        all.push_back(async([t = top, i] {
          while (!t.error()) {
            auto [child, end] = with_timeout(t, std::chrono::microseconds(50 * i));
            const auto prevent = after_done(child, [] {});
            (void)child.done();
            if (i % 2 == 0) end();
            if (i == 3) (void)prevent();
            this_goroutine::yield();
          }
          EXPECT_EQ(with_cancel(t).first.error(), k_canceled);
        }));
      }
      this_goroutine::sleep_for(200us);
      cancel();
      for (auto& one : all) one.get();
    }
  });
}

TEST_P(Context, WorksOnPlainThreads) {
  auto [ctx, cancel] = with_timeout({}, 2ms);
  EXPECT_FALSE(ctx.done().receive());
  expect_ended(ctx, k_timed_out);
  auto [other, end] = with_cancel({});
  std::thread waits([c = other] { EXPECT_FALSE(c.done().receive()); });
  end();
  waits.join();
  std::stop_source source;
  auto [stopped, unused] = with_stop_token({}, source.get_token());
  std::thread stops([&] { source.request_stop(); });
  EXPECT_FALSE(stopped.done().receive());
  stops.join();
}

TEST_P(Context, ADeadlineDoesNotKeepARuntimeWaiting) {
  context kept;
  {
    runtime ends{config{.procs = GetParam()}};
    ends.run([&] {
      kept = with_timeout({}, 1h).first;
      (void)with_timeout({}, 1h);
    });
  }
  expect_alive(kept);
}

}  // namespace
}  // namespace magpie
