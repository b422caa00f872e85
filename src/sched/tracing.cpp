// tracing.cpp: what the scheduler knows, as a trace puts it.

#include "sched/tracing.h"

#include <atomic>
#include <span>

#include "os/fence.h"
#include "sched/arena.h"
#include "sched/local.h"
#include "sched/racy.h"
#include "sched/scheduler.h"
#include "trace/recorder.h"

namespace magpie::rt {
namespace {

// The words that Go's tools know. Those of wait_reason_text() are for people.
constexpr trace::text as_text(wait_reason why) {
  switch (why) {
    case wait_reason::chan_receive:
    case wait_reason::chan_turn:
      return trace::text::chan_receive;
    case wait_reason::chan_send:
      return trace::text::chan_send;
    case wait_reason::chan_receive_nil:
    case wait_reason::chan_send_nil:
    case wait_reason::select_no_cases:
      return trace::text::forever;
    case wait_reason::select:
      return trace::text::select;
    case wait_reason::sleep:
      return trace::text::sleep;
    case wait_reason::condition_wait:
      return trace::text::cond_wait;
    case wait_reason::io_wait:
    case wait_reason::io_turn:
    case wait_reason::io_close:
      return trace::text::network;
    case wait_reason::future_wait:
    case wait_reason::mutex_lock:
    case wait_reason::shared_mutex_lock:
    case wait_reason::shared_mutex_lock_shared:
    case wait_reason::semaphore_acquire:
    case wait_reason::once_call:
    case wait_reason::wait_group_wait:
    case wait_reason::latch_wait:
    case wait_reason::barrier_wait:
    case wait_reason::event_wait:
    case wait_reason::group_limit:
    case wait_reason::thread_cap:
      return trace::text::sync;
    case wait_reason::none:
    case wait_reason::count_:
      break;
  }
  return trace::text::unspecified;
}

// By its owner.
trace::goroutine_facts describe(const void* record) {
  const G& g = *static_cast<const G*>(record);
  trace::goroutine_facts facts;
  if (g.extra != nullptr) facts.name = g.extra->name;
  facts.begins = origin_of(g).begins;
  facts.spawned = reinterpret_cast<std::uintptr_t>(g.spawn_site);
  return facts;
}

// By the recorder, of one that may go on at any moment.
trace::goroutine_facts look_at_one(const void* record, char (&for_name)[trace::k_longest_name]) {
  const G& g = *static_cast<const G*>(record);
  trace::goroutine_facts facts;
  if (racy(g.extra) != nullptr) facts.name = {for_name, copy_name(g, for_name)};
  facts.begins = look_at(origin_of(g).begins);
  facts.spawned = reinterpret_cast<std::uintptr_t>(look_at(g.spawn_site));
  return facts;
}

}  // namespace

// ---- The stations -----------------------------------------------------------------------------

namespace traced {

trace::goroutine subject(G& g) { return {&mark_of(g), trace_id_of(g), &g}; }

trace::place place_of(const G& g, const void* frame) {
  const stack* const on = g.fiber.stack;
  if (on == nullptr) return {};  // it has ended
  return {0, frame, on->low, on->high};
}

[[gnu::noinline]] void create(M* m, G& g) {
  const trace::goroutine made = subject(g);
  if (m == nullptr) {
    trace::create_later(made);
  } else if (G* const self = m->current) {
    const trace::goroutine by = subject(*self);
    // The place says enough: to walk the stack would double the price.
    const auto site = reinterpret_cast<std::uintptr_t>(g.spawn_site);
    m->trace.go_create(m->p->trace, &by, made, {.pc = site});
  } else {
    m->trace.go_create(m->p->trace, nullptr, made, {});
  }
  // Before it becomes runnable: the recorder, which may find it then, must see the mark.
  std::atomic_thread_fence(release);  // pairs with the acquire in list()
}

[[gnu::noinline]] void start(M& m, G& g) { m.trace.go_start(m.p->trace, subject(g)); }

[[gnu::noinline]] void block(M& m, G& g, wait_reason why) {
  m.trace.go_block(m.p->trace, subject(g), as_text(why), place_of(g, __builtin_frame_address(0)));
}

[[gnu::noinline]] void stop(M& m, G& g, trace::text why) {
  m.trace.go_stop(m.p->trace, subject(g), why, place_of(g, __builtin_frame_address(0)));
}

[[gnu::noinline]] void stop_at(M& m, G& g, const os::signal_event& at) {
  trace::place stopped = place_of(g, reinterpret_cast<const void*>(at.frame_pointer));
  stopped.pc = at.program_counter + 1;  // as if it was a call that returns there
  m.trace.go_stop(m.p->trace, subject(g), trace::text::preempted, stopped);
}

[[gnu::noinline]] void destroy(M& m, G& g) { m.trace.go_destroy(m.p->trace, subject(g)); }

// By a thread that is no M, is in a blocking call, or belongs to another runtime, as well.
[[gnu::noinline]] void unblock(M* m, G& g) {
  if (m == nullptr) m = current_m();
  const trace::goroutine woken = subject(g);
  if (m == nullptr || m->in_call) {
    trace::outside_stream()->go_unblock(woken, {});
  } else if (const G* const self = m->current) {
    m->trace.go_unblock(woken, place_of(*self, __builtin_frame_address(0)));
  } else {
    m->trace.go_unblock(woken, {});
  }
}

[[gnu::noinline]] void syscall_begin(M& m, G& g) {
  m.trace.syscall_begin(m.p->trace, subject(g), place_of(g, __builtin_frame_address(0)));
}
[[gnu::noinline]] void syscall_end(M& m, G& g) { m.trace.syscall_end(m.p->trace, subject(g)); }
[[gnu::noinline]] void syscall_end_blocked(M& m, G& g) { m.trace.syscall_end_blocked(subject(g)); }
[[gnu::noinline]] void lost_p_in_call(M& m, P& p) { m.trace.proc_steal(p.trace); }
[[gnu::noinline]] void found_asleep(M& m, P& p) {
  m.trace.found_asleep(p.trace, subject(*m.current));
}
[[gnu::noinline]] void name(M& m, G& g) { m.trace.go_label(m.p->trace, subject(g), g.extra->name); }

}  // namespace traced

// ---- What the recorder asks for ---------------------------------------------------------------

void scheduler::join_traces() {
  trace::set_description(describe, look_at_one);
  trace::add_source(*this);
}

void scheduler::leave_traces() { trace::remove_source(*this); }

// Goroutines come and go meanwhile: their marks decide.
void scheduler::list(trace::lister& out) {
  g_arena* arena = nullptr;
  std::size_t used = 0;
  {
    const os::lock_guard hold(lock_);
    for (int i = 0; i < ps_made_.load(relaxed); ++i) {  // relaxed: under the lock
      out.proc(ps_[i]->trace, idle_ps_.contains(ps_[i]) || ps_[i]->off);
    }
    arena = arenas_;
    if (arena != nullptr) used = arena->used;
  }
  // Arenas stay until the runtime ends, and all but the first are full.
  for (; arena != nullptr; arena = arena->next, used = g_arena::k_capacity) {
    for (std::size_t i = 0; i < used; ++i) {
      G& g = arena->gs()[i];
      trace::belief state = trace::belief::nothing;
      switch (g.state.load(acquire)) {  // pairs with the fence in create()
        case goroutine_state::runnable:
          state = trace::belief::runnable;
          break;
        case goroutine_state::waiting:
          state = trace::belief::waiting;
          break;
        default:
          break;
      }
      out.goroutine(mark_of(g), trace_id_of(g), state, &g);
    }
  }
}

// As take_p_locked() finds out who is outside the gate; those inside come by themselves.
void scheduler::find_runners() {
  const os::lock_guard hold(lock_);
  for (int i = 0; i < ps_made_.load(relaxed); ++i) {  // relaxed: under the lock
    P& p = *ps_[i];
    M* const m = p.m.load(acquire);                         // pairs with acquire_p()
    if (m == nullptr || m->retake.load(relaxed)) continue;  // relaxed: under the lock
    m->retake.store(true, relaxed);                         // relaxed: the fence orders it
    os::heavy_fence();
    // acquire pairs with leave(); relaxed: as in take_p_locked().
    if (m->depth.load(acquire) == 0 && p.m.load(relaxed) == m) {
      m->trace.found_running(p.trace, traced::subject(*m->current));
    }
    // release pairs with the acquire in enter(): what was written in its name is there.
    m->retake.store(false, release);
  }
}

}  // namespace magpie::rt
