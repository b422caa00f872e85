// syscall.cpp: a thread may block, its P must not.
//
// Comes from: blocking(), through the gate.
// Goes to:    back to the caller, with the old P when nobody took it, with an idle one, or, when
//             there is none, through the global queue.
//
// Most calls that may block do not. So the P stays with the thread for a start, in a word from
// which either side can take it: the M when it comes back, or the monitor (sysmon.cpp) when the
// call takes long and somebody wants the P. Whoever swaps it out of the word has it. Where calls
// have been long lately, the P is handed on at once (call_history.h).

#include "os/fence.h"
#include "sched/idle.h"
#include "sched/tracing.h"

namespace magpie::rt {

namespace {

// A call shorter than this would have been better off with its P.
constexpr os::nanos k_short_call = 20'000;

}  // namespace

void scheduler::enter_syscall(M& m, const context& caller, const void* site) {
  const call_history::site at = call_history::site_of(site);
  m.call_site.store(at, relaxed);  // relaxed: the monitor's business
  m.handed_off_at = 0;
  if (call_history_.expects_long(at)) {
    m.handed_off_at = os::ticks();
    return enter_syscall_without_p(m, caller);
  }
  m.current->fiber.registers = caller;
  m.current->transition(goroutine_state::running, goroutine_state::syscall);
  trace_syscall_begin(m, *m.current);
  m.calls.store(m.calls.load(relaxed) + 1, relaxed);  // relaxed: the monitor's memory aid
  P* const p = m.p;
  p->counters.calls_begun.add();
  m.p = nullptr;
  m.call_p.store(p, release);  // pairs with the monitor's acquire: the P is as we left it
  os::light_fence();           // pairs with the heavy fence before the monitor stops watching
  if (!monitor_watches_.load(relaxed)) wake_monitor();  // relaxed: ordered by the fence
}

void scheduler::enter_syscall_without_p(M& m, const context& caller) {
  m.current->fiber.registers = caller;
  m.current->transition(goroutine_state::running, goroutine_state::syscall);
  trace_syscall_begin(m, *m.current);
  m.p->counters.hand_offs.add();
  m.p->counters.calls_begun.add();
  hand_off_p(release_p(m));
}

M* scheduler::exit_syscall(M& m) {
  G* const g = m.current;
  // acquire: nobody else had the P, or the monitor took it. relaxed load: own store.
  P* const mine = m.call_p.load(relaxed);
  P* left = mine;
  if (left != nullptr && m.call_p.compare_exchange_strong(left, nullptr, acquire, relaxed)) {
    m.p = mine;
    mine->counters.calls_ended.add();
    call_history_.was_short(m.call_site.load(relaxed));  // relaxed: own
    g->go_on(goroutine_state::syscall);
    trace_syscall_end(m, *g);
    return &m;
  }
  if (m.handed_off_at != 0 && os::ticks_to_nanos(os::ticks() - m.handed_off_at) < k_short_call) {
    call_history_.was_short(m.call_site.load(relaxed));  // relaxed: own
  }
  {
    const os::lock_guard hold(lock_);
    trace_syscall_end_blocked(m, *g);
    if (P* const p = take_idle_p_locked()) {
      acquire_p(m, p);
    } else {
      ++calls_ended_outside_;
    }
  }
  if (m.p != nullptr) {
    m.p->counters.calls_ended.add();
    g->go_on(goroutine_state::syscall);
    trace_start(m, *g);
    return &m;
  }
  g->fiber.registers.program_counter = nullptr;  // as in G::stop()
  g->transition(goroutine_state::syscall, goroutine_state::runnable);
  return leave_to_global_queue(&m, g);
}

// The goroutine waits for its turn like any other; the M goes on on its own stack.
[[gnu::noinline]] M* scheduler::leave_to_global_queue(M* m, G* g) {
  check_not_forked();
  m->leaving.finish = finish_to_global_queue;
  m->leaving.g = g;
  m->current = nullptr;
  if (g->locked) m->stopped_locked = g;
  M* const landed = static_cast<M*>(switch_to(g->fiber, m->own, m));
  finish_switch(*landed);
  return landed;
}

void scheduler::finish_to_global_queue(M& m) {
  scheduler& home = m.scheduler_;
  latency_sampler::time(*m.leaving.g);
  goroutine_queue one;
  one.push_back(m.leaving.g);
  home.push_global(one);
  home.wake_p();
}

// As find_runnable() would see it: where that finds work, an M must be started.
void scheduler::hand_off_p(P* p) {
  if (p->stopped.count.load(relaxed) != 0) {  // relaxed: looked at again under the lock
    sleeper next;
    {
      const os::lock_guard hold(lock_);
      next = pop_successor_locked(*p);
    }
    if (next.m != nullptr) return wake_sleeper(next, p, false);
  }
  if (!p->queue.empty() || global_.length() != 0) return start_m(p, false);
  int nobody = 0;
  // relaxed: counts only, see wake_one() in idle.cpp.
  if (idle_count_.load(relaxed) == 0 && spinning_.compare_exchange_strong(nobody, 1, relaxed)) {
    return start_m(p, true);  // nobody looks for work, and no P is spare: somebody should look
  }
  bool rests = false;
  {
    const os::lock_guard hold(lock_);
    rests = p->retired.load(relaxed);  // relaxed: written under the lock
    if (rests) {
      rest_retired_locked(p);
    } else if (M* const next = pop_stopped_locked(*p)) {  // it has come meanwhile
      next->handed_p = p;
      return next->wake.wake();
    } else {
      put_idle_locked(p);  // [leave], see idle.cpp
      if (nobody_can_watch_locked()) call_stand_in_locked();
    }
  }
  if (rests) return wake_p();
  os::heavy_fence();                                     // [fence]
  if (last_look() == visible_work::stealable) wake_p();  // [recheck]
}

}  // namespace magpie::rt
