// Signals: one handler of ours in front of whatever was there before, and the stack it runs on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/clock.h"
#include "os/error.h"
#include "os/thread.h"

namespace magpie::rt::os {

// SIGSEGV, SIGURG and SIGQUIT, for those who may not include <signal.h>.
extern const int k_segmentation_fault;
extern const int k_urgent_data;
extern const int k_quit;

// Whether nobody has changed what the signal does.
bool has_default_action(int number);

// Whether a program may use the signal for its own ends: it exists, and means nothing to libc, nor
// to a process that goes wrong.
bool is_free_for_use(int number);

// What a handler may want to know, read out of the kernel's structures.
struct signal_event {
  int number;           // SIGSEGV, ...
  bool from_kernel;     // a fault of the thread's own, not sent by kill(), a timer and the like
  const void* address;  // the faulting one, for SIGSEGV and SIGBUS from the kernel
  std::uintptr_t program_counter;
  std::uintptr_t stack_pointer;
  std::uintptr_t frame_pointer;
  const void* timer;    // of the thread_timer that sent it, or null
  bool from_ourselves;  // by send_signal()
  int sender;           // the process that queued it with a value; 0: it has none
  int value;            // as queued

  // Hands the signal to the handler that was there before ours. Without one the default action
  // follows: for a fault by returning to the instruction, which faults again, so that the core
  // file shows the program as it was.
  void pass_on() const;

  // All general registers, by DWARF's numbers.
  void read_registers(std::uintptr_t* values, std::size_t count) const;

  void* raw_info;
  void* raw_context;
};

// Runs on the alternate stack with most signals blocked; errno is saved around it.
using signal_handler = void (*)(const signal_event&);

// Puts `handler` in front of the present disposition of signal `number`, for the whole process.
// Installing again replaces our handler and keeps what was there before the first time.
error install_signal_handler(int number, signal_handler handler);

// To one thread of this process. Signal-safe.
void send_signal(thread_id, int number);

// Whether the calling thread gets the signal, or it waits until it does.
void open_signal(int number);
void close_signal(int number);

// Sends the thread that made it a signal, with its own address in signal_event::timer.
class thread_timer {
 public:
  enum class clock {
    real,      // of now()
    cpu_time,  // the thread's own: as precise as the kernel's tick, and never while it sleeps
  };
  thread_timer() = default;
  ~thread_timer() { stop(); }
  thread_timer(const thread_timer&) = delete;
  thread_timer& operator=(const thread_timer&) = delete;

  // For the calling thread. False: the kernel has no more timers.
  bool make(clock, int signal);
  void stop();
  bool made() const { return made_; }
  // Any thread: once, after that time.
  void set(nanos first);

 private:
  int id_ = 0;
  bool made_ = false;
};

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
