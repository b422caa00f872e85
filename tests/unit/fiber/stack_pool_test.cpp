#include "fiber/stack_pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace magpie::rt {

// How GoogleTest writes the parameter, in the name of a test too.
void PrintTo(guard_kind kind, std::ostream* out) {
  *out << (kind == guard_kind::markers ? "markers" : "mappings");
}

namespace {

// Whether the kernel can read a byte there: how to ask about a guard without dying of it.
bool readable(const void* address) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const bool ok = write(ends[1], address, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return ok;
}

// Whether the page takes memory now.
bool resident(const void* address) {
  const auto page = reinterpret_cast<std::uintptr_t>(address) & ~(os::page_size() - 1);
  unsigned char answer = 0;
  if (mincore(reinterpret_cast<void*>(page), 1, &answer) != 0) std::abort();
  return (answer & 1) != 0;
}

std::string words_of(const stack_pool& pool) {
  std::string text;
  {
    printer out({[](void* to, const char* part, std::size_t size) {
                   static_cast<std::string*>(to)->append(part, size);
                 },
                 &text});
    pool.explain_shortage(out);
  }
  return text;
}

class StackPool : public ::testing::TestWithParam<guard_kind> {
 protected:
  void SetUp() override {
    if (GetParam() == guard_kind::markers && !os::guard_markers_work()) {
      GTEST_SKIP() << "no MADV_GUARD_INSTALL here (Linux before 6.13, or an emulated one)";
    }
  }
  static stack* take(stack_pool& from, size_class c) {
    stack* s = nullptr;
    return from.take(c, 1, &s) == 1 ? s : nullptr;
  }
  stack_pool pool{GetParam()};
};

TEST(StackSizes, ASlotHoldsWhatWasAskedFor) {
  EXPECT_EQ(k_slot_sizes[class_for(1)], 128u << 10);
  EXPECT_EQ(k_slot_sizes[class_for(128 << 10)], 128u << 10);
  EXPECT_EQ(k_slot_sizes[class_for((128 << 10) + 1)], 256u << 10);
  EXPECT_EQ(k_slot_sizes[class_for(512 << 20)], 512u << 20);
  EXPECT_EQ(class_for((512u << 20) + 1), k_no_class);
}

TEST_P(StackPool, StacksOfEverySizeAreUsableToTheLastByteAndGuarded) {
  for (size_class c = 0; c < k_size_classes; ++c) {
    stack* const s = take(pool, c);
    ASSERT_NE(s, nullptr) << words_of(pool);
    EXPECT_EQ(s->slot_size(), k_slot_sizes[c]);
    EXPECT_EQ(s->usable_size(), k_slot_sizes[c] - k_guard_size);
    s->low[0] = 1;
    s->high[-1] = 1;
    EXPECT_FALSE(readable(s->low - 1));
    EXPECT_FALSE(readable(s->low - k_guard_size));
    EXPECT_FALSE(readable(s->low - k_guard_size / 2));
    EXPECT_FALSE(readable(s->low - k_guard_size - 1));
    pool.give(&s, 1);
  }
  EXPECT_EQ(pool.stats().in_use, 0u);
}

// Or goroutines by the hundred would share a few sets of the TLB.
TEST_P(StackPool, TopsOfNeighboursDifferInTheLowBitsOfTheirPages) {
  constexpr std::size_t k_count = 32;
  for (const size_class c : {class_for(128 << 10), class_for(256 << 10)}) {
    std::vector<stack*> stacks;
    std::set<std::uintptr_t> places;
    for (std::size_t i = 0; i < k_count; ++i) {
      stacks.push_back(take(pool, c));
      places.insert(reinterpret_cast<std::uintptr_t>(stacks.back()->high) / os::page_size() % 64);
    }
    EXPECT_GE(places.size(), k_count / 2);
    pool.give(stacks.data(), stacks.size());
  }
}

TEST_P(StackPool, NoTwoStacksShareAByte) {
  const size_class c = class_for(128 << 10);
  std::vector<stack*> stacks(300);
  std::size_t have = 0;
  while (have < stacks.size()) {
    have += pool.take(c, std::min<std::size_t>(7, stacks.size() - have), &stacks[have]);
  }
  std::set<std::pair<char*, char*>> ranges;
  for (stack* s : stacks) ranges.insert({s->low - k_guard_size, s->high});
  ASSERT_EQ(ranges.size(), stacks.size());
  char* last = nullptr;
  for (const auto& [low, high] : ranges) {
    EXPECT_LE(last, low);
    last = high;
  }
  pool.give(stacks.data(), stacks.size());
}

TEST_P(StackPool, FindsTheStackOfAnyAddressInItsSlot) {
  stack* const s = take(pool, class_for(256 << 10));
  EXPECT_EQ(find_stack(s->low), s);
  EXPECT_EQ(find_stack(s->high - 1), s);
  EXPECT_EQ(find_stack(s->low - 1), s) << "the guard belongs to the stack above it";
  EXPECT_EQ(find_stack(s->low - k_guard_size - os::page_size()), s);
  EXPECT_NE(find_stack(s->high), s);
  EXPECT_EQ(find_stack(nullptr), nullptr);
  EXPECT_EQ(find_stack(&pool), nullptr);
  pool.give(&s, 1);
}

TEST_P(StackPool, FindsNothingWhereAPoolWas) {
  const void* inside = nullptr;
  {
    stack_pool other(GetParam());
    stack* s = take(other, 0);
    inside = s->low;
    other.give(&s, 1);
  }
  EXPECT_EQ(find_stack(inside), nullptr);
}

TEST_P(StackPool, TrimReturnsMemoryAndKeepsWhatIsInUse) {
  const size_class c = class_for(128 << 10);
  std::vector<stack*> stacks(1000);
  for (auto& s : stacks) {
    s = take(pool, c);
    std::memset(s->high - 64, 0x5a, 64);
  }
  // Every tenth stays in use, so most chunks are partly in use.
  std::vector<stack*> kept, given;
  for (std::size_t i = 0; i < stacks.size(); ++i) (i % 10 == 0 ? kept : given).push_back(stacks[i]);
  pool.give(given.data(), given.size());
  pool.trim(0);
  for (stack* s : kept) {
    EXPECT_EQ(s->high[-1], 0x5a) << "memory of a stack in use was given back";
    EXPECT_FALSE(readable(s->low - 1));
  }
  // A trimmed stack is empty, guarded and usable again.
  stack* const again = take(pool, c);
  EXPECT_EQ(again->high[-1], 0);
  EXPECT_FALSE(readable(again->low - 1));
  again->low[0] = 1;
  kept.push_back(again);
  pool.give(kept.data(), kept.size());
  pool.trim(0);
  EXPECT_EQ(pool.stats().free, 0u) << "with nothing in use every chunk goes back whole";
  EXPECT_EQ(pool.stats().in_use, 0u);
  stack* const last = take(pool, c);
  ASSERT_NE(last, nullptr);
  EXPECT_FALSE(readable(last->low - 1));
  last->low[0] = 1;
  pool.give(&last, 1);
}

TEST_P(StackPool, TrimKeepsSomeReady) {
  const size_class c = class_for(256 << 10);
  std::vector<stack*> stacks(256);
  for (auto& s : stacks) s = take(pool, c);
  pool.give(stacks.data(), stacks.size());
  pool.trim(100);
  EXPECT_GE(pool.stats().free, 100u);
  EXPECT_LT(pool.stats().free, 100u + 32u) << "no more than a chunk above what was to be kept";
}

TEST_P(StackPool, TrimReturnsTheRecordsOfSlabsWithoutStacks) {
  const size_class c = class_for(256 << 10);
  std::vector<stack*> stacks(128);  // two pages of records
  for (auto& s : stacks) s = take(pool, c);
  const char* const inside = stacks.front()->low;
  pool.give(stacks.data() + 1, stacks.size() - 1);
  pool.trim(0);
  EXPECT_TRUE(resident(stacks.front()));
  EXPECT_EQ(find_stack(inside), stacks.front()) << "lost the record of a stack in use";
  pool.give(stacks.data(), 1);
  pool.trim(0);
  for (stack* s : stacks) EXPECT_FALSE(resident(s));
  EXPECT_EQ(find_stack(inside), nullptr) << "there is no stack any more";

  for (auto& s : stacks) {
    s = take(pool, c);
    ASSERT_NE(s, nullptr) << words_of(pool);
    EXPECT_EQ(find_stack(s->low), s);
    EXPECT_FALSE(readable(s->low - 1));
    s->low[0] = 1;
  }
  pool.give(stacks.data(), stacks.size());
}

TEST_P(StackPool, ThreadsTakeGiveAndTrimAtOnce) {
  std::atomic<int> working{4};
  const auto work = [&](unsigned seed) {
    stack_cache cache(pool);
    std::vector<stack*> mine;
    for (int i = 0; i < 20000; ++i) {
      seed = seed * 1103515245 + 12345;
      if ((seed >> 16) % 3 != 0 || mine.empty()) {
        if (mine.size() > 200) continue;
        stack* const s = cache.take(static_cast<size_class>((seed >> 20) % 2));
        // Whoever else had this stack would see the mark change.
        std::memcpy(s->high - sizeof s, &s, sizeof s);
        mine.push_back(s);
      } else {
        stack* s = mine.back();
        stack* mark = nullptr;
        std::memcpy(&mark, s->high - sizeof s, sizeof s);
        EXPECT_EQ(mark, s);
        mine.pop_back();
        cache.give(s);
      }
    }
    for (stack* s : mine) cache.give(s);
    cache.drain();
    --working;
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back(work, i + 1);
  for (std::size_t i = 0; working > 0; ++i) pool.trim(i % 3 * 16);
  for (auto& t : threads) t.join();
  EXPECT_EQ(pool.stats().in_use, 0u);
}

INSTANTIATE_TEST_SUITE_P(Guards, StackPool,
                         ::testing::Values(guard_kind::markers, guard_kind::mappings),
                         [](const auto& kind) {
                           return kind.param == guard_kind::markers ? "Markers" : "Mappings";
                         });

TEST(StackCache, LastGivenIsFirstTaken) {
  stack_pool pool;
  stack_cache cache(pool);
  stack* const a = cache.take(1);
  stack* const b = cache.take(1);
  cache.give(a);
  cache.give(b);
  EXPECT_EQ(cache.take(1), b);
  EXPECT_EQ(cache.take(1), a);
  cache.give(a);
  cache.give(b);
}

TEST(StackCache, ReturnsHalfWhenFullAndKeepsTheHotOnes) {
  stack_pool pool;
  stack_cache cache(pool);
  std::vector<stack*> stacks(257);
  for (auto& s : stacks) s = cache.take(1);
  for (stack* s : stacks) cache.give(s);
  EXPECT_LE(pool.stats().in_use, 160u) << "the cache kept more than half";
  EXPECT_EQ(cache.take(1), stacks.back());
  cache.give(stacks.back());
  cache.drain();
  EXPECT_EQ(pool.stats().in_use, 0u);
}

// The fallback without MADV_GUARD_INSTALL: twenty thousand stacks work, and the end of the
// mappings is an answer in words.
TEST(StackLimit, MappingsRunOutWithWords) {
  if (os::mapping_limit() > 100'000) {
    GTEST_SKIP() << "vm.max_map_count is raised here (" << os::mapping_limit()
                 << "): the limit is too far away to be reached in a test";
  }
  if (sanitizer::k_thread) GTEST_SKIP() << "TSan keeps a fiber of its own for every stack";
  stack_pool pool(guard_kind::mappings);
  std::vector<stack*> stacks;
  for (;;) {
    stack* batch[32];
    const std::size_t count = pool.take(class_for(128 << 10), 32, batch);
    if (count == 0) break;
    for (std::size_t i = 0; i < count; ++i) batch[i]->high[-1] = 1;
    stacks.insert(stacks.end(), batch, batch + count);
  }
  EXPECT_GE(stacks.size(), 20'000u);
  const std::string words = words_of(pool);
  EXPECT_NE(words.find("vm.max_map_count is " + std::to_string(os::mapping_limit())),
            std::string::npos)
      << words;
  EXPECT_NE(words.find("sysctl -w vm.max_map_count"), std::string::npos) << words;
  // What is given back can be had again.
  pool.give(&stacks.back(), 1);
  stack* again = nullptr;
  EXPECT_EQ(pool.take(class_for(128 << 10), 1, &again), 1u);
  EXPECT_EQ(again, stacks.back());
  pool.give(stacks.data(), stacks.size());
}

}  // namespace
}  // namespace magpie::rt
