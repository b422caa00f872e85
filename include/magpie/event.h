// A flag that goroutines and threads wait for.
//
//   magpie::event started;
//   ... started.set();
//   ... started.wait();        returns at once from then on, until reset()
//
// set() lets everybody go who waits, whatever reset() does afterwards. It may be destroyed as soon
// as wait() has returned, although set() is still on its way out, and others who waited, too.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include <magpie/detail/deadline.h>
#include <magpie/detail/duration.h>
#include <magpie/detail/waiting.h>
#include <magpie/export.h>

namespace magpie {

class MAGPIE_API event {
 public:
  constexpr event() noexcept = default;
  event(const event&) = delete;
  event& operator=(const event&) = delete;

  // What was done before set() happens before the wait() that it ends returns.
  void set();
  void reset() noexcept;
  bool is_set() const noexcept {
    return (state_.load(std::memory_order_acquire) & k_set) != 0;  // pairs with set()
  }

  void wait() {
    if (!is_set()) wait_slow(never);
  }
  // False: the time is up and it was not set.
  template <class Rep, class Period>
  bool wait_for(std::chrono::duration<Rep, Period> timeout) {
    if (is_set()) return true;
    return timeout > timeout.zero() && wait_slow(detail::deadline_in(timeout));
  }
  template <class Clock, class Duration>
  bool wait_until(std::chrono::time_point<Clock, Duration> deadline) {
    return is_set() || wait_slow(detail::to_deadline(deadline));
  }

 private:
  static constexpr std::uint32_t k_set = 1;
  static constexpr std::uint32_t k_waiting = 2;  // somebody is on the list

  void set_slow();
  void wait_until_set() const;
  bool wait_slow(time_point deadline);

  std::atomic<std::uint32_t> state_{0};
  detail::lock_word lock_;
  detail::wait_list waiting_;
};

}  // namespace magpie
