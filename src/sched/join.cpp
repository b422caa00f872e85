// join.cpp: one goroutine ends, one other (or a plain thread) waits for that. What future and
// run() stand on.
//
// One word decides: null, a waiter, or the mark for done or for abandoned. finish() exchanges the
// mark in and wakes the waiter it finds; a waiter puts itself in by compare-exchange, and finds the
// mark instead when it comes late. A goroutine does that in its park commit, after its stack was
// left. Whoever does not want to know any more leaves the mark for abandoned, or finds that it is
// the last one: so the word is also the count of the two who share what lies around it.

#include <magpie/async.h>

#include <new>

#include "fiber/sanitizer.h"
#include "os/thread.h"
#include "sched/current.h"
#include "sched/turn.h"
#include "sched/waiting.h"

namespace magpie::detail {

using namespace rt;

namespace {

char g_marks[2];
void* const k_done = &g_marks[0];
void* const k_abandoned = &g_marks[1];

// Who waits, and for what.
struct join_waiter : waiter {
  std::atomic<void*>* state;
  atomic<bool> let_go{false};  // by finish(), which came when the time was up

  // False: it has ended already.
  static bool enlist(void* self) { return static_cast<join_waiter*>(self)->enlist(); }
  bool enlist() {
    void* found = nullptr;
    // release: the waiter is filled in when finish() finds it; acquire on failure: the end, and
    // all before it, is visible.
    if (state->compare_exchange_strong(found, this, release, acquire)) return true;
    if (found != k_done) fatal("two goroutines or threads wait for one future at a time");
    return false;
  }
};

// For tools that watch the heap each state is a block of its own.
bool keeps_blocks() {
  return !sanitizer::k_address && !sanitizer::k_thread && !sanitizer::under_valgrind();
}

}  // namespace

void* allocate_state(std::size_t size) {
  if (size > block_cache::k_block_size || !keeps_blocks()) return ::operator new(size);
  M* const m = current_m();
  void* const kept = m != nullptr ? m->future_states.take() : nullptr;
  return kept != nullptr ? kept : ::operator new(block_cache::k_block_size);
}

void free_state(void* state, std::size_t size) noexcept {
  if (size > block_cache::k_block_size || !keeps_blocks()) return ::operator delete(state);
  M* const m = current_m();
  if (m != nullptr && m->future_states.keep(state)) return;
  ::operator delete(state);
}

bool meeting::done() const noexcept {
  return state_.load(acquire) == k_done;  // pairs with the exchange in finish()
}

void meeting::wait() noexcept {
  if (done()) return;
  entry inside;
  if (M* const m = inside.m()) {
    if (inside.run_inline(this)) return;
    m->prefers_newest = true;
  }
  join_waiter me;
  me.state = &state_;
  inside.block(me, wait_reason::future_wait, join_waiter::enlist, &me);
}

bool meeting::wait_until(time_point deadline) noexcept {
  if (done()) return true;
  entry inside;
  if (to_nanos(deadline) <= os::now()) return false;
  join_waiter me;
  me.state = &state_;
  me.contested = true;
  if (inside.block_until(me, wait_reason::future_wait, join_waiter::enlist, &me,
                         to_nanos(deadline))) {
    return true;
  }
  void* mine = &me;
  // release: whoever waits next finds an empty place; acquire on failure: as in enlist().
  if (state_.compare_exchange_strong(mine, nullptr, release, acquire)) return false;
  // finish() has found it, and finds out now that it is too late to wake it.
  while (!me.let_go.load(acquire)) os::yield_thread();  // pairs with finish()
  return true;
}

bool meeting::abandon() noexcept {
  if (done()) return false;
  void* found = nullptr;
  // release: what was done with the meeting comes before its end by finish(); acquire on failure:
  // as in done().
  if (state_.compare_exchange_strong(found, k_abandoned, release, acquire)) return true;
  if (found != k_done) fatal("a future destroyed while a goroutine or thread waits for it");
  return false;
}

// With a waiter, inside the gate from the first step to the last: one whose time is up waits for
// the last step with a P, and who is stopped in between may need that.
bool meeting::finish() noexcept {
  void* found = nullptr;
  // release: what the goroutine did is visible to whoever sees the mark. relaxed: looked at below.
  if (state_.compare_exchange_strong(found, k_done, release, relaxed)) return false;
  const entry inside;
  // release: as above; acquire: the waiter, or all that was done before abandon().
  found = state_.exchange(k_done, acq_rel);
  if (found == k_abandoned) return true;
  if (found == nullptr) return false;  // its time was up just now
  auto& waits = *static_cast<join_waiter*>(found);
  if (waits.decide(this)) {
    waits.wake(inside.m());
  } else {
    waits.let_go.store(true, release);  // pairs with wait_until(); it may be gone now
  }
  return false;
}

}  // namespace magpie::detail

namespace magpie::rt {
namespace {

// A waiter's stack serves a second goroutine only while half of it is free, so that a chain of
// goroutines that wait for each other does not end in an overflow.
bool has_room(const stack& on) {
  const auto* const here = static_cast<const char*>(__builtin_frame_address(0));
  return static_cast<std::size_t>(here - on.low) > on.usable_size() / 2;
}

}  // namespace

// A function of its own, so that dumps see where the one goroutine ends and the other one begins.
[[gnu::noinline]] M* scheduler::run_guest(M* m, G* g) {
  m = run_body(m, g);
  asm volatile("");  // keeps the call above from becoming a jump
  return m;
}

// Fork and join: the child is next on this P and the parent can do nothing before it has ended,
// so it may as well run on the parent's stack, as a call. It is a goroutine all the same, with an
// id and a state of its own: when it waits, the stack with both of them waits.
//
// Not when the parent handles an exception: the child must not see it as the current one.
[[gnu::noinline]] bool scheduler::run_inline(M*& m, const detail::meeting* end) {
  G* const parent = m->current;
  stack* const on = parent->fiber.stack;
  if (parent->locked || m->exceptions->in_use() || !has_room(*on)) return false;
  G* const child = m->p->queue.take_newest_if([&](const G& g) {
    return g.is_fresh_child() && g.task->end(g.closure) == end && g.size_class <= on->size_class;
  });
  if (child == nullptr) return false;
  parent->waits_for.store(wait_reason::future_wait, relaxed);  // relaxed: for dumps
  parent->fiber.registers = calling_frame();  // what is above stays as it is; for dumps
  parent->transition(goroutine_state::running, goroutine_state::waiting);
  trace_block(*m, *parent, wait_reason::future_wait);
  child->fiber.stack = on;
  on->occupant = &child->fiber;
  begin_turn(*m, child, true);
  m->current = child;
  m = run_guest(m, child);
  const bool ends_thread = child->locked;
  bury(m, child);
  on->occupant = &parent->fiber;
  parent->fiber.registers.program_counter = nullptr;  // as in G::stop()
  parent->transition(goroutine_state::waiting, goroutine_state::runnable);
  trace_unblock(m, *parent);
  m->current = parent;
  if (ends_thread) {  // the child was locked to the thread: the parent goes on elsewhere
    m->ends_with_goroutine = true;
    m = leave_to_global_queue(m, parent);
  } else {
    parent->go_on(goroutine_state::runnable);
    trace_start(*m, *parent);
  }
  return true;
}

}  // namespace magpie::rt
