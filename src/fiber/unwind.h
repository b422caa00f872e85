// Walks a stack that is not the caller's: of a goroutine that waits, or of a thread that was
// interrupted. Given where it stands, finds its callers.
//
// By the tables that exceptions use (.eh_frame, found through .eh_frame_hdr), so that it works for
// code without frame pointers; by frame pointers where there is no table. The libraries that do
// the same start from the calling function, or need the heap and locks.
//
// No heap, no lock, no system call. Of the stack only what is inside the given memory is read, and
// every step must lead upwards: a stack that changes under the walk, or was never one, gives
// nonsense but neither a crash nor an endless walk.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/modules.h"

namespace magpie::rt {

// [low, high) of a stack, read in place or from a copy.
struct stack_memory {
  std::uintptr_t low = 0, high = 0;
  const void* copy = nullptr;  // of what is at `low`; null: in place

  bool read(std::uintptr_t address, std::uintptr_t& word) const;
};

struct unwind_registers {
#if defined(__x86_64__)
  static constexpr std::size_t k_count = 17;
  static constexpr std::size_t k_frame_pointer = 6, k_stack_pointer = 7, k_return_address = 16;
#else
  static constexpr std::size_t k_count = 32;
  static constexpr std::size_t k_frame_pointer = 29, k_stack_pointer = 31, k_return_address = 30;
#endif
  // By DWARF's numbers. Those not known are as well taken for 0: a table that needs them leads
  // nowhere then.
  std::uintptr_t values[k_count] = {};
  std::uintptr_t program_counter = 0;

  std::uintptr_t stack_pointer() const { return values[k_stack_pointer]; }
};

class stack_walk {
 public:
  // `registers`: of the innermost frame. `interrupted`: its program counter is that of an
  // instruction to be run, not the address after a call.
  stack_walk(const os::module_table& modules, const stack_memory& memory,
             const unwind_registers& registers, bool interrupted)
      : modules_(modules), memory_(memory), at_(registers), interrupted_(interrupted) {}

  std::uintptr_t program_counter() const { return at_.program_counter; }
  // An address inside the instruction that called or was interrupted: what to look up.
  std::uintptr_t inside() const { return at_.program_counter - (interrupted_ ? 0 : 1); }
  std::uintptr_t stack_pointer() const { return at_.stack_pointer(); }
  // To the caller. False: this was the outermost frame, as far as can be known.
  bool step();
  // Where the function that step() left begins; 0: not known.
  std::uintptr_t left_function() const { return function_; }

 private:
  bool step_by_table(unwind_registers& caller, bool& is_outermost);
  bool step_by_frame_pointer(unwind_registers& caller) const;
  std::uintptr_t guess_frame() const;

  const os::module_table& modules_;
  const stack_memory memory_;
  unwind_registers at_;
  bool interrupted_;
  bool left_by_signal_ = false;
  std::uintptr_t function_ = 0;
};

}  // namespace magpie::rt
