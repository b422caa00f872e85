#include "goroutine/g.h"

#include "os/thread.h"

namespace magpie::rt {

const char* state_text(goroutine_state state) {
  switch (state) {
    case goroutine_state::dead:
      return "dead";
    case goroutine_state::runnable:
      return "runnable";
    case goroutine_state::running:
      return "running";
    case goroutine_state::waiting:
      return "waiting";
    case goroutine_state::syscall:
      return "syscall";
  }
  return "unknown";
}

// For some microseconds, unless the reader has lost its processor.
[[gnu::cold, gnu::noinline]] void G::wait_while_pinned(goroutine_state meanwhile) {
  do {
    state.store(meanwhile, release);  // pairs with the reader's acquire: it may read again
    while (pinned.load(acquire)) os::yield_thread();  // pairs with its release: it has read
    state.store(goroutine_state::running, release);   // as in transition()
    os::light_fence();
  } while (pinned.load(acquire));  // as in go_on()
}

}  // namespace magpie::rt
