// Where the process has code.
#pragma once

#include <cstdint>

namespace magpie::rt::os {

// Takes down which ranges of addresses are code, for is_code(). Again when libraries were loaded
// since. Allocates nothing, but takes the dynamic linker's lock.
void note_code();

// Whether an address is code, as far as note_code() has seen. Signal-safe. For one look after the
// other: what is asked next is mostly in the same library.
class code_look {
 public:
  code_look();
  bool is_code(std::uintptr_t address) {
    if (is_in(last_, address)) [[likely]]
      return true;
    for (const range* r = all_; r != end_; ++r) {
      if (!is_in(*r, address)) continue;
      last_ = *r;
      return true;
    }
    return false;
  }

  struct range {
    std::uintptr_t low, high;
  };

 private:
  static bool is_in(const range& r, std::uintptr_t address) {
    return address - r.low < r.high - r.low;
  }

  const range* all_;
  const range* end_;
  range last_;
};

inline bool is_code(std::uintptr_t address) { return code_look().is_code(address); }

}  // namespace magpie::rt::os
