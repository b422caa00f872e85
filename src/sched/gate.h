// The gate: every call of user code into the runtime goes through here.
//
// User code may be stopped at any instruction, and its thread may block anywhere. Inside the
// runtime neither may happen: an M in there holds its P, touches the P's queue and caches, and
// is quick. So the way in counts up and the way out counts down; whoever wants to stop a thread
// looks at the count first. On the way out a goroutine whose time slice is over yields: that
// makes every call into the runtime a checkpoint.
//
// The monitor takes the P of a thread that sleeps in the kernel, in user code, from afar
// (preempt.cpp). The thread finds out here:
//
//     M: enter()                         monitor: take_p_locked(), under the scheduler's lock
//       depth = 1                          retake = true
//       (light fence)                      heavy fence
//       read retake                        read depth
//
// With a full barrier between the two steps of each side, at least one sees the other: if M reads
// false, the monitor reads 1 and lets go; if the monitor reads 0, M reads true, and waits for the
// lock before it looks at its P. `depth = 0` in leave() is a release and the monitor's read an
// acquire: what M did to the P inside is done when the P is somebody else's. model/gate.pml is
// this, with six ways to get it wrong.
//
// Inside: no malloc, no stdio, no lock of libc, no thread made. Somebody may have been stopped
// inside malloc by then.
#pragma once

#include "os/fence.h"
#include "sched/scheduler.h"

namespace magpie::rt {

// Null where there is nothing to guard: on a plain thread, and inside blocking(), where the M has
// no P to work with. Whoever calls does then what a plain thread does.
inline M* enter() {
  M* const m = current_m();
  if (m == nullptr || m->in_call) return nullptr;
  // relaxed: only this thread writes it, and the fence orders it.
  m->depth.store(m->depth.load(relaxed) + 1, relaxed);
  os::light_fence();
  // acquire: nothing of the P is looked at before.
  if (m->retake.load(acquire)) [[unlikely]]
    return m->scheduler_.enter_without_p(m);
  return m;
}

// `m` as enter() gave it, or as the last call that may switch returned it.
inline void leave(M* m) {
  const std::uint32_t depth = m->depth.load(relaxed) - 1;  // relaxed: only this thread writes it
  m->depth.store(depth, release);  // pairs with the acquire in take_p_locked()
  // A signal's handler that found the thread inside has left a request: so this comes after.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  // relaxed: the handler's, or one of the monitor that the next gate will see as well.
  if (m->yield_requested.load(relaxed) && depth == 0) [[unlikely]]
    scheduler::checkpoint();
}

}  // namespace magpie::rt
