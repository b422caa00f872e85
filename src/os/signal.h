// Signals: one handler of ours in front of whatever was there before, and the stack it runs on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/error.h"
#include "os/thread.h"

namespace magpie::rt::os {

// SIGSEGV, for those who may not include <signal.h>.
extern const int k_segmentation_fault;

// What a handler may want to know, read out of the kernel's structures.
struct signal_event {
  int number;           // SIGSEGV, ...
  bool from_kernel;     // a fault of the thread's own, not sent by kill(), a timer and the like
  const void* address;  // the faulting one, for SIGSEGV and SIGBUS from the kernel
  std::uintptr_t program_counter;
  std::uintptr_t stack_pointer;
  std::uintptr_t frame_pointer;

  // Hands the signal to the handler that was there before ours. Without one the default action
  // follows: for a fault by returning to the instruction, which faults again, so that the core
  // file shows the program as it was.
  void pass_on() const;

  void* raw_info;
  void* raw_context;
};

// Runs on the alternate stack with most signals blocked; errno is saved around it.
using signal_handler = void (*)(const signal_event&);

// Puts `handler` in front of the present disposition of signal `number`, for the whole process.
// Installing again replaces our handler and keeps what was there before the first time.
error install_signal_handler(int number, signal_handler handler);

// Whether anybody had a handler before ours (then faults may be part of the program's normal
// life, and a report would be noise). Signal-safe.
bool has_earlier_handler(int number);

// The calling thread's stack for signal handlers, so that they work when its own stack, or a
// goroutine's, is full. A thread that has one already keeps it.
class alternate_stack {
 public:
  alternate_stack();
  ~alternate_stack();
  alternate_stack(const alternate_stack&) = delete;
  alternate_stack& operator=(const alternate_stack&) = delete;

 private:
  void* mapping_ = nullptr;  // null: not ours
  std::size_t size_ = 0;
};

}  // namespace magpie::rt::os
