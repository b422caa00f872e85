#include <gtest/gtest.h>
#include <magpie/magpie.h>

#include <array>
#include <atomic>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace magpie {
namespace {

constinit goroutine_local<int> g_number;  // before anything runs

TEST(GoroutineLocal, EachGoroutineHasItsOwn) {
  runtime r({.procs = 2});
  r.run([] {
    wait_group all;
    for (int i = 0; i < 100; ++i) {
      all.go([i] {
        EXPECT_EQ(*g_number, 0);
        *g_number = i;
        this_goroutine::yield();
        EXPECT_EQ(*g_number, i);
      });
    }
    all.wait();
    EXPECT_EQ(*g_number, 0);
  });
}

TEST(GoroutineLocal, APlainThreadHasItsOwn) {
  *g_number = 7;
  std::thread([] { EXPECT_EQ(*g_number, 0); }).join();
  runtime r({.procs = 1});
  r.run([] { EXPECT_EQ(*g_number, 0); });
  EXPECT_EQ(*g_number, 7);
  *g_number = 0;
}

struct counted {
  static inline std::atomic<int> alive{0};
  counted() { ++alive; }
  ~counted() { --alive; }
};

TEST(GoroutineLocal, EndsWithItsGoroutine) {
  static goroutine_local<counted> local;
  runtime r({.procs = 1});
  r.run([] {
    async([] { (void)local.get(); }).get();
    EXPECT_EQ(counted::alive, 0);
    (void)local.get();
    EXPECT_EQ(counted::alive, 1);
  });
  EXPECT_EQ(counted::alive, 0);
}

// Others run while it ends.
struct slow_to_end {
  static inline std::atomic<int> alive{0};
  slow_to_end() { ++alive; }
  ~slow_to_end() {
    for (int i = 0; i < 5; ++i) this_goroutine::yield();
    --alive;
  }
};

TEST(GoroutineLocal, HasEndedWhenTheEndIsKnown) {
  static goroutine_local<slow_to_end> local;
  const auto use = [] { (void)local.get(); };
  runtime r({.procs = 1});
  r.run([&] {
    future<void> result = async(use);
    while (!result.ready()) this_goroutine::yield();
    EXPECT_EQ(slow_to_end::alive, 0);

    async([use, large = std::array<char, 100>()] {
      (void)large;
      use();
    }).get();
    EXPECT_EQ(slow_to_end::alive, 0);

    wait_group all;
    for (int i = 0; i < 3; ++i) all.go(use);
    all.wait();
    EXPECT_EQ(slow_to_end::alive, 0);

    group together;
    together.go(use);
    together.go([use] {
      use();
      this_goroutine::exit();
    });
    together.wait();
    EXPECT_EQ(slow_to_end::alive, 0);
    use();
  });
  EXPECT_EQ(slow_to_end::alive, 0);
}

// One after the other in the same memory: neither its value nor its type is that of the one before.
void use_one_place_for_two() {
  union place {
    place() {}
    ~place() {}
    goroutine_local<std::uint64_t> number;
    goroutine_local<std::string> text;
  } here;
  for (int round = 0; round < 3; ++round) {
    auto* const number = new (&here.number) goroutine_local<std::uint64_t>;
    EXPECT_EQ(number->get(), 0u);
    number->get() = 0x4141414141414141;  // as a pointer: nobody's memory
    std::destroy_at(number);

    auto* const text = new (&here.text) goroutine_local<std::string>;
    EXPECT_EQ(text->get(), "");
    text->get() = "long enough to be on the heap, and to be leaked if nobody destroyed it";
    std::destroy_at(text);
  }
}

TEST(GoroutineLocal, TwoInTheSamePlaceOneAfterTheOther) {
  runtime r({.procs = 1});
  r.run(use_one_place_for_two);
  std::thread(use_one_place_for_two).join();
}

TEST(GoroutineLocal, AValueOutlivesTheVariable) {
  runtime r({.procs = 1});
  r.run([] {
    counted* value = nullptr;
    {
      auto local = std::make_unique<goroutine_local<counted>>();
      value = &local->get();
    }
    EXPECT_NE(value, nullptr);
    EXPECT_EQ(counted::alive, 1);
  });
  EXPECT_EQ(counted::alive, 0);
}

// Whoever uses it first gives it its number, and all agree on that.
TEST(GoroutineLocal, FirstUseByManyAtOnce) {
  for (int round = 0; round < 200; ++round) {
    goroutine_local<int> local;
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        ++ready;
        while (ready != 4) std::this_thread::yield();
        local.get() = t;
        EXPECT_EQ(local.get(), t);
      });
    }
    for (auto& thread : threads) thread.join();
  }
}

TEST(GoroutineLocal, ADestructorMayUseAnother) {
  static goroutine_local<counted> other;
  struct uses_other {
    ~uses_other() { (void)other.get(); }
  };
  static goroutine_local<uses_other> local;
  runtime r({.procs = 1});
  r.run([] { (void)local.get(); });
  EXPECT_EQ(counted::alive, 0);
}

}  // namespace
}  // namespace magpie
