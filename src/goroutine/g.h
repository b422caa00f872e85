// G: a goroutine. Two cache lines, no stack until it first runs.
//
//                 spawn                    execute
//      dead  ---------------> runnable <-------------> running ------> dead
//                                ^      yield, preempt  |   ^   finish
//                          ready |                 park |   | exit_syscall
//                                |                      v   |
//                                +------- waiting <-----+   |
//                                |                      |   |
//                                +------- syscall <-----+---+
//                                 lost its P     enter_syscall
//
// Gs are type-stable: one that ended is used for the next spawn, and its memory is a G for as
// long as the runtime lives. Whoever holds a stale pointer reads a wrong G, never foreign memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <magpie/detail/task.h>

#include "base/atomic.h"
#include "base/cacheline.h"
#include "base/check.h"
#include "base/intrusive.h"
#include "fiber/fiber.h"
#include "goroutine/wait_reason.h"
#include "os/fence.h"

namespace magpie::rt {

enum class goroutine_state : std::uint8_t {
  dead,      // On a free list, or being set up by its spawner.
  runnable,  // On exactly one run queue. Nobody may touch its stack. Whoever pops it runs it.
  running,   // On no queue; m->current is this G. Only its own M touches its stack.
  waiting,   // On no queue; recorded where its waker finds it, who must call ready() once.
  syscall,   // Inside blocking(); has its M. Its P may be taken away.
};

const char* state_text(goroutine_state);

using task_type = detail::task_type;
inline constexpr std::size_t k_inline_closure = detail::inline_closure_size;

// What few goroutines have: a name, locals. Made by the goroutine when first needed (local.cpp),
// kept until it ends.
struct goroutine_extra;

struct waiter;

struct alignas(2 * k_cache_line) G {
  // First line: what is looked at when it begins.
  const task_type* task = nullptr;   // null once it has started
  const void* spawn_site = nullptr;  // the return address of go()
  alignas(detail::inline_closure_alignment) std::byte closure[k_inline_closure];

  // Second line: what is looked at whenever it stops, is woken or moved.
  rt::fiber fiber;  // registers while it does not run; no stack before it first runs
  std::uint64_t id = 0;
  union {
    G* next = nullptr;       // in the queue or list it is on
    const waiter* waits_as;  // while it waits in an object: see sched/waiting.h
  };
  goroutine_extra* extra = nullptr;
  atomic<goroutine_state> state{goroutine_state::dead};
  atomic<wait_reason> waits_for{wait_reason::none};
  std::uint8_t size_class = 0;    // of the stack it wants
  bool locked = false;            // to a thread: extra says to which
  atomic<bool> pinned{false};     // somebody reads its stack: it must not go on
  std::uint8_t timed = 0;         // it waits for its turn under a clock: see sched/latency.h
  std::uint16_t unstoppable = 0;  // so many no_preempt exist; its own, outside the gate

  // Has not started, and somebody will wait for its end: what async() spawns.
  bool is_fresh_child() const { return task != nullptr && task->end != nullptr; }

  // Out of running, by a switch that has yet to store the registers: nobody reads them before.
  void stop(goroutine_state to) {
    fiber.registers.program_counter = nullptr;
    transition(goroutine_state::running, to);
  }

  // Into running. Not while it is pinned: one who pins it, and then sees that it does not run, may
  // read its registers and its stack for as long as it likes.
  //
  //     here                               pin: snapshot.cpp
  //       state = running                    pinned = true
  //       (light fence)                      heavy fence
  //       read pinned                        read state
  //
  // At least one sees the other.
  void go_on(goroutine_state from) {
    transition(from, goroutine_state::running);
    os::light_fence();
    // acquire: whoever pinned it before has read it by now.
    if (pinned.load(acquire)) [[unlikely]]
      wait_while_pinned(from);
  }

  // The only writer of `state`. Whoever calls it owns the G at that moment: its runner, its
  // waker, or the M that popped it. So the store is not a race; the check finds two owners.
  void transition(goroutine_state from, goroutine_state to) {
    // relaxed: G travels through a queue or a lock, whose orders publish everything in it.
    MAGPIE_CHECK(state.load(relaxed) == from, "goroutine changes from a state it is not in");
    state.store(to, release);  // what dumps read of it was written before
  }

 private:
  void wait_while_pinned(goroutine_state meanwhile);
};
static_assert(sizeof(G) == 2 * k_cache_line);

// For what one who does not own the G reads, and believes only when it turns out that the owner has
// not changed meanwhile. Both sides, relaxed: the belief is ordered by other means.
template <class T>
void store_for_lookers(T& field, std::type_identity_t<T> value) {
  std::atomic_ref<T>(field).store(value, relaxed);  // relaxed: see above
}
template <class T>
T look_at(const T& field) {
  return std::atomic_ref<T>(const_cast<T&>(field)).load(relaxed);  // relaxed: see above
}

using goroutine_queue = intrusive_queue<G, &G::next>;
using goroutine_stack = intrusive_stack<G, &G::next>;

}  // namespace magpie::rt
