// A thread's own supply of blocks for the states of futures.
//
// A tree of goroutines that fork and join has ten of them or a hundred at a time, more than malloc
// keeps at hand for a thread: the rest takes its slow way, which is a fifth of what a goroutine
// that does next to nothing costs.
//
// Used by user code outside the gate: it may be stopped in the middle, but its thread runs nobody
// else until it goes on there. See preempt.cpp.
#pragma once

#include <cstddef>
#include <new>

#include "base/cacheline.h"

namespace magpie::rt {

class block_cache {
 public:
  static constexpr std::size_t k_block_size = k_cache_line;

  block_cache() = default;
  ~block_cache() {
    while (void* const block = take()) ::operator delete(block);
  }
  block_cache(const block_cache&) = delete;
  block_cache& operator=(const block_cache&) = delete;

  // Null: there is none.
  void* take() {
    free_block* const block = first_;
    if (block == nullptr) return nullptr;
    first_ = block->next;
    --count_;
    return block;
  }

  // Made by operator new, of that size. False: it has enough.
  bool keep(void* block) {
    if (count_ == k_most) return false;
    first_ = new (block) free_block{first_};
    ++count_;
    return true;
  }

 private:
  static constexpr std::size_t k_most = 64;  // 4 KiB

  struct free_block {
    free_block* next;
  };
  free_block* first_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace magpie::rt
