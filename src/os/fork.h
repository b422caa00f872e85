// After fork() a child has one thread, and whatever the others held stays held. A runtime cannot
// go on there; this says whether we are there.
#pragma once

#include "base/atomic.h"
#include "os/clock.h"

namespace magpie::rt::os {

namespace detail {
extern atomic<bool> g_forked;
}

// True in a child of a process that used this library. posix_spawn and exec start afresh.
inline bool in_forked_child() {
  return detail::g_forked.load(relaxed);  // relaxed: written before the child's first instruction
}

// Ends the process with a report that says so: what is wanted is with a thread that is not there.
[[noreturn]] void fail_in_forked_child();

// A lock of the runtime that is held for so long in the child is held by such a thread, for ever.
inline constexpr nanos k_lost_lock = 1'000'000'000;

// Starts watching; once per process is enough.
void watch_forks();

}  // namespace magpie::rt::os
