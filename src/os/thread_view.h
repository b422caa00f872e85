// What another thread of this process is doing, as the kernel sees it: whether it sleeps there, and
// in which call. Everything here is a hint: the thread may have gone on meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/clock.h"
#include "os/thread.h"

namespace magpie::rt::os {

// CPU time the thread has used so far; -1 when there is no such thread. Signal-safe, half a
// microsecond. Two equal answers: it did not run in between.
nanos cpu_time_of(thread_id);

enum class thread_activity {
  unknown,  // the kernel does not tell
  running,  // or could, if there were a processor for it
  asleep,
};

struct thread_view {
  thread_activity activity = thread_activity::unknown;
  int system_call = -1;  // asleep: in which; -1: in none, but for a page of memory
  std::uintptr_t stack_pointer = 0;
  std::uintptr_t program_counter = 0;  // 0: not known
};

// Some microseconds: it opens a file of /proc. Takes no lock of libc.
thread_view look_at_thread(thread_id);

// "read", "futex"; null when it has no name here.
const char* system_call_name(int number);

// Copies memory of this process that may not be there any more. Returns how much was.
std::size_t copy_memory(std::uintptr_t from, void* to, std::size_t size);

}  // namespace magpie::rt::os
