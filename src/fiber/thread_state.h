// What belongs to the kernel's thread although C++ code thinks it belongs to itself: the C++
// runtime's exception state, and the thread's own stack.
//
// A fiber may go on on another thread than it stopped on, so every switch carries the state of
// the thread it happens on, and returns the state of the thread it came back on. Nothing else
// may be kept across a switch: not errno, not the address of a thread_local (compilers keep both
// in registers).
#pragma once

#include "fiber/sanitizer.h"
#include "os/thread.h"

namespace magpie::rt {

// The head of libstdc++'s (and libc++abi's) __cxa_eh_globals, fixed by the Itanium C++ ABI: the
// exceptions being handled, innermost first, and how many are still looking for their handler.
struct exception_globals {
  void* caught = nullptr;
  unsigned int uncaught = 0;

  bool in_use() const { return caught != nullptr || uncaught != 0; }
};

struct thread_state {
  // For the calling thread, which must be the one that uses it.
  thread_state();
  thread_state(const thread_state&) = delete;
  thread_state& operator=(const thread_state&) = delete;

  exception_globals* const exceptions;  // this thread's, in its thread-local storage
  const os::stack_bounds stack;         // the one it was born with
  sanitizer::stack_note stack_note;
};

}  // namespace magpie::rt
