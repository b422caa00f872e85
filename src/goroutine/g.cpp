#include "goroutine/g.h"

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

}  // namespace magpie::rt
