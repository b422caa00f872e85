// Where Gs come from.
#pragma once

#include <cstddef>
#include <cstdint>

#include "goroutine/g.h"
#include "sched/scheduler.h"
#include "trace/mark.h"

namespace magpie::rt {

// Gs live in blocks of 2 MiB, aligned to that, so that a G's address leads to its runtime. Behind
// each block is a mark for every G of it, in memory that nobody touches while there is no trace.
struct g_arena {
  static constexpr std::size_t k_size = 2 << 20;
  static constexpr std::size_t k_marks_size = k_size / sizeof(G) * sizeof(trace::mark);

  scheduler* home;
  g_arena* next;
  std::size_t used;  // Gs carved so far

  static constexpr std::size_t k_capacity = k_size / sizeof(G) - 1;  // one place for this head
  G* gs() { return reinterpret_cast<G*>(this) + 1; }
};
static_assert(sizeof(g_arena) <= sizeof(G));

// Memory from the kernel is zero, which is what a new mark is.
inline trace::mark& mark_of(const G& g) {
  const auto address = reinterpret_cast<std::uintptr_t>(&g);
  const std::uintptr_t block = address & ~(g_arena::k_size - 1);
  const std::size_t index = (address - block) / sizeof(G);
  return reinterpret_cast<trace::mark*>(block + g_arena::k_size)[index];
}

template <class Visit>
void scheduler::for_each_g_locked(Visit visit) const {
  for (g_arena* arena = arenas_; arena != nullptr; arena = arena->next) {
    for (std::size_t i = 0; i < arena->used; ++i) visit(arena->gs()[i]);
  }
}

}  // namespace magpie::rt
