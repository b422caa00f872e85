#include "sched/global_queue.h"

#include <gtest/gtest.h>

#include <memory>

namespace magpie::rt {
namespace {

struct GlobalQueue : ::testing::Test {
  void push(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) queue.push(&gs[i]);
  }
  global_queue queue;
  std::unique_ptr<G[]> gs{new G[2000]};
};

TEST_F(GlobalQueue, IsFirstInFirstOut) {
  EXPECT_EQ(queue.length(), 0u);
  EXPECT_EQ(queue.pop(), nullptr);
  push(3);
  EXPECT_EQ(queue.length(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.pop(), &gs[i]);
  EXPECT_EQ(queue.pop(), nullptr);
  EXPECT_EQ(queue.length(), 0u);
}

TEST_F(GlobalQueue, TakesAWholeListOver) {
  push(1);
  goroutine_queue list;
  list.push_back(&gs[1]);
  list.push_back(&gs[2]);
  queue.push_all(list);
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(queue.length(), 3u);
  queue.push_all(list);
  EXPECT_EQ(queue.length(), 3u) << "nothing more came";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.pop(), &gs[i]);
}

TEST_F(GlobalQueue, KeepsTheOrderWhenItGrows) {
  push(700);
  for (int i = 0; i < 600; ++i) ASSERT_EQ(queue.pop(), &gs[i]);
  push(2000);  // around the end of the ring, and beyond its size
  for (int i = 600; i < 700; ++i) ASSERT_EQ(queue.pop(), &gs[i]);
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(queue.pop(), &gs[i]);
  EXPECT_EQ(queue.length(), 0u);
}

TEST_F(GlobalQueue, UrgentOnesGoFirstButOnlyEverySecondTime) {
  push(3);
  G* const urgent[] = {&gs[10], &gs[11], &gs[12], &gs[13], &gs[14]};
  queue.push_urgent(urgent, 3);
  EXPECT_EQ(queue.length(), 6u);
  EXPECT_EQ(queue.pop(), &gs[10]);
  queue.push_urgent(urgent + 3, 2);  // more of them: the others have their turns all the same
  G* batch[4];
  ASSERT_EQ(queue.pop_batch(1, 4, batch), 4u);
  EXPECT_EQ(batch[0], &gs[0]);
  EXPECT_EQ(batch[1], &gs[11]);
  EXPECT_EQ(batch[2], &gs[1]);
  EXPECT_EQ(batch[3], &gs[12]);
  EXPECT_EQ(queue.pop_urgent(), &gs[13]) << "somebody was stopped for it";
  EXPECT_EQ(queue.pop(), &gs[2]);
  EXPECT_EQ(queue.pop(), &gs[14]);
  EXPECT_EQ(queue.pop_urgent(), nullptr);
  EXPECT_EQ(queue.length(), 0u);
}

TEST_F(GlobalQueue, EmptyQueueGivesNoBatch) {
  G* batch[128];
  EXPECT_EQ(queue.pop_batch(4, 128, batch), 0u);
  EXPECT_EQ(queue.length(), 0u);
}

TEST_F(GlobalQueue, BatchIsAFairShareAndOneMoreButNotMoreThanAllowed) {
  for (const std::size_t length : {1u, 2u, 3u, 4u, 7u, 8u, 100u, 255u, 1000u, 2000u}) {
    for (const std::size_t procs : {1u, 2u, 3u, 4u, 16u, 64u, 1024u}) {
      const std::size_t expected = std::min({std::size_t{128}, length, length / procs + 1});
      push(length);
      G* batch[128];
      ASSERT_EQ(queue.pop_batch(procs, 128, batch), expected) << length << " for " << procs;
      ASSERT_EQ(queue.length(), length - expected);
      for (std::size_t i = 0; i < expected; ++i) ASSERT_EQ(batch[i], &gs[i]);
      for (std::size_t i = expected; i < length; ++i) ASSERT_EQ(queue.pop(), &gs[i]);
    }
  }
}

}  // namespace
}  // namespace magpie::rt
