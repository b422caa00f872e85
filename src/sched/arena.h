// Where Gs come from.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cacheline.h"
#include "goroutine/g.h"
#include "sched/scheduler.h"
#include "trace/mark.h"

namespace magpie::rt {

// Gs live in blocks of 2 MiB, aligned to that, so that a G's address leads to its runtime. Behind
// each block is a mark for every G of it, in memory that nobody touches while there is no trace.
struct g_arena {
  static constexpr std::size_t k_size = 2 << 20;

  scheduler* home;
  g_arena* next;
  std::size_t used;         // Gs carved so far
  std::uint64_t trace_ids;  // what the ids in traces begin with

  // What is needed too seldom for a place in G. Written before it starts.
  struct origin {
    std::uint64_t parent;   // the goroutine that spawned it; 0: a plain thread or a timer
    std::uintptr_t begins;  // its first function
  };

  // For the record of the one wait that a goroutine may be in: see waiter. On its stack, whoever
  // wakes a million of them would need a page, and an entry of the page table, for each.
  struct alignas(k_cache_line) wait_room {
    std::byte bytes[2 * k_cache_line];
  };

  // One place for this head. Behind the Gs: where each waits, where each comes from.
  static constexpr std::size_t k_capacity =
      k_size / (sizeof(G) + sizeof(wait_room) + sizeof(origin)) - 1;
  G* gs() { return reinterpret_cast<G*>(this) + 1; }
  wait_room* rooms() { return reinterpret_cast<wait_room*>(gs() + k_capacity); }
  origin* origins() { return reinterpret_cast<origin*>(rooms() + k_capacity); }

  // Neighbours run on different Ps, and write to their marks at every turn: so those that share a
  // cache line are of Gs that are far apart.
  static constexpr std::size_t k_marks_in_line = k_cache_line / sizeof(trace::mark);
  static constexpr std::size_t k_mark_lines = k_capacity / k_marks_in_line + 1;
  static constexpr std::size_t k_marks_size = (k_mark_lines * k_cache_line / 4096 + 1) * 4096;
  trace::mark& mark_at(std::size_t i) {
    auto* const marks = reinterpret_cast<trace::mark*>(reinterpret_cast<char*>(this) + k_size);
    return marks[i % k_mark_lines * k_marks_in_line + i / k_mark_lines];
  }

  static g_arena& of(const G& g) {
    return *reinterpret_cast<g_arena*>(reinterpret_cast<std::uintptr_t>(&g) & ~(k_size - 1));
  }
};
static_assert(sizeof(g_arena) <= sizeof(G));

// Memory from the kernel is zero, which is what a new mark is.
inline trace::mark& mark_of(const G& g) {
  g_arena& arena = g_arena::of(g);
  return arena.mark_at(static_cast<std::size_t>(&g - arena.gs()));
}

// Unique in the process.
inline std::uint64_t trace_id_of(const G& g) { return g_arena::of(g).trace_ids | look_at(g.id); }

inline g_arena::wait_room& wait_room_of(const G& g) {
  g_arena& arena = g_arena::of(g);
  return arena.rooms()[&g - arena.gs()];
}

inline g_arena::origin& origin_of(const G& g) {
  g_arena& arena = g_arena::of(g);
  return arena.origins()[&g - arena.gs()];
}

}  // namespace magpie::rt
