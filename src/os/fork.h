// After fork() a child has one thread, and whatever the others held stays held. A runtime cannot
// go on there; this says whether we are there.
#pragma once

#include "base/atomic.h"

namespace magpie::rt::os {

namespace detail {
extern atomic<bool> g_forked;
}

// True in a child of a process that used this library. posix_spawn and exec start afresh.
inline bool in_forked_child() {
  return detail::g_forked.load(relaxed);  // relaxed: written before the child's first instruction
}

// Starts watching; once per process is enough.
void watch_forks();

}  // namespace magpie::rt::os
