// go(): what a goroutine is made of, and that nothing of it is left behind.
#include <magpie/go.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <magpie/async.h>
#include <magpie/runtime.h>

#include "support/baton.h"

namespace magpie {
namespace {

using rt::testing::baton;

template <class T>
void keep(T& value) {
  asm volatile("" : : "r"(&value) : "memory");
}

// Counts its living copies, and what was done to get them.
struct tracked {
  struct counts {
    std::atomic<int> alive{0}, copies{0}, moves{0};
  };
  counts* of;
  explicit tracked(counts& c) : of(&c) { ++of->alive; }
  tracked(const tracked& other) : of(other.of) { ++of->alive, ++of->copies; }
  tracked(tracked&& other) noexcept : of(other.of) { ++of->alive, ++of->moves; }
  ~tracked() { --of->alive; }
};

TEST(Go, RunsTheFunction) {
  baton ran;
  go([&] { ran.give(); });
  ran.take();
}

TEST(Go, CopiesItsArguments) {
  runtime r({.procs = 1});
  r.run([] {
    std::string text = "before";
    const char literal[] = "array";
    int number = 1;
    baton done;
    go(
        [&done](const std::string& t, const char* l, int n) {
          EXPECT_EQ(t, "before");
          EXPECT_STREQ(l, "array");
          EXPECT_EQ(n, 1);
          done.give();
        },
        text, literal, number);
    text = "after";
    number = 2;
    done.take();
  });
}

TEST(Go, PassesReferencesThatAreWrapped) {
  baton done;
  int number = 1;
  go(
      [](int& n, baton& d) {
        n = 2;
        d.give();
      },
      std::ref(number), std::ref(done));
  done.take();
  EXPECT_EQ(number, 2);
}

TEST(Go, CallsMembersOfObjects) {
  struct object {
    void set(int v) {
      value = v;
      done.give();
    }
    int value = 0;
    baton done;
  } o;
  go(&object::set, &o, 3);
  o.done.take();
  EXPECT_EQ(o.value, 3);
}

int g_called = 0;
baton g_function_done;
void plain_function() {
  ++g_called;
  g_function_done.give();
}

TEST(Go, CallsPlainFunctions) {
  const int before = g_called;
  go(plain_function);
  g_function_done.take();
  go(&plain_function);
  g_function_done.take();
  EXPECT_EQ(g_called, before + 2);
}

TEST(Go, TakesCallablesAndArgumentsThatOnlyMove) {
  baton done;
  auto captured = std::make_unique<int>(1);
  auto argument = std::make_unique<int>(2);
  go(
      [&done, captured = std::move(captured)](std::unique_ptr<int> passed) {
        EXPECT_EQ(*captured + *passed, 3);
        done.give();
      },
      std::move(argument));
  done.take();
  EXPECT_EQ(argument, nullptr);
}

TEST(Go, CallsTheCallableAsAnRvalue) {
  struct once {
    baton* done;
    void operator()() && { done->give(); }
  };
  baton done;
  go(once{&done});
  done.take();
}

TEST(Go, TakesACallableWithMembersOfAnyName) {
  struct callable {
    baton* done;
    int end() const { return 0; }
    int begin() const { return 0; }
    void operator()() const { done->give(); }
  };
  baton done;
  go(callable{&done});
  done.take();
  async(callable{&done}).get();
  done.take();
}

TEST(Go, CopiesALvalueOnceAndDestroysEveryCopy) {
  tracked::counts counts;
  baton done;
  {
    const tracked original(counts);
    auto callable = [original, &done] { done.give(); };
    const int before = counts.copies;
    go(callable);
    EXPECT_EQ(counts.copies, before + 1);
  }
  done.take();
  while (counts.alive != 0) std::this_thread::yield();
}

// Sizes on both sides of what fits into the goroutine itself, with a destructor.
template <std::size_t Size>
struct filled {
  std::array<unsigned char, Size> bytes;
  std::unique_ptr<tracked> life;
  baton* done;
  void operator()() const {
    for (std::size_t i = 0; i < Size; ++i) {
      ASSERT_EQ(bytes[i], static_cast<unsigned char>(i * 7 + Size)) << i << " of " << Size;
    }
    done->give();
  }
};

template <std::size_t Size>
void spawn_filled() {
  tracked::counts counts;
  baton done;
  filled<Size> f{{}, std::make_unique<tracked>(counts), &done};
  for (std::size_t i = 0; i < Size; ++i) f.bytes[i] = static_cast<unsigned char>(i * 7 + Size);
  go(std::move(f));
  done.take();
  while (counts.alive != 0) std::this_thread::yield();
}

// The same without one: those are copied as bytes.
template <std::size_t Size>
void spawn_bytes() {
  struct closure {
    baton* done;
    std::array<unsigned char, Size> bytes;
    void operator()() const {
      for (std::size_t i = 0; i < Size; ++i) {
        ASSERT_EQ(bytes[i], static_cast<unsigned char>(i * 3 + Size)) << i << " of " << Size;
      }
      done->give();
    }
  };
  static_assert(std::is_trivially_copyable_v<closure>);
  baton done;
  closure c{&done, {}};
  for (std::size_t i = 0; i < Size; ++i) c.bytes[i] = static_cast<unsigned char>(i * 3 + Size);
  go(c);
  c.bytes.fill(0);
  done.take();
}

template <std::size_t... Sizes>
void spawn_all(std::index_sequence<Sizes...>) {
  (spawn_filled<Sizes>(), ...);
  (spawn_bytes<Sizes>(), ...);
}

TEST(Go, KeepsClosuresOfEverySize) {
  const auto all = [] {
    spawn_all(std::index_sequence<1, 2, 7, 8, 16, 24, 31, 32, 33, 39, 40, 41, 47, 48, 49, 56, 63,
                                  64, 65, 100, 128, 255, 256, 1000, 4095, 4096>());
  };
  all();
  run(all);
}

template <std::size_t Alignment>
struct alignas(Alignment) aligned {
  baton* done;
  std::unique_ptr<int> not_trivial = std::make_unique<int>(1);
  void operator()() const {
    const aligned* self = this;
    keep(self);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(self) % Alignment, 0u) << Alignment;
    done->give();
  }
};

template <std::size_t Alignment>
struct alignas(Alignment) aligned_bytes {
  baton* done;
  void operator()() const {
    const aligned_bytes* self = this;
    keep(self);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(self) % Alignment, 0u) << Alignment;
    done->give();
  }
};

template <std::size_t... Alignments>
void spawn_aligned(std::index_sequence<Alignments...>) {
  const auto one = [](auto make) {
    for (int i = 0; i < 20; ++i) {
      baton done;
      go(make(&done));
      done.take();
    }
  };
  (one([](baton* done) { return aligned<Alignments>{done}; }), ...);
  (one([](baton* done) { return aligned_bytes<Alignments>{done}; }), ...);
}

TEST(Go, KeepsTheAlignmentOfClosures) {
  spawn_aligned(std::index_sequence<8, 16, 32, 64, 128, 256, 4096>());
}

TEST(Go, ACopyThatThrowsLeavesNothingBehind) {
  struct throws {
    std::shared_ptr<int> held;
    explicit throws(std::shared_ptr<int> h) : held(std::move(h)) {}
    throws(const throws& other) : held(other.held) { throw std::bad_alloc(); }
    void operator()() const { ADD_FAILURE() << "it was never spawned"; }
  };
  struct throws_large : throws {
    using throws::throws;
    char more[200] = {};
  };
  const auto held = std::make_shared<int>(0);
  runtime r({.procs = 1});
  const auto attempt = [&] {
    const throws small(held);
    const throws_large large(held);
    for (int i = 0; i < 1000; ++i) {
      EXPECT_THROW(go(small), std::bad_alloc);
      EXPECT_THROW(go(large), std::bad_alloc);
      EXPECT_THROW(go({.name = "named"}, small), std::bad_alloc);
      EXPECT_THROW(r.go(small), std::bad_alloc);
    }
  };
  attempt();
  r.run(attempt);
  EXPECT_EQ(held.use_count(), 1);
  while (r.read_stats().goroutines != 0) std::this_thread::yield();
  EXPECT_EQ(r.read_stats().spawned, 1u) << "only the one that tried";
}

TEST(Go, DestroysEveryClosureExactlyOnce) {
  tracked::counts counts;
  {
    runtime r({.procs = 2});
    const tracked original(counts);
    for (int i = 0; i < 100; ++i) r.go([original] {});
    r.run([&] {
      for (int i = 0; i < 10'000; ++i) go([original] {});
      for (int i = 0; i < 1000; ++i) {
        go([original] { this_goroutine::exit(); });
        go([original, large = std::array<char, 100>{}] { keep(large); });
      }
    });
  }
  EXPECT_EQ(counts.alive, 0);
}

TEST(Go, ExitRunsDestructorsAndNothingElse) {
  baton done;
  std::vector<int> order;
  go([&] {
    struct at_end {
      std::vector<int>& order;
      int number;
      baton* last;
      ~at_end() {
        order.push_back(number);
        if (last != nullptr) last->give();
      }
    };
    const at_end outer{order, 2, &done};
    try {
      const at_end inner{order, 1, nullptr};
      this_goroutine::exit();
      order.push_back(-1);
    } catch (const std::exception&) {
      order.push_back(-2);
    }
    order.push_back(-3);
  });
  done.take();
  EXPECT_THAT(order, ::testing::ElementsAre(1, 2));
}

TEST(Go, ExitOnAPlainThreadIsMisuse) { EXPECT_THROW(this_goroutine::exit(), misuse); }

TEST(Go, AStackNobodyCanHaveIsMisuse) {
  EXPECT_THROW(go({.stack_size = ~std::size_t{0}}, [] {}), misuse);
  run([] { EXPECT_THROW(go({.stack_size = ~std::size_t{0}}, [] {}), misuse); });
}

TEST(Go, GivesTheStackThatWasAskedFor) {
  baton done;
  go({.stack_size = 8 << 20}, [&] {
    volatile char large[7 << 20];
    for (std::size_t i = 0; i < sizeof large; i += 4096) large[sizeof large - 1 - i] = 1;
    done.give();
  });
  done.take();
}

TEST(ThisGoroutine, IdIsZeroOutsideAndUniqueInside) {
  EXPECT_EQ(this_goroutine::id(), 0u);
  EXPECT_FALSE(this_goroutine::is_goroutine());
  std::mutex lock;
  std::set<std::uint64_t> seen;
  constexpr int k_each = 2000;
  const auto note_id = [&] {
    EXPECT_TRUE(this_goroutine::is_goroutine());
    const std::uint64_t id = this_goroutine::id();
    const std::lock_guard hold(lock);
    EXPECT_NE(id, 0u);
    EXPECT_TRUE(seen.insert(id).second) << id;
  };
  {
    runtime r({.procs = 4});
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < k_each; ++i) r.go(note_id);
      });
    }
    r.run([&] {
      for (int i = 0; i < k_each; ++i) go(note_id);
    });
    for (std::thread& thread : threads) thread.join();
  }  // all of them have ended
  EXPECT_EQ(seen.size(), 3u * k_each);
}

TEST(ThisGoroutine, IdStaysTheSame) {
  runtime r({.procs = 2});
  std::atomic<int> left{50};
  r.run([&] {
    for (int i = 0; i < 50; ++i) {
      go([&] {
        const std::uint64_t id = this_goroutine::id();
        for (int n = 0; n < 100; ++n) {
          this_goroutine::yield();
          EXPECT_EQ(this_goroutine::id(), id);
        }
        --left;
      });
    }
  });
  while (left != 0) std::this_thread::yield();
}

TEST(ThisGoroutine, HasTheNameItWasGiven) {
  runtime r({.procs = 1});
  r.run([] {
    EXPECT_EQ(this_goroutine::name(), "");
    baton done;
    std::string name = "worker 1";
    go({.name = name}, [&] {
      EXPECT_EQ(this_goroutine::name(), "worker 1") << "copied, not kept";
      this_goroutine::set_name("renamed");
      EXPECT_EQ(this_goroutine::name(), "renamed");
      this_goroutine::yield();
      EXPECT_EQ(this_goroutine::name(), "renamed");
      done.give();
    });
    name = "xxxxxxxx";
    done.take();
    for (int i = 0; i < 10; ++i) {
      async([] { EXPECT_EQ(this_goroutine::name(), "") << "not the last one's"; }).get();
    }
  });
}

TEST(ThisGoroutine, HasNoNameOnAPlainThread) {
  EXPECT_EQ(this_goroutine::name(), "");
  this_goroutine::set_name("ignored");
  EXPECT_EQ(this_goroutine::name(), "");
  this_goroutine::yield();
  this_goroutine::checkpoint();
}

TEST(ThisGoroutine, YieldLetsTheOthersOnThisPRunFirst) {
  runtime r({.procs = 1});
  r.run([] {
    for (int round = 0; round < 200; ++round) {
      std::vector<int> order;
      for (int i = 0; i < 3; ++i) go([&order, i] { order.push_back(i); });
      this_goroutine::yield();
      ASSERT_EQ(order.size(), 3u) << "all of them, in round " << round;
    }
  });
}

}  // namespace
}  // namespace magpie
