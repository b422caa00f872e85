// The gate: every call of user code into the runtime goes through here.
//
// User code may be stopped at any instruction, and its thread may block anywhere. Inside the
// runtime neither may happen: an M in there holds its P, touches the P's queue and caches, and
// is quick. So the way in counts up and the way out counts down; whoever wants to stop a thread
// looks at the count first. On the way out a goroutine whose time slice is over yields: that
// makes every call into the runtime a checkpoint.
//
// Inside: no malloc, no stdio, no lock of libc, no thread made. The thread may have been stopped
// inside malloc by then.
#pragma once

#include "sched/scheduler.h"

namespace magpie::rt {

// Null where there is nothing to guard: on a plain thread, and inside blocking(), where the M has
// no P to work with. Whoever calls does then what a plain thread does.
inline M* enter() {
  M* const m = current_m();
  if (m == nullptr || m->in_call) return nullptr;
  // relaxed: only this thread writes it.
  m->depth.store(m->depth.load(relaxed) + 1, relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return m;
}

// `m` as enter() gave it, or as the last call that may switch returned it.
inline void leave(M* m) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  // relaxed: a request that is missed here is seen at the next gate.
  if (m->yield_requested.load(relaxed)) [[unlikely]]
    m = m->scheduler_.give_way(m);
  m->depth.store(m->depth.load(relaxed) - 1, relaxed);  // relaxed: only this thread writes it
}

}  // namespace magpie::rt
