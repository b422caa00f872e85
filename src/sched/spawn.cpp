// spawn.cpp: birth and death of a goroutine.
//
// Comes from: go() and its relatives, through public.cpp.
// Goes to:    run_next of the spawner's P; when it has ended, to the P's list of dead Gs, and its
//             stack to the next one.
//
// A goroutine gets its stack when it first runs. A burst of spawns therefore touches 128 bytes
// each, and a goroutine that follows a finished one simply runs on the stack which that one just
// left warm, without any switch.

#include <cstring>
#include <iterator>
#include <new>
#include <span>
#include <utility>

#include "fiber/sanitizer.h"
#include "os/memory.h"
#include "sched/arena.h"
#include "sched/gate.h"
#include "sched/idle.h"
#include "sched/local.h"
#include "sched/outside.h"
#include "sched/turn.h"

namespace magpie::rt {

scheduler& scheduler::home_of(const G* g) { return *g_arena::of(*g).home; }

void scheduler::free_arenas() {
  while (g_arena* const arena = arenas_) {
    arenas_ = arena->next;
    (void)os::unmap({arena, g_arena::k_size + g_arena::k_marks_size});
  }
}

G* scheduler::carve_g_locked() {
  if (arenas_ == nullptr || arenas_->used == g_arena::k_capacity) {
    constexpr std::size_t k_whole = g_arena::k_size + g_arena::k_marks_size;
    const auto space = os::reserve(k_whole, g_arena::k_size);
    if (!space || os::commit({*space, k_whole})) {
      fatal("no memory for another goroutine");
    }
    os::prefer_huge_pages({*space, g_arena::k_size});
    arenas_ = new (*space) g_arena{this, arenas_, 0, trace_number_ << 40};
  }
  return new (arenas_->gs() + arenas_->used++) G;
}

// A closure lives in its G, which is no memory of the heap, until the goroutine ends. Without the
// lock: who has it may be stopped, or a thread of the parent in a child made by fork().
void scheduler::show_closures_to_leak_check() {
  for (g_arena* arena = arenas_; arena != nullptr; arena = arena->next) {
    for (G& g : std::span(arena->gs(), arena->used)) {
      // relaxed: a goroutine that begins or ends now may be missed.
      if (g.state.load(relaxed) == goroutine_state::dead) continue;
      sanitizer::memory_holds_objects(std::begin(g.closure), std::end(g.closure));
    }
  }
}

namespace {

// How many dead Gs travel between a P and the runtime at once, and how many a P keeps.
constexpr std::size_t k_batch = 64;
constexpr std::size_t k_most_free_gs = 192;

}  // namespace

// Nothing of a dead G is touched under the lock: it may be in another processor's cache.
G* scheduler::refill_free_gs(P* p) {
  G* batch[k_batch];
  const std::size_t wanted = p != nullptr ? k_batch : 1;
  {
    const os::lock_guard hold(lock_);
    for (std::size_t i = 0; i < wanted; ++i) {
      batch[i] = free_gs_.size() != 0 ? free_gs_.pop_back() : carve_g_locked();
    }
  }
  for (std::size_t i = wanted; i-- > 1;) p->free_gs.push(batch[i]);
  return batch[0];
}

G* scheduler::new_g(M* m) {
  P* const p = m != nullptr ? m->p : nullptr;
  G* g = p != nullptr ? p->free_gs.pop() : nullptr;
  if (g == nullptr) g = refill_free_gs(p);
  return g;
}

void scheduler::free_g(M* m, G* g) {
  if (m == nullptr) {
    const os::lock_guard hold(lock_);
    return free_gs_.push_back(g);
  }
  goroutine_stack& mine = m->p->free_gs;
  mine.push(g);
  if (mine.size() < k_most_free_gs) return;
  G* batch[k_batch];
  for (G*& surplus : batch) surplus = mine.pop();
  const os::lock_guard hold(lock_);
  for (G* const surplus : batch) free_gs_.push_back(surplus);
}

namespace {

// What names it in traces, if it has no name.
std::uintptr_t first_function(const G& g) {
  if (g.task->is_function) {
    std::uintptr_t function;
    std::memcpy(&function, g.closure, sizeof function);
    return function;
  }
  if (g.task->function != nullptr) {
    const void* const called = g.task->function(g.closure).at;
    if (called != nullptr) return reinterpret_cast<std::uintptr_t>(called);
  }
  return reinterpret_cast<std::uintptr_t>(g.task->run);
}

}  // namespace

void scheduler::spawn(M* m, G* g) {
  check_not_forked();
  store_for_lookers(origin_of(*g).begins, first_function(*g));
  if (m != nullptr) {
    P& p = *m->p;
    if (p.next_goroutine_id == p.end_goroutine_id) {
      // relaxed: only distinct numbers are wanted.
      p.next_goroutine_id = goroutine_ids_.fetch_add(k_batch, relaxed);
      p.end_goroutine_id = p.next_goroutine_id + k_batch;
    }
    store_for_lookers(g->id, p.next_goroutine_id++);
    trace_create(m, *g);
    g->transition(goroutine_state::dead, goroutine_state::runnable);
    p.counters.spawned.add();
    p.sampler.note_runnable(*g);
    push_next(*m, g);
    return;
  }
  spawned_outside_.fetch_add(1, relaxed);  // relaxed: published with the goroutine
  if (current_m() == nullptr) note_outside_thread();
  // relaxed: only distinct numbers are wanted.
  store_for_lookers(g->id, goroutine_ids_.fetch_add(1, relaxed));
  trace_create(nullptr, *g);
  g->transition(goroutine_state::dead, goroutine_state::runnable);
  push_from_outside(g);
}

void scheduler::spawn_announced(M* m, G* g) {
  // relaxed: only distinct numbers are wanted.
  store_for_lookers(g->id, goroutine_ids_.fetch_add(1, relaxed));
  origin_of(*g).parent = 0;
  store_for_lookers(origin_of(*g).begins, first_function(*g));
  trace_create(m, *g);
  g->transition(goroutine_state::dead, goroutine_state::runnable);
  if (m == nullptr) return push_from_outside(g);
  m->p->sampler.note_runnable(*g);
  push_local(*m, g);
}

void scheduler::push_from_outside(G* g) {
  latency_sampler::time(*g);
  {
    const os::lock_guard hold(lock_);
    global_.push(g);
  }
  wake_p();
}

void scheduler::bind_stack(M& m, G* g) {
  stack* const s = m.p->stacks.take(g->size_class);
  if (s == nullptr) {
    fatal_report report("fatal error");
    m.scheduler_.stacks.explain_shortage(report.text());
    report.end();
  }
  prepare(g->fiber, *s, goroutine_main);
}

namespace {

// Any other exception finds no handler on this stack: std::terminate is called with nothing
// unwound.
void run_task(const task_type& task, void* closure) {
  try {
    task.run(closure);
  } catch (const detail::goroutine_exit&) {
  }
}

}  // namespace

// User code, from the goroutine's first instruction to its last. Returns on the M it ended on.
M* scheduler::run_body(M* m, G* g) {
  const task_type* const task = g->task;
  g->task = nullptr;
  leave(m);
  run_task(*task, g->closure);
  // What the destructor of the closure has made; the others are gone. One that is locked to its
  // thread is found by what it has until it is buried: its P may be taken before the gate.
  if (g->extra != nullptr) destroy_locals(*g);
  if (g->extra != nullptr && !g->locked) drop_extra(*g);
  M* const ended_on = enter();
  ended_on->prefers_newest = task->end != nullptr;
  return ended_on;
}

void scheduler::bury(M* m, G* g) {
  g->fiber.stack = nullptr;
  g->fiber.registers.program_counter = nullptr;  // see G::stop()
  if (g->locked) m->left_extra = std::exchange(g->extra, nullptr);
  g->locked = false;
  g->transition(goroutine_state::running, goroutine_state::dead);
  trace_destroy(*m, *g);
  m->p->counters.finished.add_visibly();  // to live_goroutines()
  free_g(m, g);
}

// Buries g, which has ended, and makes the next goroutine of this P the current one. True: it goes
// on right here, on the stack of the one that ended. Not inlined into goroutine_main(), whose frame
// is on every stack for as long as its goroutine lives: a line more to fetch for each that goes on.
[[gnu::noinline]] bool scheduler::stays_on_stack_after(G* g, M* m) {
  stack* const on = g->fiber.stack;
  m->ends_with_goroutine = g->locked;
  m->scheduler_.bury(m, g);
  G* const next = m->ends_with_goroutine ? nullptr : next_local(*m, on);
  m->current = next;
  if (next != nullptr && next->fiber.stack == on) return true;
  m->leaving.finish = finish_stack;
  m->leaving.stack = on;
  return false;
}

// The first function on every goroutine's stack: runs one goroutine after the other for as long
// as the next one is fresh.
departure scheduler::goroutine_main(fiber*, thread_state* thread) {
  M* m = static_cast<M*>(thread);
  finish_switch(*m);
  for (;;) {
    G* const g = m->current;
    m = run_body(m, g);
    if (stays_on_stack_after(g, m)) continue;
    return {m->current != nullptr ? &m->current->fiber : &m->own, m};
  }
}

// The stack can be given away only by somebody who is not on it any more.
void scheduler::finish_stack(M& m) { m.p->stacks.give(m.leaving.stack); }

}  // namespace magpie::rt
