// A thread of the process, beside its runtimes, for what must not be done by whoever wants it
// done: a dump that a signal asked for, and whatever needs the heap while the process dies. Nobody
// depends on it: it may wait for a lock whose holder has been stopped.
#pragma once

#include <string_view>

#include "os/clock.h"
#include "sched/report.h"

namespace magpie::rt {

// At the start and the end of every runtime: there is a service while there is one.
void runtime_uses_service();
void runtime_leaves_service();

// Text for standard error, which the caller must not wait for: a terminal may be stopped, a pipe
// full. Left out when nobody has taken anything for ten seconds, and when there is too much of it.
// Any thread, without a lock; not signal-safe.
void print_soon(std::string_view text);

// How many threads it has: for deadlock.cpp. Any thread.
int service_threads();

// It looks what there is to do; see stalls.cpp.
void wake_service();

// The service calls dump_on_request() of report.h, for each of those who ask at the same time.
// Signal-safe.
void request_dump(dump_target);

// Runs job(argument) on the service's thread. False: that did not happen in time, and may still.
// In a process that ends, by one thread at a time.
bool ask_service(void (*job)(void*), void* argument, os::nanos patience);

}  // namespace magpie::rt
