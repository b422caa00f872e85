#include "sched/run_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/random.h"

namespace magpie::rt {

// The ends of a queue's ring: they run over 32 bits, which no test can count through.
template <auto Head, auto Tail>
struct ring_ends {
  friend void move_ends(run_queue& queue, std::uint32_t to) {
    queue.*Head = to;
    queue.*Tail = to;
  }
};
template struct ring_ends<&run_queue::head_, &run_queue::tail_>;
void move_ends(run_queue&, std::uint32_t);

namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr std::uint32_t k_size = run_queue::k_size;

// Goroutines that never run, numbered from 1.
struct goroutines {
  explicit goroutines(std::size_t count) : all(new G[count]) {
    for (std::size_t i = 0; i < count; ++i) all[i].id = i + 1;
  }
  G* operator[](std::size_t i) { return &all[i]; }
  std::unique_ptr<G[]> all;
};

std::vector<std::uint64_t> ids(goroutine_queue& queue) {
  std::vector<std::uint64_t> result;
  while (const G* const g = queue.pop_front()) result.push_back(g->id);
  return result;
}

std::vector<std::uint64_t> ids(run_queue& queue) {
  goroutine_queue all;
  queue.drain_into(all);
  return ids(all);
}

std::vector<std::uint64_t> from_to(std::uint64_t first, std::uint64_t last) {
  std::vector<std::uint64_t> result;
  for (std::uint64_t i = first; i <= last; ++i) result.push_back(i);
  return result;
}

void fill(run_queue& queue, goroutines& gs, std::size_t count) {
  goroutine_queue overflow;
  for (std::size_t i = 0; i < count; ++i) queue.push(gs[i], overflow);
  ASSERT_TRUE(overflow.empty());
}

// Conformance row A01.
TEST(RunQueue, IsFirstInFirstOutAtEveryFillLevel) {
  goroutines gs(k_size);
  run_queue queue;
  for (std::uint32_t level = 0; level <= k_size; ++level) {
    ASSERT_TRUE(queue.empty());
    ASSERT_EQ(queue.pop().g, nullptr);
    fill(queue, gs, level);
    ASSERT_EQ(queue.ring_length(), level);
    ASSERT_EQ(queue.empty(), level == 0);
    for (std::uint32_t i = 0; i < level; ++i) {
      const run_queue::popped got = queue.pop();
      ASSERT_EQ(got.g, gs[i]) << "level " << level;
      ASSERT_FALSE(got.inherits_slice);
    }
    ASSERT_TRUE(queue.empty());
    ASSERT_EQ(queue.pop().g, nullptr);
  }
}

TEST(RunQueue, EndsRunOverTheEndOf32Bits) {
  goroutines gs(k_size);
  for (const std::uint32_t before_the_end : {1u, 2u, k_size / 2, k_size - 1, k_size}) {
    run_queue queue;
    move_ends(queue, 0u - before_the_end);
    fill(queue, gs, k_size);
    EXPECT_EQ(queue.ring_length(), k_size);
    EXPECT_FALSE(queue.empty());
    EXPECT_THAT(ids(queue), ElementsAreArray(from_to(1, k_size)));
    EXPECT_TRUE(queue.empty());
  }
}

TEST(RunQueue, OverflowAndTheftWorkWhereTheEndsRunOver) {
  goroutines gs(k_size + 1);
  run_queue queue;
  move_ends(queue, 0u - k_size / 4);
  fill(queue, gs, k_size);
  goroutine_queue overflow;
  queue.push(gs[k_size], overflow);
  EXPECT_EQ(overflow.size(), k_size / 2 + 1);

  run_queue thief;
  move_ends(thief, 0u - 3);
  G* const to_run = thief.steal_half_from(queue);
  ASSERT_NE(to_run, nullptr);
  EXPECT_EQ(to_run->id, k_size / 2 + k_size / 4);
  EXPECT_THAT(ids(thief), ElementsAreArray(from_to(k_size / 2 + 1, k_size / 2 + k_size / 4 - 1)));
  EXPECT_THAT(ids(queue), ElementsAreArray(from_to(k_size / 2 + k_size / 4 + 1, k_size)));
}

TEST(RunQueue, FullRingGivesAwayItsOlderHalfAndTheNewOne) {
  goroutines gs(k_size + 1);
  run_queue queue;
  fill(queue, gs, k_size);
  goroutine_queue overflow;
  queue.push(gs[k_size], overflow);
  auto expected = from_to(1, k_size / 2);
  expected.push_back(k_size + 1);
  EXPECT_THAT(ids(overflow), ElementsAreArray(expected)) << "in the order they would have run";
  EXPECT_THAT(ids(queue), ElementsAreArray(from_to(k_size / 2 + 1, k_size)));
}

TEST(RunQueue, OneInRunNextRunsFirstAndInheritsTheSlice) {
  goroutines gs(3);
  run_queue queue;
  goroutine_queue overflow;
  queue.push(gs[0], overflow);
  EXPECT_FALSE(queue.push_next(gs[1], overflow));
  EXPECT_EQ(queue.peek_next(), gs[1]);
  EXPECT_EQ(queue.ring_length(), 1u) << "run_next is not in the ring";

  run_queue::popped got = queue.pop();
  EXPECT_EQ(got.g, gs[1]);
  EXPECT_TRUE(got.inherits_slice);
  got = queue.pop();
  EXPECT_EQ(got.g, gs[0]);
  EXPECT_FALSE(got.inherits_slice);
  EXPECT_TRUE(queue.empty());
}

TEST(RunQueue, NewRunNextDisplacesTheOldToTheEndOfTheRing) {
  goroutines gs(4);
  run_queue queue;
  goroutine_queue overflow;
  EXPECT_FALSE(queue.push_next(gs[0], overflow));
  queue.push(gs[1], overflow);
  EXPECT_TRUE(queue.push_next(gs[2], overflow));
  EXPECT_TRUE(queue.push_next(gs[3], overflow));
  EXPECT_THAT(ids(queue), ElementsAre(4, 2, 1, 3));
  EXPECT_TRUE(overflow.empty());
}

TEST(RunQueue, DisplacedOneOverflowsAFullRing) {
  goroutines gs(k_size + 2);
  run_queue queue;
  goroutine_queue overflow;
  fill(queue, gs, k_size);
  EXPECT_FALSE(queue.push_next(gs[k_size], overflow));
  EXPECT_TRUE(overflow.empty()) << "run_next holds one more than the ring";
  EXPECT_TRUE(queue.push_next(gs[k_size + 1], overflow));
  EXPECT_EQ(overflow.size(), k_size / 2 + 1);
  EXPECT_EQ(queue.peek_next(), gs[k_size + 1]);
}

TEST(RunQueue, PopRingPassesRunNextOver) {
  goroutines gs(2);
  run_queue queue;
  goroutine_queue overflow;
  queue.push_next(gs[0], overflow);
  EXPECT_EQ(queue.pop_ring(), nullptr);
  queue.push(gs[1], overflow);
  EXPECT_EQ(queue.pop_ring(), gs[1]);
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ(queue.take_next(), gs[0]);
  EXPECT_EQ(queue.take_next(), nullptr);
  EXPECT_TRUE(queue.empty());
}

TEST(RunQueue, TheNewestOfTheRingCanBeTakenBack) {
  goroutines gs(4);
  run_queue queue;
  goroutine_queue overflow;
  for (const std::uint32_t start : {0u, 0u - 2}) {
    move_ends(queue, start);
    EXPECT_EQ(queue.pop_newest(), nullptr);
    fill(queue, gs, 3);
    EXPECT_EQ(queue.pop_newest(), gs[2]);
    queue.push(gs[3], overflow);
    EXPECT_EQ(queue.pop_newest(), gs[3]);
    EXPECT_EQ(queue.pop_ring(), gs[0]);
    EXPECT_EQ(queue.pop_newest(), gs[1]);
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.pop_newest(), nullptr);
    EXPECT_EQ(queue.pop_ring(), nullptr);
    queue.push(gs[0], overflow);
    EXPECT_EQ(queue.ring_length(), 1u);
    EXPECT_EQ(queue.pop_ring(), gs[0]);
  }
}

TEST(RunQueue, PushAllTakesWhatFitsAndLeavesTheRest) {
  goroutines gs(k_size + 10);
  run_queue queue;
  fill(queue, gs, 5);
  std::vector<G*> more;
  for (std::size_t i = 5; i < k_size + 10; ++i) more.push_back(gs[i]);
  EXPECT_EQ(queue.push_all(more.data(), more.size()), k_size - 5);
  EXPECT_EQ(queue.ring_length(), k_size);
  EXPECT_THAT(ids(queue), ElementsAreArray(from_to(1, k_size)));
}

TEST(RunQueue, ThiefTakesTheOlderHalfRoundedUp) {
  goroutines gs(k_size);
  for (std::uint32_t length = 0; length <= k_size; ++length) {
    run_queue victim, thief;
    fill(victim, gs, length);
    const std::uint32_t half = (length + 1) / 2;
    G* const to_run = thief.steal_half_from(victim);
    ASSERT_EQ(victim.ring_length(), length - half);
    if (length == 0) {
      ASSERT_EQ(to_run, nullptr);
      continue;
    }
    ASSERT_EQ(to_run, gs[half - 1]) << "the last of the loot; length " << length;
    ASSERT_EQ(thief.ring_length(), half - 1);
    ASSERT_THAT(ids(thief), ElementsAreArray(from_to(1, half - 1)));
    ASSERT_THAT(ids(victim), ElementsAreArray(from_to(half + 1, length)));
  }
}

TEST(RunQueue, ThiefTakesNoMoreThanItMay) {
  goroutines gs(k_size);
  for (const std::uint32_t length : {1u, 2u, 7u, 16u, 17u, 100u, k_size}) {
    for (const std::uint32_t most : {1u, 2u, 8u, k_size / 2}) {
      run_queue victim, thief;
      fill(victim, gs, length);
      const std::uint32_t count = std::min((length + 1) / 2, most);
      ASSERT_EQ(thief.steal_half_from(victim, most), gs[count - 1])
          << "the last of the loot; length " << length << ", at most " << most;
      ASSERT_THAT(ids(thief), ElementsAreArray(from_to(1, count - 1)));
      ASSERT_THAT(ids(victim), ElementsAreArray(from_to(count + 1, length)));
    }
  }
}

TEST(RunQueue, ThiefLeavesRunNextAlone) {
  goroutines gs(2);
  run_queue victim, thief;
  goroutine_queue overflow;
  victim.push_next(gs[0], overflow);
  EXPECT_EQ(thief.steal_half_from(victim), nullptr);
  victim.push(gs[1], overflow);
  EXPECT_EQ(thief.steal_half_from(victim), gs[1]);
  EXPECT_EQ(victim.peek_next(), gs[0]);
}

// Conformance row A03. The owner keeps one or two goroutines in the queue all the time, in the
// ring and in run_next in every combination.
TEST(RunQueue, IsNeverReportedEmptyWhileItHoldsOne) {
  goroutines gs(2);
  run_queue queue;
  goroutine_queue overflow;
  queue.push(gs[0], overflow);
  std::atomic<bool> stop{false};
  std::atomic<bool> looking{false};
  std::uint64_t lies = 0;
  std::thread observer([&] {
    do {
      if (queue.empty()) ++lies;
      looking = true;
    } while (!stop);
  });
  while (!looking) std::this_thread::yield();
  random_source random(1);
  G* outside = gs[1];
  for (int round = 0; round < 400'000; ++round) {
    if (random.below(2) == 0) {
      queue.push(outside, overflow);
    } else {
      queue.push_next(outside, overflow);
    }
    outside = random.below(2) == 0 ? queue.pop_ring() : nullptr;
    if (outside == nullptr) outside = queue.pop().g;
  }
  stop = true;
  observer.join();
  EXPECT_EQ(lies, 0u);
}

// One owner and some thieves, who also steal from each other: every goroutine is taken exactly
// once, with what its maker wrote into it.
class RunQueueThieves : public ::testing::TestWithParam<int> {};

TEST_P(RunQueueThieves, LoseNoGoroutineAndDoubleNone) {
  constexpr std::size_t k_count = 400'000, k_phase = 10'000;
  const int thieves = GetParam();
  goroutines gs(k_count);
  const std::unique_ptr<std::atomic<int>[]> taken(new std::atomic<int>[k_count]());
  std::atomic<std::size_t> total{0};
  const auto take = [&](const G* g) {
    taken[g->id - 1].fetch_add(1, std::memory_order_relaxed);
    total.fetch_add(1, std::memory_order_relaxed);
  };
  std::vector<run_queue> queues(static_cast<std::size_t>(thieves) + 1);

  const auto steal_until_all_are_taken = [&](std::size_t self) {
    random_source random(self);
    run_queue& mine = queues[self];
    while (total.load(std::memory_order_relaxed) < k_count) {
      run_queue& victim = queues[random.below(static_cast<std::uint32_t>(queues.size()))];
      if (&victim == &mine) continue;
      const G* g = random.below(8) == 0 ? victim.steal_next() : mine.steal_half_from(victim);
      while (g != nullptr) {
        take(g);
        g = random.below(16) == 0 ? nullptr : mine.pop().g;  // now and then leave some to others
      }
      while (mine.ring_length() != 0 && random.below(4) != 0) {
        if (const G* const mine_again = mine.pop().g) take(mine_again);
      }
      while (const G* const rest = mine.pop().g) take(rest);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i <= thieves; ++i) {
    threads.emplace_back(steal_until_all_are_taken, static_cast<std::size_t>(i));
  }

  random_source random(99);
  run_queue& mine = queues[0];
  goroutine_queue overflow;
  for (std::size_t i = 0; i < k_count; ++i) {
    gs[i]->spawn_site = gs[i];
    if (random.below(3) == 0) {
      mine.push_next(gs[i], overflow);
    } else {
      mine.push(gs[i], overflow);
    }
    while (const G* const g = overflow.pop_front()) take(g);
    if (random.below(3) == 0 && i / k_phase % 2 == 0) {
      if (const G* const g = random.below(2) == 0 ? mine.pop_ring() : mine.pop().g) take(g);
    }
    if (i % 8 == 7 && i / k_phase % 2 == 1) {  // in every other phase, as fork and join does
      while (const G* const g = mine.pop_newest()) take(g);
    }
  }
  while (const G* const g = mine.pop().g) take(g);
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(total, k_count);
  for (std::size_t i = 0; i < k_count; ++i) {
    ASSERT_EQ(taken[i], 1) << "goroutine " << i + 1;
    ASSERT_EQ(gs[i]->spawn_site, gs[i]);
  }
  for (const run_queue& queue : queues) EXPECT_TRUE(queue.empty());
}

INSTANTIATE_TEST_SUITE_P(From, RunQueueThieves, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace magpie::rt
