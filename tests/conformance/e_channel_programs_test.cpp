// Section E of Go's behaviours: whole programs made of channels. One test per row.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <magpie/magpie.h>

#include "base/random.h"
#include "conformance.h"

// Some programs leave goroutines behind that wait for ever, as Go's do. What those hold is
// reachable from their stacks only, where the leak checker does not look.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:e_channel_programs_test.cpp\n";
}

namespace magpie {
namespace {

constexpr int k_slower = k_sanitized ? 20 : 1;

constexpr auto ignore = [](auto&&...) {};

// Whether f is still not through after a while: it blocks. It is left behind, so what it uses
// must outlive the test.
template <class F>
bool blocks(F f) {
  auto through = std::make_shared<std::atomic<bool>>(false);
  go([=] {
    f();
    *through = true;
  });
  for (int i = 0; i < 100; ++i) this_goroutine::yield();
  this_goroutine::sleep_for(std::chrono::milliseconds(1));
  return !*through;
}

// Never end: goroutines are left in them that wait for ever.
runtime& endless(int ps) {
  static runtime* const with[] = {new runtime({.procs = 1}), new runtime({.procs = 2}),
                                  new runtime({.procs = 4}), new runtime({.procs = 16})};
  return *with[ps == 1 ? 0 : ps == 2 ? 1 : ps == 4 ? 2 : 3];
}

TEST_P(Conformance, E01_DoubleSelect) {
  constexpr int k_rounds = 100'000 / k_slower;
  runtime r({.procs = ps()});
  r.run([] {
    channel<int> c[4] = {channel<int>(0), channel<int>(0), channel<int>(0), channel<int>(0)};
    channel<int> all(8);
    go([&, c] {
      for (int i = 0; i < k_rounds; ++i) {
        select(on_send(c[0], i, ignore), on_send(c[1], i, ignore), on_send(c[2], i, ignore),
               on_send(c[3], i, ignore));
      }
      for (const auto& one : c) one.close();
    });
    std::vector<future<void>> readers;
    for (const auto& one : c) {
      readers.push_back(async([=] {
        for (const int v : one) all.send(v);
      }));
    }
    future<void> ends = async([&] {
      for (auto& one : readers) one.get();
      all.close();
    });
    std::vector<bool> seen(k_rounds);
    int n = 0;
    for (const int v : all) {
      ASSERT_FALSE(seen[static_cast<std::size_t>(v)]) << v << " came twice";
      seen[static_cast<std::size_t>(v)] = true;
      ++n;
    }
    EXPECT_EQ(n, +k_rounds);
    ends.get();
  });
}

TEST_P(Conformance, E02_Fifo) {
  runtime r({.procs = ps()});
  r.run([] {
    channel<int> c(10);
    for (int i = 0; i < 10; ++i) c.send(i);
    for (int i = 0; i < 10; ++i) ASSERT_EQ(c.receive(), i);

    // The same through a chain in which each passes the turn on.
    channel<int> values;
    channel<int> turn(1);
    turn.send(1);
    channel<int> in = turn;
    for (int i = 0; i < 10; ++i) {
      channel<int> out(1);
      go([=] {
        EXPECT_EQ(values.receive(), i);
        EXPECT_EQ(in.receive(), 1);
        out.send(1);
      });
      values.send(i);
      in = out;
    }
    EXPECT_EQ(in.receive(), 1);
  });
}

TEST_P(Conformance, E04_AChainOfTenThousand) {
  constexpr int k_length = 10'000;
  runtime r({.procs = ps()});
  r.run([] {
    const channel<int> leftmost;
    channel<int> right = leftmost, left = leftmost;
    for (int i = 0; i < k_length; ++i) {
      right = channel<int>();
      go([=] { left.send(*right.receive()); });
      left = right;
    }
    go([=] { right.send(1); });
    EXPECT_EQ(leftmost.receive(), 1);
  });
}

template <class C>
concept can_send = requires(C c) {
  c.send(1);
};
template <class C>
concept can_receive = requires(C c) {
  c.receive();
};
template <class C>
concept can_close = requires(C c) {
  c.close();
};
template <class C>
concept can_iterate = requires(C c) {
  c.begin();
};
template <class C>
concept can_on_send = requires(C c) {
  on_send(c, 1, [] {});
};
template <class C>
concept can_on_receive = requires(C c) {
  on_receive(c, [](std::optional<int>) {});
};

TEST(Conformance, E06_Perm) {
  using both = channel<int>;
  using out = sender<int>;
  using in = receiver<int>;
  static_assert(can_send<both> && can_receive<both> && can_close<both> && can_iterate<both>);
  static_assert(can_send<out> && !can_receive<out> && can_close<out> && !can_iterate<out>);
  static_assert(!can_send<in> && can_receive<in> && !can_close<in> && can_iterate<in>);
  static_assert(can_on_send<both> && can_on_receive<both>);
  static_assert(can_on_send<out> && !can_on_receive<out>);
  static_assert(!can_on_send<in> && can_on_receive<in>);
  static_assert(std::is_convertible_v<both, out> && std::is_convertible_v<both, in>);
  static_assert(!std::is_constructible_v<both, out> && !std::is_constructible_v<both, in>);
  static_assert(!std::is_constructible_v<in, out> && !std::is_constructible_v<out, in>);
}

TEST_P(Conformance, E09_Select) {
  runtime r({.procs = ps()});
  r.run([] {
    int counter = 0;
    int shift = 0;
    const auto value = [&] {
      ++counter;
      return 1 << shift++;
    };
    const channel<int> c1(1), c2(1);
    channel<int> a = c1, b = c2;
    int got = 0;
    for (int round = 0; round < 2; ++round) {
      select(on_send(a, value(), [&] { a = nullptr; }), on_send(b, value(), [&] { b = nullptr; }));
    }
    EXPECT_FALSE(a);
    EXPECT_FALSE(b);
    // Nil on both sides: nothing is chosen, and all values are made all the same.
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(select(on_send(a, value(), ignore), on_send(b, value(), ignore), otherwise(ignore)),
                2);
    }
    EXPECT_EQ(counter, 10);
    got = *c1.receive() | *c2.receive();
    // One value of each round arrived.
    EXPECT_TRUE((got & 3) == 1 || (got & 3) == 2);
    EXPECT_TRUE((got >> 2 & 3) == 1 || (got >> 2 & 3) == 2);
  });
}

TEST_P(Conformance, E11_NilChannelsBlock) {
  endless(ps()).run([] {
    const channel<int> nil(nullptr);
    EXPECT_TRUE(blocks([=] { nil.send(7); }));
    EXPECT_TRUE(blocks([=] { nil.receive(); }));
    EXPECT_TRUE(blocks([=] { select(on_send(nil, 7, ignore)); }));
    EXPECT_TRUE(blocks([=] { select(on_receive(nil, ignore)); }));
    EXPECT_TRUE(blocks([=] { select(on_send(nil, 7, ignore), on_receive(nil, ignore)); }));
    EXPECT_TRUE(blocks([] { select(); }));
    EXPECT_FALSE(blocks([=] { select(on_send(nil, 7, ignore), otherwise(ignore)); }));
    EXPECT_FALSE(blocks([=] {
      EXPECT_EQ(select(on_receive(nil, ignore), on_send(nil, 7, ignore), otherwise(ignore)), 2);
    }));
  });
}

TEST_P(Conformance, E12_ClosedChannelsDoNotBlock) {
  runtime r({.procs = ps()});
  r.run([] {
    const channel<int> closed;
    closed.close();
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(closed.receive(), std::nullopt);
      EXPECT_EQ(select(on_receive(closed, ignore)), 0);
      EXPECT_EQ(select(on_receive(closed, ignore), otherwise(ignore)), 0);
    }
    EXPECT_THROW(closed.send(7), closed_channel);
    EXPECT_THROW(select(on_send(closed, 7, ignore)), closed_channel);
    EXPECT_THROW(select(on_send(closed, 7, ignore), otherwise(ignore)), closed_channel);
    EXPECT_THROW(select(on_send(closed, 7, ignore), on_receive(channel<int>(), ignore)),
                 closed_channel);
  });
}

TEST_P(Conformance, E14_NobodyReceivesFromItself) {
  endless(ps()).run([] {
    const channel<int> c;
    EXPECT_TRUE(blocks([=] { select(on_send(c, 7, ignore), on_receive(c, ignore)); }));
    EXPECT_TRUE(blocks([] {
      const channel<int> own;
      select(on_send(own, 7, ignore), on_receive(own, ignore), on_send(own, 8, ignore),
             on_receive(own, ignore));
    }));
  });
}

TEST_P(Conformance, E15_TheTargetOfACaseNotChosenIsNotEvaluated) {
  runtime r({.procs = ps()});
  r.run([] {
    const channel<int> c(1), c1;
    c.send(42);
    int evaluated = 0, x = 0;
    const auto target = [&]() -> int& {
      ++evaluated;
      return x;
    };
    EXPECT_EQ(select(on_receive(c1, [&](std::optional<int> v) { target() = *v; }),
                     on_receive(c, [&](std::optional<int> v) { x = *v; })),
              1);
    EXPECT_EQ(x, 42);
    EXPECT_EQ(evaluated, 0);
  });
}

TEST_P(Conformance, E17_ALoserThatIsLastInLineDoesNotBreakIt) {
  endless(ps()).run([] {
    const channel<bool> c1, c2, c3, c4;
    go([=] { c1.receive(); });
    go([=] {
      select(on_receive(c1, [](auto) { FAIL(); }), on_receive(c2, [=](auto) { c3.send(true); }));
      c1.receive();  // queues up behind
    });
    c2.send(true);
    c3.receive();
    go([=] {
      c1.receive();
      c4.send(true);
    });
    c1.send(true);
    c1.send(true);
    c1.send(true);
    EXPECT_EQ(c4.receive(), true);
  });
}

TEST_P(Conformance, E19_SelectsOfAnySizeCanBeLeft) {
  runtime r({.procs = ps()});
  r.run([] {
    channel<int> closed, never;
    closed.close();
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(select(otherwise(ignore)), 0);
      EXPECT_EQ(select(on_receive(closed, ignore)), 0);
      EXPECT_EQ(select(on_receive(closed, ignore), otherwise(ignore)), 0);
      EXPECT_EQ(select(on_receive(never, ignore), otherwise(ignore)), 1);
      EXPECT_EQ(select(on_receive(closed, ignore), on_receive(never, ignore)), 0);
      EXPECT_EQ(select(on_receive(never, ignore), on_receive(closed, ignore), otherwise(ignore)),
                1);
      EXPECT_EQ(
          select(on_receive(never, ignore), on_send(never, 1, ignore), on_receive(closed, ignore)),
          2);
    }
  });
}

TEST_P(Conformance, E20_ChannelsOfChannels) {
  runtime r({.procs = ps()});
  r.run([] {
    channel<channel<int>> cc(1);
    channel<int> c(1);
    cc.send(c);
    // Sends to the channel that is received first.
    EXPECT_EQ(select(on_send(*cc.receive(), 7, ignore)), 0);
    EXPECT_EQ(c.receive(), 7);
    cc.send(c);
    c.send(8);
    int got = 0;
    EXPECT_EQ(
        select(on_receive(cc,
                          [&](std::optional<channel<int>> inner) {
                            select(on_receive(*inner, [&](std::optional<int> v) { got = *v; }));
                          })),
        0);
    EXPECT_EQ(got, 8);
  });
}

TEST_P(Conformance, E21_Sieve) {
  endless(ps()).run([] {
    channel<int> source;
    go([source] {
      for (int i = 2;; ++i) source.send(i);
    });
    std::vector<int> primes;
    channel<int> in = source;
    for (int i = 0; i < 25; ++i) {
      const int prime = *in.receive();
      primes.push_back(prime);
      const channel<int> out;
      go([in, out, prime] {
        for (;;) {
          const int n = *in.receive();
          if (n % prime != 0) out.send(n);
        }
      });
      in = out;
    }
    const std::vector<int> expected{2,  3,  5,  7,  11, 13, 17, 19, 23, 29, 31, 37, 41,
                                    43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97};
    EXPECT_EQ(primes, expected);
  });
}

TEST_P(Conformance, E23_ZeroSize) {
  runtime r({.procs = ps()});
  r.run([] {
    channel<unit> c0, c1(1);
    go([=] { c0.send({}); });
    EXPECT_TRUE(c0.receive());
    c1.send({});
    EXPECT_FALSE(c1.try_send(unit{}));
    EXPECT_TRUE(c1.receive());
    EXPECT_EQ(c1.size(), 0u);
  });
}

// ---- Power series -----------------------------------------------------------------------------
//
// A series is a process that gives its next coefficient when it is asked for one.

struct rational {
  std::int64_t numerator = 0, denominator = 1;

  static rational of(std::int64_t n, std::int64_t d) {
    const std::int64_t g = std::gcd(n, d);
    return d > 0 ? rational{n / g, d / g} : rational{-n / g, -d / g};
  }
  friend rational operator+(rational a, rational b) {
    return of(a.numerator * b.denominator + b.numerator * a.denominator,
              a.denominator * b.denominator);
  }
  friend rational operator*(rational a, rational b) {
    return of(a.numerator * b.numerator, a.denominator * b.denominator);
  }
  bool operator==(const rational&) const = default;
};

struct series {
  channel<unit> ask;
  channel<rational> answer;

  rational get() const {
    ask.send({});
    return *answer.receive();
  }
  void put(rational r) const {
    ask.receive();
    answer.send(r);
  }
};

template <class F>
series make_series(F f) {
  series s;
  go([s, f] { f(s); });
  return s;
}

void copy(const series& from, const series& to) {
  for (;;) {
    to.ask.receive();
    from.ask.send({});
    to.answer.send(*from.answer.receive());
  }
}

// Two series with the coefficients of one; whoever asks first lets the other have it, too. Each
// coefficient grows the tree by one process.
void split_into(const series& from, const series& a, const series& b) {
  const bool a_first = select(on_receive(a.ask, ignore), on_receive(b.ask, ignore)) == 0;
  const series& first = a_first ? a : b;
  const series& second = a_first ? b : a;
  const series rest;
  go([=] { split_into(from, first, rest); });
  const rational r = from.get();
  first.answer.send(r);
  second.ask.receive();
  second.answer.send(r);
  copy(rest, second);
}

std::pair<series, series> split(const series& from) {
  std::pair<series, series> both;
  go([=] { split_into(from, both.first, both.second); });
  return both;
}

series repeat(rational r) {
  return make_series([=](const series& s) {
    for (;;) s.put(r);
  });
}

series add(const series& u, const series& v) {
  return make_series([=](const series& s) {
    for (;;) s.put(u.get() + v.get());
  });
}

series scale(rational c, const series& u) {
  return make_series([=](const series& s) {
    for (;;) s.put(c * u.get());
  });
}

series integral(rational constant, const series& u) {
  return make_series([=](const series& s) {
    s.put(constant);
    for (std::int64_t i = 1;; ++i) s.put(rational::of(1, i) * u.get());
  });
}

// (f + xU)(g + xV) = fg + x(fV + gU) + xxUV
series multiply(const series& u, const series& v) {
  return make_series([=](const series& s) {
    s.ask.receive();
    const rational f = u.get(), g = v.get();
    s.answer.send(f * g);
    const auto uu = split(u), vv = split(v);
    const series mixed = add(scale(f, vv.first), scale(g, uu.first));
    s.put(mixed.get());
    copy(add(mixed, multiply(uu.second, vv.second)), s);
  });
}

// The series that is its own integral.
series exponential() {
  const series z;
  const auto zz = split(z);
  go([=] { copy(integral({1, 1}, zz.first), z); });
  return zz.second;
}

std::vector<rational> first_of(const series& s, int n) {
  std::vector<rational> all;
  for (int i = 0; i < n; ++i) all.push_back(s.get());
  return all;
}

TEST_P(Conformance, E07_PowerSeries) {
  endless(ps()).run([] {
    const auto ones = [] { return repeat({1, 1}); };
    const auto whole = [](std::vector<std::int64_t> numbers) {
      std::vector<rational> all;
      for (const std::int64_t n : numbers) all.push_back({n, 1});
      return all;
    };
    EXPECT_EQ(first_of(add(ones(), repeat({2, 1})), 5), whole({3, 3, 3, 3, 3}));
    EXPECT_EQ(first_of(multiply(ones(), ones()), 12),
              whole({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
    EXPECT_EQ(first_of(multiply(ones(), multiply(ones(), ones())), 10),
              whole({1, 3, 6, 10, 15, 21, 28, 36, 45, 55}));
    const std::vector<rational> e{{1, 1},  {1, 1},   {1, 2},   {1, 6},
                                  {1, 24}, {1, 120}, {1, 720}, {1, 5040}};
    EXPECT_EQ(first_of(exponential(), 8), e);
    // e^x * e^x = e^2x
    const std::vector<rational> e2{{1, 1}, {2, 1}, {2, 1}, {4, 3}, {2, 3}, {4, 15}};
    EXPECT_EQ(first_of(multiply(exponential(), exponential()), 6), e2);
  });
}

// ---- ken/chan ---------------------------------------------------------------------------------

// Many channels, each of which carries a sequence of its own. Senders and receivers serve one
// channel each, or several by select.
class many_channels {
 public:
  struct one {
    channel<int> c;
    int first = 0;  // what it begins with
    int sent = 0, received = 0;
    channel<int> send, receive;  // as `c`, and nil when it has had its share
  };
  static constexpr int k_each = 76;

  many_channels(int count, int capacity, std::uint64_t seed) : random_(seed) {
    for (int i = 0; i < count; ++i) {
      auto x = std::make_unique<one>();
      x->c = channel<int>(capacity);
      x->first = i * 10'000;
      x->send = x->receive = x->c;
      all_.push_back(std::move(x));
    }
  }
  one& at(int i) { return *all_[static_cast<std::size_t>(i)]; }

  void send_alone(int i) {
    one& x = at(i);
    while (x.sent < k_each) {
      x.c.send(x.first + x.sent);
      note_sent(x);
    }
  }
  void receive_alone(int i) {
    one& x = at(i);
    while (x.received < k_each) note_received(x, x.c.receive());
  }
  void send_four(int i) {
    one &a = at(i), &b = at(i + 1), &c = at(i + 2), &d = at(i + 3);
    for (int n = 0; n < 4 * k_each; ++n) {
      select(on_send(a.send, a.first + a.sent, [&] { note_sent(a); }),
             on_send(b.send, b.first + b.sent, [&] { note_sent(b); }),
             on_send(c.send, c.first + c.sent, [&] { note_sent(c); }),
             on_send(d.send, d.first + d.sent, [&] { note_sent(d); }));
    }
  }
  void receive_four(int i) {
    one &a = at(i), &b = at(i + 1), &c = at(i + 2), &d = at(i + 3);
    for (int n = 0; n < 4 * k_each; ++n) {
      select(on_receive(a.receive, [&](std::optional<int> v) { note_received(a, v); }),
             on_receive(b.receive, [&](std::optional<int> v) { note_received(b, v); }),
             on_receive(c.receive, [&](std::optional<int> v) { note_received(c, v); }),
             on_receive(d.receive, [&](std::optional<int> v) { note_received(d, v); }));
    }
  }
  // Sends and receives in one place.
  void both_of_four(int out, int in) {
    one &a = at(out), &b = at(out + 1), &c = at(in), &d = at(in + 1);
    for (int n = 0; n < 4 * k_each; ++n) {
      select(on_send(a.send, a.first + a.sent, [&] { note_sent(a); }),
             on_receive(c.receive, [&](std::optional<int> v) { note_received(c, v); }),
             on_send(b.send, b.first + b.sent, [&] { note_sent(b); }),
             on_receive(d.receive, [&](std::optional<int> v) { note_received(d, v); }));
    }
  }

  void expect_all_through() {
    for (const auto& x : all_) {
      EXPECT_EQ(x->sent, k_each);
      EXPECT_EQ(x->received, k_each);
    }
  }

 private:
  void note_sent(one& x) {
    if (++x.sent == k_each) x.send = nullptr;
    sometimes_yield();
  }
  void note_received(one& x, std::optional<int> v) {
    ASSERT_EQ(v, x.first + x.received);
    if (++x.received == k_each) x.receive = nullptr;
    sometimes_yield();
  }
  void sometimes_yield() {
    // One number for everybody: what matters is that it is different every time.
    if (rt::random_source(random_.fetch_add(1)).below(4) == 0) this_goroutine::yield();
  }

  std::vector<std::unique_ptr<one>> all_;
  std::atomic<std::uint64_t> random_;
};

TEST_P(Conformance, E24_KenChan) {
  using f = std::function<void(many_channels&)>;
  const auto sends = [](int i) { return f([=](many_channels& m) { m.send_alone(i); }); };
  const auto receives = [](int i) { return f([=](many_channels& m) { m.receive_alone(i); }); };
  const f send_four = [](many_channels& m) { m.send_four(0); };
  const f receive_four = [](many_channels& m) { m.receive_four(0); };
  const std::vector<std::vector<f>> topologies{
      {sends(0), sends(1), sends(2), sends(3), receives(0), receives(1), receives(2), receives(3)},
      {send_four, receives(0), receives(1), receives(2), receives(3)},
      {sends(0), sends(1), sends(2), sends(3), receive_four},
      {send_four, receive_four},
      {[](many_channels& m) { m.both_of_four(0, 2); },
       [](many_channels& m) { m.both_of_four(2, 0); }},
  };
  runtime r({.procs = ps()});
  r.run([&] {
    std::uint64_t seed = 1;
    for (const int capacity : {0, 1, 10, 100}) {
      for (const auto& topology : topologies) {
        many_channels m(4, capacity, seed += 1'000'000);
        std::vector<future<void>> all;
        for (const f& one : topology) all.push_back(async([&] { one(m); }));
        for (auto& one : all) one.get();
        m.expect_all_through();
      }
      // Twelve channels, of which eight go through selects that do both.
      many_channels m(12, capacity, seed += 1'000'000);
      std::vector<future<void>> all;
      for (const int i : {0, 4, 8}) {
        if (i == 8) {
          all.push_back(async([&m] { m.send_four(8); }));
          all.push_back(async([&m] { m.receive_four(8); }));
        } else {
          all.push_back(async([&m, i] { m.both_of_four(i, i + 2); }));
          all.push_back(async([&m, i] { m.both_of_four(i + 2, i); }));
        }
      }
      for (auto& one : all) one.get();
      m.expect_all_through();
    }
  });
}

TEST_P(Conformance, E26_ClosedChan) {
  // The three ways to do it: plain, and by select with one case and with two.
  struct way {
    std::function<std::optional<int>(const channel<int>&)> receive;
    std::function<void(const channel<int>&, int)> send;
  };
  const channel<int> never;
  const std::vector<way> ways{
      {[](const channel<int>& c) { return c.receive(); },
       [](const channel<int>& c, int v) { c.send(v); }},
      {[](const channel<int>& c) {
         std::optional<int> got = -1;
         select(on_receive(c, [&](std::optional<int> v) { got = v; }));
         return got;
       },
       [](const channel<int>& c, int v) { select(on_send(c, v, ignore)); }},
      {[=](const channel<int>& c) {
         std::optional<int> got = -1;
         select(on_receive(c, [&](std::optional<int> v) { got = v; }), on_receive(never, ignore));
         return got;
       },
       [=](const channel<int>& c, int v) {
         select(on_send(c, v, ignore), on_receive(never, ignore));
       }},
  };
  runtime r({.procs = ps()});
  r.run([&] {
    for (const way& w : ways) {
      const channel<int> direct;
      direct.close();
      const channel<int> buffered(2);
      w.send(buffered, 1);
      buffered.close();
      EXPECT_EQ(w.receive(buffered), 1);
      for (const auto& c : {direct, buffered}) {
        for (int i = 0; i < 3; ++i) EXPECT_EQ(w.receive(c), std::nullopt);
        EXPECT_THROW(w.send(c, 2), closed_channel);
        EXPECT_EQ(w.receive(c), std::nullopt);  // the value was not kept
        int out = 5;
        EXPECT_EQ(c.try_receive(out), channel_result::closed);
        EXPECT_EQ(out, 5);
        EXPECT_THROW(c.close(), closed_channel);
      }
    }
    EXPECT_THROW(channel<int>(nullptr).close(), closed_channel);
  });
}

// n goroutines in a select on a shared and a private channel each; waking them one by one through
// the private ones. Leaving the middle of a line must not cost more when the line is long.
TEST(Conformance, E28_ChanLinear) {
  // Of the processor, not of the wall: others may use it, too.
  const auto once = [](int n) {
    runtime r({.procs = 1});
    return r.run([n] {
      const channel<int> shared;
      std::vector<channel<int>> own(static_cast<std::size_t>(n));
      std::vector<future<void>> all;
      for (const auto& mine : own) {
        all.push_back(async([=] { select(on_receive(shared, ignore), on_receive(mine, ignore)); }));
      }
      this_goroutine::yield();
      const std::clock_t start = std::clock();
      for (const auto& one : own) one.send(1);
      for (auto& one : all) one.get();
      return std::clock() - start;
    });
  };
  const auto time_for = [&once](int n) {
    std::clock_t best = once(n);
    for (int i = 0; i < 4; ++i) best = std::min(best, once(n));
    return best;
  };
  // Were it linear, ten times as many would take a hundred times as long.
  constexpr int k_few = 2'000 / k_slower;
  EXPECT_LT(time_for(10 * k_few), 50 * (time_for(k_few) + 1));
}

TEST_P(Conformance, E29_ASendWithoutBufferEndsWhenTheValueIsReceived) {
  runtime r({.procs = ps()});
  r.run([] {
    const channel<int> request;
    std::atomic<bool> received_first{false}, may_receive{false};
    future<void> receives = async([&] {
      request.receive();
      received_first = true;
      while (!may_receive) this_goroutine::yield();
      request.receive();
    });
    request.send(1);
    std::atomic<bool> sent{false};
    future<void> sends = async([&] {
      request.send(2);
      sent = true;
    });
    for (int i = 0; i < 200; ++i) this_goroutine::yield();
    EXPECT_FALSE(sent);
    may_receive = true;
    sends.get();
    receives.get();
    EXPECT_TRUE(received_first);
  });
}

TEST_P(Conformance, E30_ReceiveWithoutWaitingBeforeAndAfterASend) {
  runtime r({.procs = ps()});
  r.run([] {
    const channel<int> c(1);
    int value = 0;
    EXPECT_EQ(c.try_receive(value), channel_result::would_block);
    c.send(100);
    EXPECT_EQ(c.try_receive(value), channel_result::ok);
    EXPECT_EQ(value, 100);
    EXPECT_EQ(c.try_receive(value), channel_result::would_block);
    c.send(101);
    c.close();
    EXPECT_EQ(c.try_receive(value), channel_result::ok);
    EXPECT_EQ(value, 101);
    EXPECT_EQ(c.try_receive(value), channel_result::closed);
    EXPECT_EQ(value, 101);
  });
}

// Uses some stack, so that a value in the wrong place would be overwritten.
[[gnu::noinline]] std::uint64_t use_stack(int depth, std::uint64_t seed) {
  volatile std::uint64_t words[16];
  for (auto& word : words) word = seed;
  return depth == 0 ? words[3] : use_stack(depth - 1, seed + 1) + words[15];
}

TEST_P(Conformance, E32_ObjectsArriveWhole) {
  struct object {
    std::uint64_t words[12];
  };
  constexpr int k_each = 100'000 / k_slower;
  runtime r({.procs = ps()});
  r.run([] {
    const channel<object> c;
    std::vector<future<void>> all;
    for (int n = 0; n < 10; ++n) {
      all.push_back(async([=] {
        for (int i = 0; i < k_each; ++i) {
          object o;
          for (auto& word : o.words) word = static_cast<std::uint64_t>(n * k_each + i);
          c.send(o);
          (void)use_stack(i % 32, o.words[0]);
        }
      }));
      all.push_back(async([=] {
        for (int i = 0; i < k_each; ++i) {
          const object o = *c.receive();
          (void)use_stack(i % 32, o.words[0]);
          for (const auto word : o.words) ASSERT_EQ(word, o.words[0]);
        }
      }));
    }
    for (auto& one : all) one.get();
  });
}

}  // namespace
}  // namespace magpie
