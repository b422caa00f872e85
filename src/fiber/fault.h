// What a stack overflow looks like to its author: a report that says so, instead of a bare
// "Segmentation fault".
//
// A fault in the guard of the stack the faulting code runs on is an overflow. Any other fault is
// not ours: it goes on to whoever handled SIGSEGV before, after a short report when nobody did
// and it happened on one of our stacks.
#pragma once

#include "base/print.h"
#include "fiber/fiber.h"
#include "os/signal.h"

namespace magpie::rt {

// Installs the reporter for the process; later calls do nothing. Each thread that runs fibers
// also needs an os::alternate_stack: the full stack has no room for a handler.
void install_fault_reporter();

// Says who a fiber is: "goroutine 17 \"server\"". Set by the layer that knows; signal-safe.
using fiber_describer = void (*)(printer&, const fiber*);
void set_fiber_describer(fiber_describer);

// What a report ends with, when it was about a stack of ours. Signal-safe; all that needs nothing
// but the stack has been written by then.
using fault_epilogue = void (*)(printer&, const os::signal_event&);
void set_fault_epilogue(fault_epilogue);

}  // namespace magpie::rt
