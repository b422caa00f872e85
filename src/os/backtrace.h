// Stack traces where they matter most: in a process that is about to end.
#pragma once

#include <cstdint>
#include <span>

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

// The frames of code that stopped at `program_counter`, by its chain of frame pointers, which
// must stay inside the stack.
void print_parked_backtrace(printer&, std::uintptr_t program_counter, std::uintptr_t frame_pointer,
                            stack_bounds);

// Of code on another thread that sleeps at `program_counter`, with a copy of the top of its stack:
// what looks like the address after a call, which may be one that was left long ago.
void print_guessed_backtrace(printer&, std::uintptr_t program_counter,
                             std::span<const std::uintptr_t> stack);

// The same for the code that a signal interrupted, without the handler's own frames. Frames are
// looked for in [stack_low, stack_high) only where the unwinder gives up early.
void print_backtrace(printer&, const signal_event&, stack_bounds);

}  // namespace magpie::rt::os
