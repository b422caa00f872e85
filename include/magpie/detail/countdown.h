// A number that goes to zero, and those who wait for that: what wait_group and latch are made of.
// Not for users; the logic is in src/sync/countdown.cpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <magpie/detail/waiting.h>
#include <magpie/export.h>

namespace magpie::detail {

class MAGPIE_API countdown {
 public:
  // Twice the number, plus one while somebody waits. Whoever makes it k_wake, zero while
  // somebody waits, has to call wake_all(); everybody else is done with the object after its own
  // change. Below zero for a moment, when somebody counts who should not, until that is undone.
  using state = std::int64_t;
  static constexpr state k_one = 2;
  static constexpr state k_wake = 1;
  static constexpr std::ptrdiff_t k_most = INT64_MAX / 4;

  enum class kind : std::uint8_t {
    wait_group,
    latch
  };

  constexpr explicit countdown(std::ptrdiff_t number) noexcept : state_(number * k_one) {}

  // Returns what it was.
  state change(state by) {
    // acq_rel: all that was done before any change is visible to whoever sees the zero.
    return state_.fetch_add(by, std::memory_order_acq_rel);
  }
  // Takes a change back that was not allowed.
  void undo(state by);
  // As change(-by), but never below zero: false, and nothing has changed.
  bool take_away(state by);
  // Zero, and nobody touches it any more on account of that.
  bool is_over() const { return read() == 0; }

  // Until the number is zero.
  void wait(kind);
  void wake_all();

 private:
  bool wait_unless_zero(kind);
  // acquire pairs with change() and the end of wake_all().
  state read() const { return state_.load(std::memory_order_acquire); }

  std::atomic<state> state_;
  lock_word lock_;
  wait_list waiting_;
};

}  // namespace magpie::detail
