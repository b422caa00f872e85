// Kernel threads: made, named, joined, told apart.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/error.h"

namespace magpie::rt::os {

using thread_id = std::int32_t;  // the kernel's, as in /proc and in a debugger

// The calling thread's. Signal-safe; a system call.
thread_id current_thread_id();

// The process's. Signal-safe; a system call.
thread_id process_id();

// How many threads the process has, whoever made them; 0 when the kernel does not tell.
// Signal-safe; a system call.
int thread_count();

// Lets another thread run on this CPU.
void yield_thread();

// The kernel lets a sleeping thread oversleep by 50 us, to wake several at once; not this one.
void wake_calling_thread_on_time();

// Sets errno of the thread the caller is on now. Not inlined: a compiler may otherwise use the
// address it computed for another thread, before a switch.
void set_errno(int value);

// Shows in ps, top and debuggers; cut to 15 bytes.
void set_current_thread_name(const char* name);

struct thread_options {
  const char* name = nullptr;
  std::size_t stack_size = 0;  // 0: the system's default
};

// A joinable thread. It starts with all signals blocked that can be: signals meant for the
// process then reach a thread that wants them, and a thread of the runtime opens those it needs.
class thread {
 public:
  using body = void (*)(void* argument);

  thread() = default;
  thread(thread&& other) noexcept : handle_(std::exchange(other.handle_, 0)) {}
  thread& operator=(thread&& other) noexcept;
  ~thread();  // must have been joined

  // EAGAIN: no more threads (RLIMIT_NPROC, the cgroup's pids.max, or memory). Allocates inside
  // libc, so never with a runtime lock held or in a signal handler.
  static result<thread> start(body, void* argument, const thread_options& = {});

  bool joinable() const { return handle_ != 0; }
  void join();

 private:
  std::uintptr_t handle_ = 0;  // pthread_t, which is never 0 with glibc
};

// The stack the kernel or libc gave the calling thread: [low, high).
struct stack_bounds {
  void* low = nullptr;
  void* high = nullptr;
};
stack_bounds current_thread_stack();

}  // namespace magpie::rt::os
