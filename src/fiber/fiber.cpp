#include "fiber/fiber.h"

#include <cxxabi.h>

#include "base/check.h"

#if defined(_LIBCPPABI_VERSION)
// It is there, but libc++abi's header does not say so.
namespace __cxxabiv1 {
struct __cxa_eh_globals;
extern "C" __cxa_eh_globals* __cxa_get_globals() noexcept;
}  // namespace __cxxabiv1
#endif

namespace magpie::rt {

extern "C" {
// In entry_*.S: the first code on a fresh stack.
void magpie_fiber_entry();

struct magpie_departure {
  context* next;
  thread_state* thread;
};
magpie_departure magpie_fiber_main(fiber* self, thread_state* thread, fiber_entry entry);
}

static_assert(offsetof(fiber, registers) == 0, "entry_*.S takes a fiber for its context");
static_assert(offsetof(context, stack_pointer) == 0 && offsetof(context, program_counter) == 8 &&
              offsetof(context, frame_pointer) == 16);

thread_state::thread_state()
    : exceptions(reinterpret_cast<exception_globals*>(abi::__cxa_get_globals())),
      stack(os::current_thread_stack()) {
  sanitizer::adopt_thread_stack(stack_note);
}

void prepare(fiber& f, stack& on, fiber_entry entry) {
  f.registers = {.stack_pointer = on.high,
                 .program_counter = reinterpret_cast<void*>(&magpie_fiber_entry),
                 .frame_pointer = reinterpret_cast<void*>(entry)};
  f.stack = &on;
  on.occupant = &f;
  sanitizer::stack_reused(on.low, on.high);
}

// `used`, and not inlined anywhere: only the assembly calls it, which link-time optimisation
// does not see.
[[gnu::used, gnu::noinline]] MAGPIE_NOT_INSTRUMENTED magpie_departure
magpie_fiber_main(fiber* self, thread_state* thread, fiber_entry entry) {
  sanitizer::after_switch(nullptr);
  const departure end = entry(self, thread);
  MAGPIE_DCHECK(!end.thread->exceptions->in_use(), "a fiber ended inside a catch block");
  inner::tell_sanitizers(nullptr, *end.next, end.thread);
  return {&end.next->registers, end.thread};
}

// Every thread's exception state is empty whenever a fiber lands on it: each that leaves with
// something takes it along. So landing needs no work on the plain path, and nothing is stored in
// the fiber: the state waits in this frame.
thread_state* switch_with_exceptions(fiber& from, fiber& to, thread_state* thread) {
  const exception_globals mine = *thread->exceptions;
  *thread->exceptions = {};
  thread = inner::switch_plainly(from, to, thread);
  MAGPIE_DCHECK(!thread->exceptions->in_use(), "exception state left behind on a thread");
  *thread->exceptions = mine;
  return thread;
}

}  // namespace magpie::rt
