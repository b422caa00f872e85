// Stack traces where they matter most: in a process that is about to end.
#pragma once

#include <cstdint>

#include "base/print.h"
#include "os/signal.h"

namespace magpie::rt::os {

// The unwinder loads a library and allocates when it is first used. Called once at start, so
// that this does not happen in a signal handler.
void prepare_backtraces();

// Prints the calling thread's frames, innermost first, one to a line. Of a very deep stack the
// middle is left out. Signal-safe after prepare_backtraces(), as far as the dynamic linker's
// tables can be read.
void print_backtrace(printer&);

// Where a call was made, given the address it returns to. Signal-safe as above.
void print_call_site(printer&, const void* return_address);

// The same for the code that a signal interrupted, without the handler's own frames. Frames are
// looked for in [stack_low, stack_high) only where the unwinder gives up early.
void print_backtrace(printer&, const signal_event&, stack_bounds);

}  // namespace magpie::rt::os
