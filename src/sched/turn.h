// The way from one goroutine of a P to its next: what every stop and every end goes through,
// millions of times a second. Inlined into the functions that switch: as calls, each of these few
// lines took as many instructions again to save and restore registers.
//
// Comes from: park() and yield() in park.cpp, block() in waiting.h; for those that have ended
//             goroutine_main() in spawn.cpp, for a child on its parent's stack run_inline() in
//             join.cpp.
// Goes to:    the goroutine; or, with a null pointer, to find_runnable() on the M's own stack.
#pragma once

#include "sched/scheduler.h"
#include "sched/tracing.h"

namespace magpie::rt {

// Every so many turns a P looks at the global queue first, or those in it could wait for ever
// behind those that come and go here. Prime, so that it does not beat with programs that do
// things in powers of two; 1.6 % of the turns pay for it.
inline constexpr std::uint64_t k_fairness_turn = 61;

inline bool is_fairness_turn(const P& p) { return p.turns.read() % k_fairness_turn == 0; }

// First in, first out, as Go does; but after a goroutine that waits for a child, or is one that
// has ended, the newest child goes first. A tree of goroutines that fork and join is then walked
// depth first: a handful of them are alive at a time, on hot stacks, instead of a whole level.
[[gnu::always_inline]] inline run_queue::popped scheduler::pop_local(M& m) {
  if (m.prefers_newest) [[unlikely]] {
    if (G* const child = pop_newest_child(m)) return {child, true};
  }
  return m.p->queue.pop();
}

[[gnu::always_inline]] inline void scheduler::begin_turn(M& m, G* g, bool inherits_slice) {
  P& p = *m.p;
  p.turns.add();
  if (!inherits_slice) {
    p.slices.add();
    m.yield_requested.store(false, relaxed);  // relaxed: a hint; it was meant for the last slice
  }
  g->go_on(goroutine_state::runnable);
  trace_start(m, *g);
  latency_sampler::note_running(*g, p.latencies);
  if (g->fiber.stack == nullptr) bind_stack(m, g);
}

// Those who come from the global queue may have waited for long. A line or a page that is in
// nobody's cache is some hundred nanoseconds away: a few turns. All of a batch at once would be too
// much for the nearest cache, so each is fetched so many turns before its own. By prefetches: a
// load would hold up the turns between. Thieves may have come since: then it is in vain, and the
// stack may be somebody else's or gone, which a prefetch does not mind.
inline constexpr std::size_t k_turns_ahead = 8;

[[gnu::always_inline]] inline void fetch_cold_ahead(P& p) {
  if (p.cold.next == p.cold.count) [[likely]]
    return;
  fetch_frames_at<prefetch_line>(p.cold.at[p.cold.next++]);
}

// The local part of find_runnable(), for a switch that does not touch the M's own stack. On a
// fairness turn, when a timer is due, when it is the turn of somebody who was stopped and when the
// P is to be given up, the M looks for itself. `left`: the stack of a goroutine that has just
// ended; one that never ran and wants such a stack goes on there.
[[gnu::always_inline]] inline G* scheduler::next_local(M& m, stack* left) {
  P& p = *m.p;
  // relaxed: see above.
  if (is_fairness_turn(p) || p.retired.load(relaxed) || p.urged.load(relaxed) || timer_is_due(p) ||
      stopped_is_due(p)) [[unlikely]] {
    return nullptr;
  }
  fetch_cold_ahead(p);
  const run_queue::popped found = pop_local(m);
  if (found.g == nullptr) return nullptr;
  G& g = *found.g;
  if (left != nullptr && g.fiber.stack == nullptr && g.size_class == left->size_class) {
    g.fiber.stack = left;
    left->occupant = &g.fiber;
  }
  // The M hands its P over, or waits for the kernel to make stacks, on its own stack: whoever
  // stops here may hold the lock of a channel until the switch has been made.
  if (g.locked || (g.fiber.stack == nullptr && !p.stacks.has(g.size_class))) [[unlikely]] {
    m.found.g = found.g;  // by member: of the whole g++ keeps a copy on every stack that waits
    m.found.inherits_slice = found.inherits_slice;
    return nullptr;
  }
  begin_turn(m, found.g, found.inherits_slice);
  return found.g;
}

[[gnu::always_inline]] inline void scheduler::begin_wait(M* m, wait_reason reason,
                                                         void (*finish)(M&), void* argument) {
  G* const g = m->current;
  g->waits_for.store(reason, relaxed);  // relaxed: for dumps
  g->stop(goroutine_state::waiting);
  trace_block(*m, *g, reason);
  m->p->counters.parks.add();
  m->leaving.finish = finish;
  m->leaving.argument = argument;
}

}  // namespace magpie::rt
