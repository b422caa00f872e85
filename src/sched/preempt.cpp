// preempt.cpp: a goroutine is stopped in the middle of user code, at any instruction.
//
// Comes from: a signal to its thread, sent by the monitor when the time slice is over and somebody
//             waits, or when somebody must not wait (runners.cpp, urge() below).
// Goes to:    the successor, another M; and the goroutine, in time, to where it was stopped.
//
// The tension. C++ code cannot be moved to another thread wherever one likes: it may be inside
// malloc, hold a lock that belongs to its thread, have the address of a thread-local in a register.
// But it can be stopped anywhere, if it goes on on the same thread. So the handler gives the P to
// another M, and sleeps, there, until it is given one again: then it returns, and the goroutine has
// not noticed. As long as it is stopped the goroutine is bound to its thread, which costs a thread
// for each that is stopped like that, and nothing for all others. The binding ends when the handler
// returns: at its next call into the runtime the goroutine may move as always.
//
// Rejected: switching to another goroutine inside the handler (the stopped one would go on on
// whatever thread comes along); rewriting the frame so that user code seems to call a function (the
// red zone, the flags, and again the thread).
//
// What the handler may do. It is inside the gate from its first step to its last: at depth 0, so
// that the thread is in user code, and with no lock of the runtime held (os::locks_held(): some
// doors take one outside the gate). Whatever user code was in the middle of, it is stopped with it:
// so no malloc, no stdio, no lock of libc here, and neither in the monitor, which nobody could do
// without. Threads are made by the spawner, for which nobody waits.
//
// Stopped Ms stay with their P, in a list: to go on elsewhere means to be woken on a processor that
// is busy, while ours has nothing to do. In the list each has its turn after those who waited in
// the P's queue when it was stopped. Others take it when they have nothing else to do, or when
// their own list is shorter by two.
//
// Why no deadlock comes of it, though a goroutine is stopped while it holds a lock that all others
// want. Let H be stopped with a lock L.
//
//   - H needs a P and nothing else: its thread is there, asleep in the handler. It does not need
//     memory, a new thread, or a lock but the scheduler's; and that one is never held by somebody
//     who was stopped, or who waits for anything.
//   - Those who wait for L on a futex sleep in the kernel, outside the gate: they lose their P
//     within a millisecond (runners.cpp). Those who spin lose it when their slice is over, by a
//     signal, as everybody does. Inside the gate nobody waits for a lock of user code.
//   - A P that becomes free in either way is given to somebody at once. It goes to a stopped M when
//     there is no idle M to give it to, and so never waits for a thread that the spawner would
//     have to make, perhaps with malloc's lock as L: pop_successor_locked(), hand_off_p(),
//     request_thread_locked(). The orphan of a P for which a thread was wished gets that P itself.
//   - The list of a P is served in order, and between two of it those in the queue have at most as
//     many slices as there were goroutines before. So H has its turn after a bounded number.

#include <algorithm>

#include "os/fence.h"
#include "os/thread_view.h"
#include "sched/debug_settings.h"
#include "sched/gate.h"
#include "sched/idle.h"
#include "sched/tracing.h"

namespace magpie::rt {
namespace {

// Why somebody is to stop, in the low bits of a request; above them the slice that is meant.
constexpr std::uint64_t k_slice_is_over = 1;
constexpr std::uint64_t k_make_room = 2;  // for somebody who must not wait; to go on after that
constexpr std::uint64_t k_orphaned = 3;   // runs without a P
constexpr std::uint64_t k_reason = 3;

std::uint64_t request_for(std::uint64_t slice, std::uint64_t reason) {
  return (slice << 2) | reason;
}

// A signal that has not come after so long will not: the user has blocked or redirected it.
constexpr os::nanos k_signal_is_lost = 20'000'000;

// A timer on its thread's CPU time that is over as soon as the kernel looks.
constexpr os::nanos k_at_once = 1;

}  // namespace

// ---- Stopped Ms; all under the lock -----------------------------------------------------------

void scheduler::note_first_stopped_locked(P& p) {
  if (p.stopped.first == nullptr) return;
  p.stopped.due.store(p.stopped.first->stop.due, relaxed);  // relaxed: a hint, as above
}

void scheduler::count_stopped_locked(P& p, int change) {
  // relaxed: under the lock; the fence of wake_p() and of those who fall asleep orders it.
  p.stopped.count.store(p.stopped.count.load(relaxed) + static_cast<std::uint32_t>(change),
                        relaxed);
  note_first_stopped_locked(p);
}

// Behind those who wait in the queue now.
void scheduler::push_stopped_locked(P& p, M& m) {
  const auto procs_now = static_cast<std::size_t>(procs());
  const std::size_t ahead = p.queue.ring_length() + (p.queue.peek_next() != nullptr ? 1 : 0) +
                            (global_.length() + procs_now - 1) / procs_now;
  m.stop.due = p.queue_turns() + ahead;
  m.stop.slice_used = 0;
  m.stop.next = nullptr;
  (p.stopped.last != nullptr ? p.stopped.last->stop.next : p.stopped.first) = &m;
  p.stopped.last = &m;
  count_stopped_locked(p, 1);
}

// To go on with the rest of its slice, as soon as the P has looked for whom it is to make room.
void scheduler::push_stopped_first_locked(P& p, M& m, os::nanos slice_used) {
  m.stop.due = 0;
  m.stop.slice_used = slice_used;
  m.stop.next = p.stopped.first;
  p.stopped.first = &m;
  if (p.stopped.last == nullptr) p.stopped.last = &m;
  count_stopped_locked(p, 1);
}

M* scheduler::pop_stopped_locked(P& p) {
  M* const first = p.stopped.first;
  if (first == nullptr) return nullptr;
  p.stopped.first = first->stop.next;
  if (p.stopped.first == nullptr) p.stopped.last = nullptr;
  first->stop.next = nullptr;
  count_stopped_locked(p, -1);
  return first;
}

// Of the P with the longest list, if that is longer than the caller's by `more`.
M* scheduler::pop_stopped_elsewhere_locked(const P* mine, std::uint32_t more) {
  P* longest = nullptr;
  std::uint32_t least = (mine != nullptr ? mine->stopped.count.load(relaxed) : 0) + more;
  for (int i = 0; i < ps_made_.load(relaxed); ++i) {  // relaxed: under the lock, as above
    if (ps_[i] == mine || ps_[i]->stopped.count.load(relaxed) < least) continue;  // as above
    longest = ps_[i];
    least = longest->stopped.count.load(relaxed) + 1;  // as above
  }
  return longest != nullptr ? pop_stopped_locked(*longest) : nullptr;
}

// From the longest list, so that all come to be of one length: turns go round each list by itself,
// and who is in a short one would have more of them.
M* scheduler::pop_next_stopped_locked(P& mine) {
  M* const elsewhere = pop_stopped_elsewhere_locked(&mine, 2);
  return elsewhere != nullptr ? elsewhere : pop_stopped_locked(mine);
}

bool scheduler::others_have_more_stopped(const P& p) const {
  const std::uint32_t mine = p.stopped.count.load(relaxed);  // relaxed: a hint
  const int count = ps_made_.load(acquire);  // pairs with the release in set_procs()
  for (int i = 0; i < count; ++i) {
    if (ps_[i]->stopped.count.load(relaxed) >= mine + 2) return true;  // relaxed: as above
  }
  return false;
}

// ---- Handing a P on ---------------------------------------------------------------------------

// An M to go on with a P that is free: a stopped one when its turn has come, else an idle one that
// looks for work. Null: there is nobody, or nothing to do.
scheduler::sleeper scheduler::pop_successor_locked(P& p) {
  const bool queued = !p.queue.empty() || global_.length() != 0;
  const bool urged = p.urged.load(relaxed) && queued;  // relaxed: see find_runnable()
  const bool retired = p.retired.load(relaxed);        // relaxed: written under the lock
  sleeper next;
  if (!urged && !retired && (!queued || stopped_is_due(p))) next.m = pop_next_stopped_locked(p);
  if (next.m == nullptr && (queued || retired)) {
    next = pop_sleeper_locked();
    if (idle_ms_.empty()) request_spare_locked();
  }
  if (next.m == nullptr && !retired) next.m = pop_next_stopped_locked(p);
  return next;
}

// For an M with a P and better things to do with it: the P goes to the first stopped one. False:
// there is none.
bool scheduler::resume_stopped(M& m) {
  if (m.p->stopped.count.load(relaxed) == 0) return false;  // relaxed: a hint
  return resume_from(m, nullptr);
}

bool scheduler::resume_stopped_elsewhere(M& m) {
  const int count = ps_made_.load(acquire);  // pairs with the release in set_procs()
  for (int i = 0; i < count; ++i) {
    if (ps_[i]->stopped.count.load(relaxed) == 0) continue;  // relaxed: a hint
    if (resume_from(m, ps_[i])) return true;
  }
  return false;
}

// From the list of `only`; null: from whichever has to be shorter.
bool scheduler::resume_from(M& m, P* only) {
  // The one that goes on there looks neither for timers nor for work.
  announce_own_timer(m);
  M* next = nullptr;
  {
    const os::lock_guard hold(lock_);
    next = only != nullptr ? pop_stopped_locked(*only) : pop_next_stopped_locked(*m.p);
    if (next == nullptr) return false;
    next->handed_p = release_p(m);
  }
  if (m.spinning) stop_spinning(m);
  next->wake.wake();
  return true;
}

// ---- The handler ------------------------------------------------------------------------------

void scheduler::on_preempt_signal(const os::signal_event& event) {
  M* const m = current_m();
  if (m == nullptr) return event.pass_on();
  const std::uint64_t request = m->stop.request.exchange(0, acquire);  // pairs with send_request()
  const bool by_timer = event.timer == &m->stop.timer;
  const bool look = m->stop.look.exchange(false, acquire);  // pairs with read_running()
  // One that is not ours may have come in place of ours: there is only ever one on its way.
  if (!by_timer && ((request == 0 && !look) || !event.from_ourselves)) event.pass_on();
  if (look) answer_look(*m, event);
  const bool storms = by_timer && debugging().storm != 0;
  if (request != 0 || storms) m->scheduler_.stop_here(*m, request, event);
  // Again when it has run for a while: not for the time it was stopped.
  if (storms) m->stop.timer.set(debugging().storm);
}

void scheduler::stop_here(M& m, std::uint64_t request, const os::signal_event& event) {
  // relaxed: its own.
  if (m.depth.load(relaxed) != 0 || os::locks_held() != 0 || m.current->unstoppable != 0) {
    m.yield_requested.store(true, relaxed);  // relaxed: seen on the way out of the gate
    return;
  }
  // As enter(), for a thread that has not come to the gate.
  m.depth.store(1, relaxed);  // relaxed: the fence orders it
  os::light_fence();
  if (m.retake.load(acquire)) {  // acquire: as in enter()
    stop_orphan(m, event);
  } else {
    stop_with_p(m, request, event);
  }
  m.depth.store(0, release);  // as in leave()
}

void scheduler::stop_with_p(M& m, std::uint64_t request, const os::signal_event& event) {
  P& p = *m.p;
  const std::uint64_t reason = request & k_reason;
  if (request != 0 && request != request_for(p.slices.read(), reason)) return;  // that one is over
  sleeper next;
  {
    const os::lock_guard hold(lock_);
    if (reason == k_make_room && idle_ms_.empty()) return request_spare_locked();
    next = pop_successor_locked(p);
    // A P that is not to be used any more needs nobody. relaxed: written under the lock.
    if (next.m == nullptr && !p.retired.load(relaxed)) return;
    p.counters.preemptions.add();
    note_stop(m, event);
    trace_preempt(m, *m.current, event);
    release_p(m);
    // Known when the monitor has seen the slice begin, and else short.
    const os::nanos used =
        p.watched.slices == p.slices.read() ? os::now() - p.watched.slice_since : 0;
    if (reason == k_make_room && used < settings.time_slice.count()) {
      push_stopped_first_locked(p, m, used);
    } else {
      push_stopped_locked(p, m);
    }
    if (next.m == nullptr) rest_retired_locked(&p);
  }
  if (next.m != nullptr) wake_sleeper(next, &p, false);
  wake_p();
  wait_while_stopped(m);
}

// It has come back from the kernel, and computes on without a P.
void scheduler::stop_orphan(M& m, const os::signal_event& event) {
  {
    const os::lock_guard hold(lock_);
    if (!m.retake.load(relaxed)) return;  // relaxed: under the lock. It was let go
    m.retake.store(false, relaxed);       // as above
    orphans_.remove(&m);
    trace_syscall_end_blocked(m, *m.current);
    P* p = take_idle_p_locked();
    if (p == nullptr) p = take_wished_p_locked();
    if (p != nullptr) {
      acquire_p(m, p);
      return trace_start(m, *m.current);
    }
    note_stop(m, event);
    P* shortest = ps_[0];
    for (int i = 1; i < procs(); ++i) {
      // relaxed: under the lock.
      if (ps_[i]->stopped.count.load(relaxed) < shortest->stopped.count.load(relaxed)) {
        shortest = ps_[i];
      }
    }
    push_stopped_locked(*shortest, m);
  }
  wake_p();
  wait_while_stopped(m);
}

// Dumps read a goroutine's registers where a switch leaves them.
void scheduler::note_stop(M& m, const os::signal_event& event) {
  G& g = *m.current;
  g.fiber.registers.stack_pointer = reinterpret_cast<void*>(event.stack_pointer);
  g.fiber.registers.program_counter = reinterpret_cast<void*>(event.program_counter);
  g.fiber.registers.frame_pointer = reinterpret_cast<void*>(event.frame_pointer);
  g.transition(goroutine_state::running, goroutine_state::runnable);
}

void scheduler::wait_while_stopped(M& m) {
  const std::uint64_t since = os::ticks();
  m.wake.wait();
  m.wake.clear();
  acquire_p(m, m.handed_p);
  P& p = *m.p;
  p.latencies.add(os::ticks_to_nanos(os::ticks() - since), 1);
  p.turns.add();
  p.slices.add();
  p.stopped.others_turns.add(~std::uint64_t{0});  // this one is not of the queue
  // relaxed: the monitor's hints.
  p.dated.since.store(os::now() - m.stop.slice_used, relaxed);
  p.dated.slices.store(p.slices.read(), relaxed);
  m.yield_requested.store(false, relaxed);  // relaxed: it was meant for the last slice
  m.current->go_on(goroutine_state::runnable);
  trace_start(m, *m.current);
}

// ---- The sending side -------------------------------------------------------------------------

void scheduler::start_preempting() {
  preempts_ = settings.preempt && !debugging().nopreempt;
  if (!preempts_) return;
  const os::error refused = os::install_signal_handler(settings.preempt_signal, on_preempt_signal);
  if (refused) fatal("no handler for signal ", settings.preempt_signal, " can be installed");
}

// At the start and the end of an M's thread.
void scheduler::open_to_preemption(M& m) const {
  if (!preempts_) return;
  const os::nanos storm = debugging().storm;
  if (storm != 0 || settings.preempt_by == preempt_trigger::cpu_timer) {
    const auto clock =
        storm != 0 ? os::thread_timer::clock::real : os::thread_timer::clock::cpu_time;
    if (m.stop.timer.make(clock, settings.preempt_signal) && storm != 0) {
      m.stop.timer.set(storm);
    }
  }
  os::open_signal(settings.preempt_signal);
}

void scheduler::close_to_preemption(M& m) const {
  if (!preempts_) return;
  m.stop.timer.stop();
  os::close_signal(settings.preempt_signal);  // one that comes late dies with the thread
}

// Under the lock, so that the thread is there.
void scheduler::send_request_locked(M& m, std::uint64_t request, os::nanos now) {
  // acq_rel: what the handler has to know was written before; pairs with its exchange.
  const std::uint64_t before = m.stop.request.exchange(request, acq_rel);
  if (before != 0 && now - m.stop.asked_at < k_signal_is_lost) return;  // one is on its way
  m.stop.asked_at = now;
  if (settings.preempt_by == preempt_trigger::cpu_timer && debugging().storm == 0) {
    if (m.stop.timer.made()) m.stop.timer.set(k_at_once);
    return;
  }
  os::send_signal(m.thread, settings.preempt_signal);
}

// The time of the goroutine on `p` is over, or somebody must not wait. It stops at its next call
// into the runtime, or at once. Not a thread that sleeps: what it sleeps in might end early.
void scheduler::stop_runner(P& p, const runner& it, os::nanos now, bool make_room) {
  if (preempts_ && !it.inside &&
      os::look_at_thread(it.thread).activity == os::thread_activity::asleep) {
    take_from_sleeper(p, it);
    return;
  }
  const os::lock_guard hold(lock_);
  if (p.m.load(relaxed) != it.m) return;  // relaxed: under the lock
  M& m = *it.m;
  m.yield_requested.store(true, relaxed);  // relaxed: a hint, seen at some gate
  // relaxed: inside, it sees the request on its way out.
  if (!preempts_ || m.depth.load(relaxed) != 0) return;
  send_request_locked(m, request_for(p.slices.read(), make_room ? k_make_room : k_slice_is_over),
                      now);
}

scheduler::runner scheduler::runner_locked(M& m) {
  return {&m, m.thread, m.depth.load(relaxed) != 0};  // relaxed: a hint
}

// Who has run for longest, as the monitor knows it. Those inside the gate, or in a call that may
// block, are about to look for themselves.
void scheduler::urge(os::nanos now) {
  P* longest = nullptr;
  runner its;
  {
    const os::lock_guard hold(lock_);
    if (global_.length() == 0 || !idle_ps_.empty()) return;
    for (int i = 0; i < ps_made_.load(relaxed); ++i) {  // relaxed: under the lock
      P* const p = ps_[i];
      M* const m = p->m.load(acquire);  // pairs with acquire_p()
      // relaxed: hints.
      if (m == nullptr || m->call_p.load(relaxed) == p || p->retired.load(relaxed)) continue;
      if (longest == nullptr || p->watched.slice_since < longest->watched.slice_since) {
        longest = p;
        its = runner_locked(*m);
      }
    }
    if (longest == nullptr) return;
    longest->urged.store(true, relaxed);  // relaxed: the goroutine is there already
  }
  stop_runner(*longest, its, now, true);
}

// ---- Orphans ----------------------------------------------------------------------------------

namespace {

// A thread without a P that has run for so long has more to do than to come back to the gate. One
// that has just been woken in the kernel, and would be disturbed there, has not run for so long.
constexpr os::nanos k_orphan_may_run = 200'000;

}  // namespace

void scheduler::look_at_orphans(os::nanos now) {
  const os::lock_guard hold(lock_);
  for (M* m = orphans_.front(); m != nullptr; m = orphans_.next(m)) {
    const bool has_run = os::cpu_time_of(m->thread) - m->orphan.cpu_time >= k_orphan_may_run;
    // It sleeps on, as far as that matters: a look costs microseconds, and there may be thousands.
    if (!has_run && !may_note_stall_locked(*m, now)) continue;
    const os::thread_view view = os::look_at_thread(m->thread);
    // relaxed: one who is on its way back, and sleeps until it gets this lock, has counted itself
    // in before it slept.
    const bool inside = m->depth.load(relaxed) != 0;
    if (view.activity == os::thread_activity::asleep && !inside) note_stall_locked(*m, view, now);
    if (preempts_ && has_run && view.activity == os::thread_activity::running) {
      stop_orphan_soon_locked(*m, now);
    }
  }
}

void scheduler::stop_orphan_soon_locked(M& m, os::nanos now) {
  if (preempts_) send_request_locked(m, request_for(0, k_orphaned), now);
}

}  // namespace magpie::rt
