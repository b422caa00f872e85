// Section D of Go's behaviours: channels and select. One test per row.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <magpie/magpie.h>

#include "conformance.h"
#include "support/stress.h"

namespace magpie {
namespace {

constexpr int k_slower = k_sanitized ? 20 : 1;

constexpr auto ignore = [](auto&&...) {};

void yield_for_a_while() {
  for (int i = 0; i < 50; ++i) this_goroutine::yield();
}

TEST_P(Conformance, D01_ReceiveFromAnEmptyChannelBlocks) {
  runtime r({.procs = ps()});
  r.run([] {
    for (int capacity = 0; capacity < 200; ++capacity) {
      channel<int> c(capacity);
      std::atomic<int> received{0};
      future<void> one = async([&] {
        c.receive();
        ++received;
      });
      future<void> two = async([&] {
        (void)c.receive().has_value();
        ++received;
      });
      yield_for_a_while();
      ASSERT_EQ(received, 0);
      ASSERT_EQ(select(on_receive(c, ignore), otherwise(ignore)), 1);
      c.send(0);
      c.send(0);
      one.get();
      two.get();
    }
  });
}

TEST_P(Conformance, D02_SendToAFullChannelBlocks) {
  runtime r({.procs = ps()});
  r.run([] {
    for (int capacity = 0; capacity < 200; ++capacity) {
      channel<int> c(capacity);
      for (int i = 0; i < capacity; ++i) c.send(i);
      std::atomic<bool> sent{false};
      future<void> sends = async([&] {
        c.send(0);
        sent = true;
      });
      yield_for_a_while();
      ASSERT_FALSE(sent);
      if (capacity > 0) {
        ASSERT_EQ(select(on_send(c, 0, ignore), otherwise(ignore)), 1);
      }
      c.receive();
      sends.get();
    }
  });
}

TEST_P(Conformance, D04_CloseWakesABlockedReceiver) {
  runtime r({.procs = ps()});
  r.run([] {
    for (int capacity = 0; capacity < 200; ++capacity) {
      channel<int> c(capacity);
      future<std::optional<int>> receives = async([=] { return c.receive(); });
      yield_for_a_while();
      c.close();
      ASSERT_EQ(receives.get(), std::nullopt);
    }
  });
}

TEST_P(Conformance, D05_ValuesArriveInOrder) {
  runtime r({.procs = ps()});
  r.run([] {
    for (int capacity = 0; capacity < 200; ++capacity) {
      channel<int> c(capacity);
      for (int form = 0; form < 2; ++form) {
        go([=] {
          for (int i = 0; i < 100; ++i) c.send(i);
        });
        for (int i = 0; i < 100; ++i) {
          int value = -1;
          if (form == 0) {
            value = *c.receive();
          } else {
            ASSERT_EQ(c.receive_for(value, no_timeout), channel_result::ok);
          }
          ASSERT_EQ(value, i);
        }
      }
    }
  });
}

TEST_P(Conformance, D07_SizeAndCapacity) {
  runtime r({.procs = ps()});
  r.run([] {
    for (std::size_t capacity = 0; capacity < 200; ++capacity) {
      channel<int> c(capacity);
      ASSERT_EQ(c.size(), 0u);
      ASSERT_EQ(c.capacity(), capacity);
      for (std::size_t i = 0; i < capacity; ++i) c.send(0);
      ASSERT_EQ(c.size(), capacity);
      ASSERT_EQ(c.capacity(), capacity);
    }
  });
}

TEST_P(Conformance, D09_NonblockSelectRace) {
  constexpr int k_rounds = 100'000 / k_slower;
  runtime r({.procs = ps()});
  r.run([] {
    for (int i = 0; i < k_rounds; ++i) {
      channel<int> c1(1), c2(1);
      c1.send(1);
      channel<bool> done(1);
      go([=] {
        done.send(select(on_receive(c1, ignore), on_receive(c2, ignore), otherwise(ignore)) != 2);
      });
      c2.send(1);
      (void)select(on_receive(c1, ignore), otherwise(ignore));
      ASSERT_EQ(done.receive(), true) << "nothing was ready, it says, in round " << i;
    }
  });
}

// The same with a channel that is closed in between.
TEST_P(Conformance, D09_NonblockSelectRaceWithClose) {
  constexpr int k_rounds = 100'000 / k_slower;
  runtime r({.procs = ps()});
  r.run([] {
    for (int i = 0; i < k_rounds; ++i) {
      channel<int> c1(1), c2;
      c1.send(1);
      channel<bool> done(1);
      go([=] {
        done.send(select(on_receive(c1, ignore), on_receive(c2, ignore), otherwise(ignore)) != 2);
      });
      c2.close();
      (void)select(on_receive(c1, ignore), otherwise(ignore));
      ASSERT_EQ(done.receive(), true) << "nothing was ready, it says, in round " << i;
    }
  });
}

TEST_P(Conformance, D11_SelfSelect) {
  constexpr int k_rounds = 1000;
  runtime r({.procs = ps()});
  r.run([] {
    for (const int capacity : {0, 10}) {
      channel<int> c(capacity);
      std::vector<future<void>> both;
      for (int who = 0; who < 2; ++who) {
        both.push_back(async([=] {
          const auto check = [&](std::optional<int> v) {
            if (v && capacity == 0) {
              ASSERT_NE(*v, who);
            }
          };
          for (int i = 0; i < k_rounds; ++i) {
            if (who == 0 || i % 2 == 0) {
              select(on_send(c, who, ignore), on_receive(c, check));
            } else {
              select(on_receive(c, check), on_send(c, who, ignore));
            }
          }
        }));
      }
      for (auto& one : both) one.get();
    }
  });
}

TEST_P(Conformance, D12_SelectStress) {
  constexpr int k_each = 100'000 / k_slower;
  runtime r({.procs = ps()});
  r.run([] {
    const channel<int> c[4] = {channel<int>(0), channel<int>(0), channel<int>(2), channel<int>(3)};
    std::vector<future<void>> all;
    for (int k = 0; k < 4; ++k) {
      all.push_back(async([one = c[k]] {
        for (int i = 0; i < k_each; ++i) one.send(0);
      }));
      all.push_back(async([one = c[k]] {
        for (int i = 0; i < k_each; ++i) one.receive();
      }));
    }
    // A case whose channel has had its share becomes nil.
    all.push_back(async([&c] {
      channel<int> open[4] = {c[0], c[1], c[2], c[3]};
      int sent[4] = {};
      for (int i = 0; i < 4 * k_each; ++i) {
        const int which = select(on_send(open[3], 0, ignore), on_send(open[2], 0, ignore),
                                 on_send(open[0], 0, ignore), on_send(open[1], 0, ignore));
        constexpr int k_of[4] = {3, 2, 0, 1};
        if (++sent[which] == k_each) open[k_of[which]] = nullptr;
      }
    }));
    all.push_back(async([&c] {
      channel<int> open[4] = {c[0], c[1], c[2], c[3]};
      int received[4] = {};
      for (int i = 0; i < 4 * k_each; ++i) {
        const int which = select(on_receive(open[0], ignore), on_receive(open[1], ignore),
                                 on_receive(open[2], ignore), on_receive(open[3], ignore));
        if (++received[which] == k_each) open[which] = nullptr;
      }
    }));
    for (auto& one : all) one.get();
    for (const auto& one : c) EXPECT_EQ(one.size(), 0u);
  });
}

TEST_P(Conformance, D14_ChanSendInterface) {
  struct base {
    virtual ~base() = default;
  };
  struct derived : base {
    int value = 0;
  };
  runtime r({.procs = ps()});
  r.run([] {
    channel<std::shared_ptr<base>> c(1);
    c.send(std::make_shared<derived>());
    EXPECT_EQ(select(on_send(c, std::make_shared<derived>(), ignore), otherwise(ignore)), 1);
    EXPECT_EQ(select(on_send(c, std::make_shared<derived>(), ignore),
                     on_send(c, std::make_shared<base>(), ignore), otherwise(ignore)),
              2);
    EXPECT_EQ(c.size(), 1u);
  });
}

TEST_P(Conformance, D15_PseudoRandomSend) {
  constexpr int k_count = 100;
  runtime r({.procs = ps()});
  r.run([] {
    for (const int capacity : {0, k_count}) {
      channel<int> c(capacity);
      future<int> zeros = async([=] {
        int n = 0;
        for (int i = 0; i < k_count; ++i) {
          if (*c.receive() == 0) ++n;
          if (i % 10 == 0) this_goroutine::yield();
        }
        return n;
      });
      for (int i = 0; i < k_count; ++i) select(on_send(c, 1, ignore), on_send(c, 0, ignore));
      const int n = zeros.get();
      EXPECT_GT(n, k_count / 10);
      EXPECT_GT(k_count - n, k_count / 10);
    }
  });
}

TEST_P(Conformance, D16_MultiConsumer) {
  constexpr int k_workers = 23;
  constexpr int k_items = 271'828 / k_slower;
  constexpr int k_primes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31};
  runtime r({.procs = ps()});
  r.run([&] {
    channel<int> q(k_workers * 3), results(k_workers * 3);
    std::vector<future<void>> workers;
    for (int i = 0; i < k_workers; ++i) {
      workers.push_back(async([=, &k_primes] {
        for (const int v : q) {
          // Varying work.
          if (k_primes[static_cast<std::size_t>(v) % std::size(k_primes)] == 2) {
            this_goroutine::yield();
          }
          results.send(v);
        }
      }));
    }
    future<std::int64_t> expects = async([=] {
      std::int64_t sum = 0;
      for (int i = 0; i < k_items; ++i) {
        sum += i;
        q.send(i);
      }
      q.close();
      return sum;
    });
    go([workers = std::make_shared<std::vector<future<void>>>(std::move(workers)), results] {
      for (auto& one : *workers) one.get();
      results.close();
    });
    std::int64_t sum = 0;
    int n = 0;
    for (const int v : results) {
      sum += v;
      ++n;
    }
    EXPECT_EQ(n, k_items);
    EXPECT_EQ(sum, expects.get());
  });
}

// In Go: the slots survive a stack that shrinks. Here: those of cases not chosen are not written.
TEST_P(Conformance, D18_UnchosenReceiveTargetsAreNotWritten) {
  runtime r({.procs = ps()});
  r.run([] {
    channel<int> c1, c2, ready;
    future<void> selects = async([=] {
      int first = 11, second = 22;
      ready.send(0);
      for (int i = 0; i < 100; ++i) {
        select(on_receive(c1, [&](std::optional<int> v) { first = *v; }),
               on_receive(c2, [&](std::optional<int> v) { second = *v; }));
        ASSERT_EQ(first, i + 1);
        ASSERT_EQ(second, 22);
      }
    });
    ready.receive();
    for (int i = 0; i < 100; ++i) c1.send(i + 1);
    selects.get();
  });
}

// The row's 100 x 100000 take some seconds each time: that is MAGPIE_STRESS=10.
template <class Send>
void barrier(Send send) {
  struct response {
    std::uint64_t check;
  };
  struct request {
    std::unique_ptr<std::uint64_t> value;
    channel<std::unique_ptr<response>> answer;
  };
  constexpr int k_clients = 100;
  const int each = rt::testing::rounds(10'000);
  channel<std::unique_ptr<request>> requests;
  go([=] {
    for (auto& one : requests) {
      one->answer.send(std::make_unique<response>(response{*one->value * 3}));
    }
  });
  std::vector<future<void>> clients;
  for (int n = 0; n < k_clients; ++n) {
    clients.push_back(async([=] {
      for (int i = 0; i < each; ++i) {
        const std::uint64_t value =
            static_cast<std::uint64_t>(n) * 1'000'000 + static_cast<std::uint64_t>(i);
        channel<std::unique_ptr<response>> answer;
        send(requests,
             std::make_unique<request>(request{std::make_unique<std::uint64_t>(value), answer}));
        ASSERT_EQ((*answer.receive())->check, value * 3);
      }
    }));
  }
  for (auto& one : clients) one.get();
  requests.close();
}

TEST_P(Conformance, D20_ChanSendBarrier) {
  runtime r({.procs = ps()});
  r.run([] { barrier([](const auto& c, auto value) { c.send(std::move(value)); }); });
}

TEST_P(Conformance, D20_ChanSendSelectBarrier) {
  runtime r({.procs = ps()});
  r.run([] {
    barrier([](const auto& c, auto value) {
      select(on_send(c, std::move(value), ignore), on_receive(channel<int>(nullptr), ignore));
    });
  });
}

}  // namespace
}  // namespace magpie
