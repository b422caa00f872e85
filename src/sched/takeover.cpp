// takeover.cpp: a P is taken from a thread that sleeps in user code, and the thread comes back.
//
// Comes from: look_at_runners(), for the one side; the gate, for the other. gate.h has the race.
// Goes to:    another M, by hand_off_p(); and for the goroutine that came back without a P, an idle
//             one or the global queue.
//
// An M whose P was taken is an orphan. It goes on in user code, without the right to, until its
// next call into the runtime; it does not touch anything of a P before that. So for a moment more
// goroutines may run than there are Ps.

#include "os/fence.h"
#include "os/thread_view.h"
#include "sched/scheduler.h"
#include "sched/tracing.h"

namespace magpie::rt {

// Not a word to the thread: it may sleep in a call that would fail if it was disturbed.
bool scheduler::take_from_sleeper(P& p, const runner& suspect) {
  const os::thread_view view = os::look_at_thread(suspect.thread);
  if (view.activity != os::thread_activity::asleep) return false;
  {
    const os::lock_guard hold(lock_);
    if (p.m.load(relaxed) != suspect.m) return false;  // relaxed: under the lock; see below
    M& m = *suspect.m;
    if (!take_p_locked(p, m)) return false;
    const os::nanos now = os::now();
    if (m.orphan.asleep_since == 0) m.orphan.asleep_since = now;
    note_stall_locked(m, view, now);
  }
  hand_off_p(&p);
  return true;
}

// False: it is inside the gate, and keeps its P.
bool scheduler::take_p_locked(P& p, M& m) {
  m.retake.store(true, relaxed);  // relaxed: the fence orders it
  os::heavy_fence();
  // acquire pairs with the release in leave(): the P is as the M left it. relaxed: an M outside
  // the gate, which waits for the lock on its way in, changes neither; so what is read is true.
  if (m.depth.load(acquire) != 0 || p.m.load(relaxed) != &m) {
    m.retake.store(false, relaxed);  // relaxed: who saw it looks again under the lock
    return false;
  }
  trace_found_asleep(m, p);
  release_p(m);
  orphans_.push_back(&m);
  m.orphan = {os::cpu_time_of(m.thread), p.watched.asleep_since, false};
  ++retakes_;
  ++stalls_seen_;
  return true;
}

// The slow way through the gate. Returns on the M the goroutine goes on on.
[[gnu::noinline]] M* scheduler::enter_without_p(M* m) {
  {
    const os::lock_guard hold(lock_);
    if (!m->retake.load(relaxed)) return m;  // relaxed: under the lock. It was let go
    m->retake.store(false, relaxed);         // as above
    orphans_.remove(m);
    trace_syscall_end_blocked(*m, *m->current);
    if (P* const p = take_idle_p_locked()) {
      acquire_p(*m, p);
      trace_start(*m, *m->current);
      return m;
    }
  }
  G* const g = m->current;
  g->stop(goroutine_state::runnable);
  return leave_to_global_queue(m, g);
}

}  // namespace magpie::rt
