// What a thread keeps at hand for the states of futures. That nothing of it is lost is for the
// builds with AddressSanitizer to see.
#include "sched/block_cache.h"

#include <gtest/gtest.h>

#include <new>

namespace magpie::rt {
namespace {

void* new_block() { return ::operator new(block_cache::k_block_size); }
void delete_block(void* block) { ::operator delete(block); }

TEST(BlockCache, HasNothingAtFirst) {
  block_cache cache;
  EXPECT_EQ(cache.take(), nullptr);
}

TEST(BlockCache, GivesTheLastOneFirst) {
  block_cache cache;
  void* const first = new_block();
  void* const second = new_block();
  EXPECT_TRUE(cache.keep(first));
  EXPECT_TRUE(cache.keep(second));
  EXPECT_EQ(cache.take(), second);
  EXPECT_EQ(cache.take(), first);
  EXPECT_EQ(cache.take(), nullptr);
  delete_block(first);
  delete_block(second);
}

TEST(BlockCache, KeepsAFewAndNoMore) {
  block_cache cache;
  int kept = 0;
  void* refused = new_block();
  while (cache.keep(refused)) {
    refused = new_block();
    ASSERT_LT(++kept, 1000) << "a thread that only gives would keep everything";
  }
  EXPECT_GE(kept, 64) << "six levels of a tree with ten branches";
  void* const taken = cache.take();
  EXPECT_NE(taken, refused);
  EXPECT_TRUE(cache.keep(refused)) << "there is room again";
  delete_block(taken);
}

}  // namespace
}  // namespace magpie::rt
