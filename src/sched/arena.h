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

  static constexpr std::size_t k_capacity = k_size / sizeof(G) - 1;  // one place for this head
  G* gs() { return reinterpret_cast<G*>(this) + 1; }
};
static_assert(sizeof(g_arena) <= sizeof(G));

template <class Visit>
void scheduler::for_each_g_locked(Visit visit) const {
  for (g_arena* arena = arenas_; arena != nullptr; arena = arena->next) {
    for (std::size_t i = 0; i < arena->used; ++i) visit(arena->gs()[i]);
  }
}

}  // namespace magpie::rt
