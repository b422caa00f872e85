// A fiber: a stack, and the registers to go on with. What a goroutine is made of below the
// scheduler. Fibers know nothing of each other or of any order; somebody always says where to
// go next.
#pragma once

#include "fiber/stack.h"
#include "fiber/thread_state.h"

#if defined(__x86_64__)
#include "fiber/switch_x86_64.h"
#elif defined(__aarch64__)
#include "fiber/switch_aarch64.h"
#else
#error "magpie has no context switch for this processor yet"
#endif

namespace magpie::rt {

struct fiber {
  context registers{};         // valid while it does not run
  rt::stack* stack = nullptr;  // null: a thread's own stack
};

// The frame that called the function in which this stands, as it will be after the return.
[[gnu::always_inline]] inline context calling_frame() {
  auto* const frame = static_cast<void**>(__builtin_frame_address(0));
#if defined(__x86_64__)
  void* const stack_pointer = frame + 2;
#else
  void* const stack_pointer = __builtin_dwarf_cfa();
#endif
  return {stack_pointer, __builtin_return_address(0), frame[0]};
}

// What a finished fiber leaves behind: where its thread goes on.
struct departure {
  fiber* next;
  thread_state* thread;
};

// A fiber's outermost function. Whatever must happen after the switch that brought the fiber up
// (see switch_to) is its first business. When it returns, the thread goes on at departure::next,
// and nothing runs on the fiber's stack any more. An exception that leaves it ends the process by
// std::terminate with nothing unwound.
using fiber_entry = departure (*)(fiber* self, thread_state*);

// Binds `f` to a stack so that the first switch to it calls `entry`.
void prepare(fiber& f, stack& on, fiber_entry entry);

// Stops `from`, which the caller runs on, and goes on with `to` on this thread. Returns when
// somebody switches to `from` again, perhaps on another thread: with that thread's state. The old
// one, errno and addresses of thread-locals must not be used any more.
//
// `to` must be at rest: its own switch or prepare() finished before, seen by this thread.
// Whoever makes `from` known to others as stopped must do so after the switch, on the other
// side: before it, the registers are not stored yet.
//
// Inlined, so the caller is a function of few, marked noinline: fibers that all wait in the same
// function also return through the same code, which the branch predictor likes.
thread_state* switch_to(fiber& from, fiber& to, thread_state*);

// The same for a caller inside catch blocks or destructors run by a throw: takes its exception
// state off the thread and puts it back where it comes up. Called by switch_to when needed.
thread_state* switch_with_exceptions(fiber& from, fiber& to, thread_state*);

namespace inner {

[[gnu::always_inline]] inline void tell_sanitizers(sanitizer::switch_note* leaving, const fiber& to,
                                                   const thread_state* thread) {
  if constexpr (sanitizer::k_address || sanitizer::k_thread) {
    if (to.stack != nullptr) {
      sanitizer::before_switch(leaving, to.stack->note, to.stack->low, to.stack->high);
    } else {
      sanitizer::before_switch(leaving, thread->stack_note, thread->stack.low, thread->stack.high);
    }
  }
}

[[gnu::always_inline]] inline thread_state* switch_plainly(fiber& from, fiber& to,
                                                           thread_state* thread) {
  sanitizer::switch_note note;
  tell_sanitizers(&note, to, thread);
  thread = switch_context(&from.registers, &to.registers, thread);
  sanitizer::after_switch(&note);
  return thread;
}

}  // namespace inner

[[gnu::always_inline]] inline thread_state* switch_to(fiber& from, fiber& to,
                                                      thread_state* thread) {
  if (thread->exceptions->in_use()) [[unlikely]]
    return switch_with_exceptions(from, to, thread);
  return inner::switch_plainly(from, to, thread);
}

}  // namespace magpie::rt
