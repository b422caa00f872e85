// park.cpp: how a running goroutine waits, and how it becomes runnable again.
//
// Comes from: user code, through the gate.
// Goes to:    straight to the next goroutine of this P when there is one, else to run_loop() on
//             the M's own stack; and later, by ready(), back to a run queue.
//
// A goroutine that stops must not be found by anybody before its registers are stored, and they
// are stored by the switch itself. So what makes it findable (its place in a wait list, the
// unlock of a channel, its slot in a run queue) happens on the other side: every place where a
// switch lands calls finish_switch() first.

#include <algorithm>

#include "os/fence.h"
#include "sched/gate.h"
#include "sched/idle.h"
#include "sched/turn.h"

namespace magpie::rt {

namespace {
thread_local bool t_wakes_are_urgent = false;
}

urgent_wakes::urgent_wakes() { t_wakes_are_urgent = true; }
urgent_wakes::~urgent_wakes() { t_wakes_are_urgent = false; }

// Leaves g's stack for the next goroutine at hand. The one function through which every stopped
// goroutine comes back, so that its return is predicted well.
[[gnu::noinline]] M* scheduler::switch_away(M* m, G* g) noexcept {
  check_not_forked();
  G* next = nullptr;
  if (g->locked) [[unlikely]] {
    m->stopped_locked = g;
  } else {
    next = next_local(*m);
  }
  m->current = next;
  fiber& to = next != nullptr ? next->fiber : m->own;
  M* const landed = static_cast<M*>(switch_to(g->fiber, to, m));
  finish_switch(*landed);
  return landed;
}

M* scheduler::park(M* m, wait_reason reason, park_commit commit, void* argument) {
  G* const g = m->current;
  m->leaving.g = g;
  m->leaving.commit = commit;
  begin_wait(m, reason, finish_park, argument);
  return switch_away(m, g);
}

// After commit() said yes the goroutine may be running elsewhere already: nothing of it may be
// touched any more.
void scheduler::finish_park(M& m) {
  G* const g = m.leaving.g;
  if (!m.leaving.commit(m, m.leaving.argument)) m.scheduler_.ready(&m, g);
}

void scheduler::ready(M* m, G* g) {
  g->transition(goroutine_state::waiting, goroutine_state::runnable);
  trace_unblock(m, *g);
  // It goes on where its stack was left, and by then these lines are here.
  __builtin_prefetch(static_cast<char*>(g->fiber.registers.stack_pointer));
  __builtin_prefetch(static_cast<char*>(g->fiber.registers.stack_pointer) + k_cache_line);
  if (m != nullptr) {
    m->p->counters.readies.add();
    m->p->sampler.note_runnable(*g);
    push_next(*m, g);
    return;
  }
  ready_all(nullptr, &g, 1);
}

// Many at once, in their order: behind those who are runnable on this P already.
void scheduler::ready_all(M* m, G* const* woken, std::size_t count, wake_policy policy) {
  std::size_t here = 0;
  if (m != nullptr) {
    m->p->counters.readies.add(count);
    for (std::size_t i = 0; i < count; ++i) m->p->sampler.note_runnable(*woken[i]);
    // Before they are in the queue: after that others may have them.
    const std::size_t room = run_queue::k_size - m->p->queue.ring_length();
    for (std::size_t i = 0; i < std::min(room, count); ++i) fetch_frames(*woken[i]);
    here = m->p->queue.push_all(woken, count);
  }
  if (m == nullptr) {
    for (std::size_t i = 0; i < count; ++i) latency_sampler::time(*woken[i]);
  }
  if (here != count) {
    const os::lock_guard hold(lock_);
    if (m == nullptr) readied_outside_ += count;
    if (m == nullptr && t_wakes_are_urgent) {
      global_.push_urgent(woken, count);
    } else {
      global_.push_all(woken + here, count - here);
    }
  }
  if (here != count || policy == wake_policy::wake_others) wake_p();
}

// Into run_next. Nobody is woken for run_next alone while somebody is about to look anyway: the
// goroutine that readied another usually waits next, and this P then runs it, long before a
// thread would be awake. See idle.cpp for who looks after those that do not.
void scheduler::push_next(M& m, G* g) {
  goroutine_queue overflow;
  const bool displaced = m.p->queue.push_next(g, overflow);
  if (!overflow.empty()) push_global(overflow);
  os::light_fence();  // [fence]
  // relaxed: ordered after [publish] by the fence. [look]
  if (idle_count_.load(relaxed) == 0) return poke_monitor();
  if (spinning_.load(relaxed) != 0) return;                 // as above
  if (displaced || drowsy_.load(relaxed) == 0) wake_one();  // relaxed: as above
}

void scheduler::push_local(M& m, G* g) {
  if (!m.p->queue.try_push(g)) push_overflowing(m, g);
  wake_p();
}

// A full ring: half of it moves to the global queue.
[[gnu::noinline]] void scheduler::push_overflowing(M& m, G* g) {
  goroutine_queue overflow;
  m.p->queue.push(g, overflow);
  if (!overflow.empty()) push_global(overflow);
}

void scheduler::push_global(goroutine_queue& batch) {
  const os::lock_guard hold(lock_);
  global_.push_all(batch);
}

// Through the global queue, behind everybody who waits there: on this P's own queue, a few that
// use up their slices would keep those in the global queue waiting for most of a second.
M* scheduler::give_way(M* m) {
  G* const g = m->current;
  if (g == nullptr || g->unstoppable != 0) return m;
  m->yield_requested.store(false, relaxed);  // relaxed: a request that comes now asks again
  if (!somebody_waits_for(*m->p) && !m->p->retired.load(relaxed)) return m;  // as above
  m->p->counters.preemptions.add();
  m->p->stopped.others_turns.add();
  g->stop(goroutine_state::runnable);
  trace_give_way(*m, *g);
  return leave_to_global_queue(m, g);
}

// Not by leave(), which would look for a request once more.
[[gnu::noinline]] void scheduler::checkpoint() noexcept {
  M* m = enter();
  if (m == nullptr) return;
  // relaxed: as in leave(). It may have come for its P only.
  if (m->yield_requested.load(relaxed)) m = m->scheduler_.give_way(m);
  // relaxed: only this thread writes it; release: as in leave().
  m->depth.store(m->depth.load(relaxed) - 1, release);
}

M* scheduler::yield(M* m) {
  P& p = *m->p;
  p.counters.yields.add();
  // Nobody else here, and nobody waits elsewhere: go on at once.
  if (!somebody_waits_for(p) && !p.retired.load(relaxed)) return m;
  G* const g = m->current;
  g->stop(goroutine_state::runnable);
  trace_yield(*m, *g);
  m->leaving.finish = finish_yield;
  m->leaving.g = g;
  return switch_away(m, g);
}

M* scheduler::yield_unasked(M* m) {
  ++m->p->yields_at_last_look;
  return yield(m);
}

// What is in the cache is there at once, and whoever reads on and on would keep the P for whole
// time slices, as would all the others who read. Should each call end as if it had waited? Those
// who compute would hardly be held up. But the stack and the buffer of the next one are cold:
// random reads of 4 KiB took 15 % longer. So it is done while there is somebody who computes: one
// who has used up a slice here lately. Otherwise now and then, for those whom nobody has noticed
// yet.
M* scheduler::end_quick_call(M* m) {
  constexpr std::uint32_t k_one_in = 64;
  constexpr std::uint32_t k_considerate = 8192;  // as many as may read beside one who computes
  P& p = *m->p;
  const std::uint64_t preemptions = p.counters.preemptions.read();
  if (p.quick_calls.preemptions != preemptions) {
    p.quick_calls.preemptions = preemptions;
    p.quick_calls.considerate = k_considerate;
  }
  if (p.quick_calls.considerate != 0) {
    --p.quick_calls.considerate;
    return yield_unasked(m);
  }
  return ++p.quick_calls.count % k_one_in == 0 ? yield_unasked(m) : m;
}

void scheduler::finish_yield(M& m) {
  m.p->sampler.note_runnable(*m.leaving.g);
  m.scheduler_.push_local(m, m.leaving.g);
}

}  // namespace magpie::rt
