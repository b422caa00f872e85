// The record of one stack. Records live in tables of their own (stack_pool.cpp), away from the
// stacks: the first page of a stack holds frames and nothing else, so that a goroutine that
// stays shallow costs one page.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cacheline.h"
#include "fiber/sanitizer.h"

namespace magpie::rt {

struct fiber;
struct stack_chunk;

// 16 pages below each stack fault when touched: a frame of up to 60 KiB that steps over the end
// of its stack still hits them. They cost address space, not memory. A pool adds a page.
inline constexpr std::size_t k_guard_size = 64 * 1024;

struct alignas(k_cache_line) stack {
  char* low;   // [low, high) is for frames; the guard ends at low
  char* high;  // frames grow down from here
  union {
    stack* next;  // in the free list it is on, if any
    std::uint64_t
        runnable_since;  // ticks: of whoever waits on it for his turn; see sched/latency.h
  };
  const fiber* occupant;  // who runs on it; for reports only
  stack_chunk* home;      // the pool's
  std::uint8_t size_class;
  sanitizer::stack_note note;

  std::size_t usable_size() const { return static_cast<std::size_t>(high - low); }
  std::size_t slot_size() const { return usable_size() + k_guard_size; }
};
static_assert(sizeof(stack) == k_cache_line);

}  // namespace magpie::rt
