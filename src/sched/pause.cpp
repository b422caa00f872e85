// pause.cpp: no goroutine runs, for as long as somebody looks.
//
// Comes from: debug::world_pause, from a plain thread or a goroutine.
// Goes to:    its end, when everything goes on.
//
// All Ps are retired, as if set_procs(0) had been called, and every holder gives its own up: at its
// next turn, or when a signal stops it (preempt.cpp). What they had to run waits in the global
// queue; those who were stopped wait where they are. No goroutine can go on without a P. Two kinds
// have none and are not stopped by that:
//
//   - One inside blocking(). Its thread runs foreign code and may go on doing so; it waits at the
//     end of the call.
//   - One whose thread slept in the kernel, in user code, when its P was taken. If it wakes up
//     meanwhile the monitor stops it, some hundred microseconds later.
//
// Whoever pauses has no P either: a goroutine is as in blocking() until the pause ends.

#include <magpie/blocking.h>
#include <magpie/debug.h>

#include "os/fence.h"
#include "os/thread_view.h"
#include "sched/arena.h"
#include "sched/idle.h"
#include "sched/scheduler.h"
#include "sched/snapshot.h"
#include "sched/tracing.h"

namespace magpie::rt {
namespace {

constexpr os::nanos k_look_interval = 50'000;

os::futex_word g_pauses{0};  // 1: somebody pauses the world

// A runtime that begins now has missed the beginning of the pause. Written before all runtimes are
// gone through, under the registry's lock: who joins them later sees it, and the others are met.
constinit atomic<bool> g_newcomers_pause{false};

void begin_turn_of_pausing() {
  // acquire pairs with the release at the end of the pause before.
  while (g_pauses.exchange(1, acquire) != 0) {
    os::futex_wait(g_pauses, 1, os::now() + 1'000'000);
  }
}

void end_turn_of_pausing() {
  g_pauses.store(0, release);  // pairs with the acquire above
  os::futex_wake(&g_pauses, 1);
}

}  // namespace

// Under the registry's lock.
void scheduler::join_pause() {
  if (g_newcomers_pause.load(relaxed)) begin_pause();  // relaxed: see there
}

void scheduler::begin_pause() {
  const os::lock_guard hold(lock_);
  if (paused_) return;
  paused_ = true;
  procs_after_pause_ = procs();
  for (int i = 0; i < ps_made_.load(relaxed); ++i) {  // relaxed: under the lock
    ps_[i]->retired.store(true, relaxed);             // relaxed: looked at again at every turn
  }
}

bool scheduler::look_at_pause(os::nanos now) {
  bool all_rest = true;
  {
    // A new thread may not come before the pause is over: making one allocates, and somebody may
    // have been stopped inside malloc.
    const os::lock_guard hold(lock_);
    while (P* const p = take_wished_p_locked()) rest_retired_locked(p);
  }
  for (int i = 0; i < ps_made_.load(acquire); ++i) {  // pairs with the release in resize()
    P& p = *ps_[i];
    P* taken = nullptr;
    runner its;
    {
      const os::lock_guard hold(lock_);
      if (idle_ps_.contains(&p)) {
        idle_ps_.remove(&p);
        // relaxed: a submitter that still sees the old number finds none under the lock.
        idle_count_.store(static_cast<int>(idle_ps_.size()), relaxed);
        turn_off_locked(p);
      }
      if (p.off) continue;
      all_rest = false;
      M* const m = p.m.load(acquire);       // pairs with acquire_p()
      if (m == nullptr) continue;           // on its way to somebody
      P* beside = m->call_p.load(relaxed);  // relaxed: the exchange decides
      if (beside == &p) {
        // acquire: the P is ours with all its M did; release: its M sees that it is gone.
        if (m->call_p.compare_exchange_strong(beside, nullptr, acq_rel, relaxed)) {
          trace_lost_p_in_call(*m, p);
          p.m.store(nullptr, release);  // pairs with acquire loads of the monitor
          taken = &p;
        }
      } else {
        its = runner_locked(*m);
      }
    }
    if (taken != nullptr) hand_off_p(taken);
    if (its.m != nullptr) stop_runner(p, its, now, false);
  }
  const os::lock_guard hold(lock_);
  for (M* m = orphans_.front(); m != nullptr; m = orphans_.next(m)) {
    if (os::look_at_thread(m->thread).activity == os::thread_activity::asleep) continue;
    all_rest = false;
    stop_orphan_soon_locked(*m, now);
  }
  return all_rest;
}

void scheduler::end_pause() {
  int count = 0;
  {
    const os::lock_guard hold(lock_);
    paused_ = false;
    count = procs_after_pause_;
    resize_locked(count);
  }
  for (int i = 0; i < count; ++i) wake_p();
  announce_timer(earliest_timer());
}

// Also of those who run without a P in a call: all that is known there is the whole stack.
template <class Visit>
void scheduler::for_each_parked_stack(Visit visit) {
  const os::lock_guard hold(lock_);
  for (g_arena* arena = arenas_; arena != nullptr; arena = arena->next) {
    for (std::size_t i = 0; i < arena->used; ++i) {
      const G& g = arena->gs()[i];
      const goroutine_state state = g.state.load(acquire);  // pairs with transition()
      const stack* const on = g.fiber.stack;
      if (state == goroutine_state::dead || on == nullptr || on->occupant != &g.fiber) continue;
      const bool parked = state == goroutine_state::waiting || state == goroutine_state::runnable;
      constexpr std::ptrdiff_t k_red_zone = 128;  // which one that was stopped may use
      char* const top = static_cast<char*>(g.fiber.registers.stack_pointer) - k_red_zone;
      visit(parked && top > on->low ? top : on->low, on->high);
    }
  }
}

// All runtimes. A friend of the scheduler.
class world {
 public:
  static void stop() {
    begin_turn_of_pausing();
    g_newcomers_pause.store(true, relaxed);  // relaxed: see there
    for_each([](scheduler& s) { s.begin_pause(); });
    for (;;) {
      bool all_rest = true;
      for_each([&](scheduler& s) { all_rest &= s.look_at_pause(os::now()); });
      if (all_rest) return;
      os::futex_word nobody{0};
      os::futex_wait(nobody, 0, os::now() + k_look_interval);
    }
  }

  static void start() {
    g_newcomers_pause.store(false, relaxed);  // relaxed: see there
    for_each([](scheduler& s) {
      if (s.paused_) s.end_pause();
    });
    end_turn_of_pausing();
  }

  template <class Visit>
  static void visit_stacks(Visit visit) {
    for_each([&](scheduler& s) { s.for_each_parked_stack(visit); });
  }

 private:
  template <class Visit>
  static void for_each(Visit visit) {
    for_each_runtime([](scheduler& s, void* raw) { (*static_cast<Visit*>(raw))(s); }, &visit);
  }
};

}  // namespace magpie::rt

namespace magpie::debug {

using namespace rt;

world_pause::world_pause() : without_p_(hand_off_now) { world::stop(); }

world_pause::~world_pause() { world::start(); }

void visit_stacks(void (*visit)(void* low, void* high, void* context), void* context) {
  world::visit_stacks([&](char* low, char* high) { visit(low, high, context); });
}

}  // namespace magpie::debug
