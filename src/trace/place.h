// Where a goroutine is when something happens to it: what events have as their stack.
#pragma once

#include <cstdint>

namespace magpie::rt::trace {

struct place {
  std::uintptr_t pc = 0;        // the innermost frame, if it is known otherwise; 0: it is not
  const void* frame = nullptr;  // where the chain of frame pointers begins; null: there is none
  const void* low = nullptr;    // it stays inside [low, high)
  const void* high = nullptr;
};

// The frames of a chain, innermost first. Code without frame pointers may have left anything in
// the chain: what is read is inside the stack, but whether it is code the caller must find out.
class frame_chain {
 public:
  explicit frame_chain(const place& begin)
      : at_(reinterpret_cast<std::uintptr_t>(begin.frame)),
        low_(reinterpret_cast<std::uintptr_t>(begin.low)),
        last_(reinterpret_cast<std::uintptr_t>(begin.high) - 2 * sizeof(at_) - low_) {}

  // False: it has ended. (Below the stack the difference is huge.)
  bool more() const { return at_ - low_ <= last_ && at_ % sizeof(at_) == 0; }
  std::uintptr_t pc() const { return words()[1]; }
  void go_up() {
    const std::uintptr_t above = words()[0];
    at_ = above > at_ ? above : 0;
  }

 private:
  const std::uintptr_t* words() const { return reinterpret_cast<const std::uintptr_t*>(at_); }

  std::uintptr_t at_, low_, last_;
};

}  // namespace magpie::rt::trace
