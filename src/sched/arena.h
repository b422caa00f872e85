// Where Gs come from.
#pragma once

#include <cstddef>

#include "goroutine/g.h"
#include "sched/scheduler.h"

namespace magpie::rt {

// Gs live in blocks of 2 MiB, aligned to that, so that a G's address leads to its runtime.
struct g_arena {
  static constexpr std::size_t k_size = 2 << 20;

  scheduler* home;
  g_arena* next;
  std::size_t used;  // Gs carved so far

  // One place for this head. At the end of the block: who spawned each, which is needed too seldom
  // for a place in G.
  static constexpr std::size_t k_capacity = k_size / (sizeof(G) + sizeof(std::uint64_t)) - 1;
  G* gs() { return reinterpret_cast<G*>(this) + 1; }
  std::uint64_t* parents() { return reinterpret_cast<std::uint64_t*>(gs() + k_capacity); }

  static g_arena& of(const G& g) {
    return *reinterpret_cast<g_arena*>(reinterpret_cast<std::uintptr_t>(&g) & ~(k_size - 1));
  }
};
static_assert(sizeof(g_arena) <= sizeof(G));

// The id of the goroutine that spawned it; 0: a plain thread or a timer. Written before it starts.
inline std::uint64_t& parent_of(const G& g) {
  g_arena& arena = g_arena::of(g);
  return arena.parents()[&g - arena.gs()];
}

template <class Visit>
void scheduler::for_each_g_locked(Visit visit) const {
  for (g_arena* arena = arenas_; arena != nullptr; arena = arena->next) {
    for (std::size_t i = 0; i < arena->used; ++i) visit(arena->gs()[i]);
  }
}

}  // namespace magpie::rt
