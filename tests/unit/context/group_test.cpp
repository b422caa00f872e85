#include <gtest/gtest.h>
#include <magpie/magpie.h>

#include <atomic>
#include <memory>
#include <thread>

namespace magpie {
namespace {

using namespace std::chrono_literals;

struct failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Group : public ::testing::TestWithParam<int> {
 protected:
  runtime r{config{.procs = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Ps, Group, ::testing::Values(1, 2, 4, 16));

TEST_P(Group, WaitsForAll) {
  r.run([] {
    std::atomic<int> ended{0};
    group all;
    for (int i = 0; i < 100; ++i) {
      all.go([&ended, i] {
        if (i % 10 == 0) this_goroutine::sleep_for(1ms);
        ++ended;
      });
    }
    all.wait();
    EXPECT_EQ(ended, 100);
  });
}

TEST_P(Group, OfNothingIsOverAtOnce) {
  r.run([] {
    group none;
    EXPECT_FALSE(none.ctx().error());
    none.wait();
    EXPECT_EQ(none.ctx().error(), std::errc::operation_canceled);
    none.wait();
    const group never_waited;
  });
}

TEST_P(Group, TheFirstFailureEndsTheOthers) {
  r.run([] {
    group all;
    for (int i = 0; i < 10; ++i) {
      all.go([](const context& ctx) {
        EXPECT_FALSE(ctx.done().receive());
        throw failure("a consequence");
      });
    }
    all.go([] { throw failure("the first"); });
    for (int i = 0; i < 2; ++i) {
      try {
        all.wait();
        ADD_FAILURE();
      } catch (const failure& e) {
        EXPECT_STREQ(e.what(), "the first");
      }
    }
    try {
      std::rethrow_exception(all.ctx().cause());
    } catch (const failure& e) {
      EXPECT_STREQ(e.what(), "the first");
    }
  });
}

TEST_P(Group, EndsWithItsParent) {
  r.run([] {
    auto [parent, cancel] = with_cancel({});
    group all(parent);
    std::atomic<int> ended{0};
    for (int i = 0; i < 5; ++i) {
      all.go([&](const context& ctx) {
        (void)ctx.done().receive();
        ++ended;
      });
    }
    cancel();
    all.wait();
    EXPECT_EQ(ended, 5);
    EXPECT_FALSE(parent.error() == std::errc::timed_out);
  });
}

TEST_P(Group, DoesNotEndItsParent) {
  r.run([] {
    auto [parent, cancel] = with_cancel({});
    group all(parent);
    all.go([] { throw failure(""); });
    EXPECT_THROW(all.wait(), failure);
    EXPECT_FALSE(parent.error());
  });
}

TEST_P(Group, RunsNoMoreThanItsLimit) {
  r.run([] {
    group all;
    all.set_limit(3);
    std::atomic<int> running{0}, most{0}, ended{0};
    for (int i = 0; i < 300; ++i) {
      all.go([&] {
        const int now = ++running;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        this_goroutine::yield();
        --running;
        ++ended;
      });
    }
    all.wait();
    EXPECT_EQ(ended, 300);
    EXPECT_LE(most, 3);
  });
}

TEST_P(Group, TryGoDoesNotWait) {
  r.run([] {
    group all;
    all.set_limit(1);
    channel<unit> go_on;
    auto token = std::make_unique<int>(1);
    EXPECT_TRUE(all.try_go([&] { (void)go_on.receive(); }));
    EXPECT_FALSE(all.try_go([t = token.get()] { *t = 2; }));
    go_on.send({});
    all.wait();
    EXPECT_EQ(*token, 1);
    all.set_limit(0);
    EXPECT_FALSE(all.try_go([] {}));
    all.set_limit(-1);
    EXPECT_TRUE(all.try_go([] {}));
    all.wait();
  });
}

TEST_P(Group, AHigherLimitLetsThoseWhoWaitBegin) {
  r.run([] {
    group all;
    all.set_limit(0);
    std::atomic<int> ran{0};
    wait_group starters;
    for (int i = 0; i < 4; ++i) starters.go([&] { all.go([&] { ++ran; }); });
    this_goroutine::sleep_for(1ms);
    EXPECT_EQ(ran, 0);
    all.set_limit(2);
    starters.wait();
    all.wait();
    EXPECT_EQ(ran, 4);
  });
}

TEST_P(Group, ExitCountsAsDone) {
  r.run([] {
    group all;
    all.set_limit(1);
    for (int i = 0; i < 5; ++i) all.go([] { this_goroutine::exit(); });
    all.wait();
  });
}

TEST_P(Group, DestroyedWithoutWaitItCancelsAndWaits) {
  r.run([] {
    std::atomic<int> ended{0};
    {
      group all;
      for (int i = 0; i < 5; ++i) {
        all.go([&](const context& ctx) {
          (void)ctx.done().receive();
          ++ended;
          throw failure("dropped");
        });
      }
    }
    EXPECT_EQ(ended, 5);
  });
}

TEST_P(Group, AFunctionIsGoneBeforeWaitReturns) {
  r.run([] {
    for (int i = 0; i < 200; ++i) {
      const auto witness = std::make_shared<int>();
      auto all = std::make_unique<group>();
      for (int n = 0; n < 3; ++n) all->go([witness] { this_goroutine::yield(); });
      all->wait();
      ASSERT_EQ(witness.use_count(), 1);
      all.reset();
    }
  });
}

struct throws_when_copied {
  throws_when_copied() = default;
  throws_when_copied(const throws_when_copied&) { throw failure("copied"); }
  void operator()() const { ADD_FAILURE(); }
};

TEST_P(Group, AFunctionThatCannotBeCopiedIsNotCounted) {
  r.run([] {
    group all;
    const throws_when_copied f;
    EXPECT_THROW(all.go(f), failure);
    all.wait();
  });
}

TEST_P(Group, MayBeUsedByPlainThreads) {
  std::atomic<int> ended{0};
  group all;
  all.set_limit(2);
  for (int i = 0; i < 20; ++i) {
    all.go([&] {
      this_goroutine::sleep_for(100us);
      ++ended;
    });
  }
  all.wait();
  EXPECT_EQ(ended, 20);
}

}  // namespace
}  // namespace magpie
