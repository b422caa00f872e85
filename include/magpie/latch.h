// A number that is counted down once, and those who wait for its end; as std::latch.
//
//   magpie::latch ready(3);
//   ... ready.count_down();      in three goroutines
//   ready.wait();
//
// It may be destroyed as soon as wait() has returned, although others are still on their way out
// of count_down(), or of the wait() in which they waited, too. Counting below zero throws
// magpie::misuse.
#pragma once

#include <cstddef>

#include <magpie/detail/countdown.h>
#include <magpie/export.h>

namespace magpie {

class MAGPIE_API latch {
 public:
  // Not negative, or misuse is thrown.
  constexpr explicit latch(std::ptrdiff_t expected)
      : number_(expected >= 0 && expected <= max() ? expected : refuse()) {}
  latch(const latch&) = delete;
  latch& operator=(const latch&) = delete;

  static constexpr std::ptrdiff_t max() noexcept { return detail::countdown::k_most; }

  // What was done before happens before wait() returns.
  void count_down(std::ptrdiff_t count = 1);
  bool try_wait() const noexcept { return number_.is_over(); }
  void wait() const {
    if (!try_wait()) number_.wait(detail::countdown::kind::latch);
  }
  void arrive_and_wait(std::ptrdiff_t count = 1) {
    count_down(count);
    wait();
  }

 private:
  [[noreturn]] static std::ptrdiff_t refuse();

  mutable detail::countdown number_;
};

}  // namespace magpie
