// Plain threads that use a runtime: how many there are, and how many of them wait for it. When
// every one of them waits, none can wake a goroutine: what deadlock.cpp has to know.
#pragma once

namespace magpie::rt {

// The calling plain thread uses a runtime; counted until it ends.
void note_outside_thread();

// The calling plain thread is about to sleep until somebody calls outside_wait_ends(), which is
// the waker's business: by the time the sleeper runs it would be too late.
void outside_wait_begins();
void outside_wait_ends();

bool all_outside_threads_wait();
int waiting_outside_threads();

}  // namespace magpie::rt
