// A number of units that goroutines and threads take and give back.
//
//   magpie::semaphore connections(10);
//   connections.acquire();
//   ...
//   connections.release();
//
// Those who wait are served strictly in order: one who waits for many units is not overtaken by
// those who want few, and try_acquire() fails while anybody waits. Whoever releases need not be
// who acquired. A negative number of units throws magpie::misuse. It may be destroyed as soon as
// acquire() has returned, although others are still on their way out of release().
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include <magpie/detail/deadline.h>
#include <magpie/detail/duration.h>
#include <magpie/detail/waiting.h>
#include <magpie/export.h>

namespace magpie {

class MAGPIE_API semaphore {
 public:
  explicit semaphore(std::ptrdiff_t units);
  semaphore(const semaphore&) = delete;
  semaphore& operator=(const semaphore&) = delete;

  static constexpr std::ptrdiff_t max() noexcept { return INT64_MAX / 4; }

  void acquire(std::ptrdiff_t units = 1) {
    if (!try_acquire(units)) acquire_slow(units, never);
  }
  // Never waits.
  bool try_acquire(std::ptrdiff_t units = 1);

  // False: the time is up, and nothing was taken.
  template <class Rep, class Period>
  bool try_acquire_for(std::chrono::duration<Rep, Period> timeout, std::ptrdiff_t units = 1) {
    if (try_acquire(units)) return true;
    return timeout > timeout.zero() && acquire_slow(units, detail::deadline_in(timeout));
  }
  template <class Rep, class Period>
  bool try_acquire_for(std::ptrdiff_t units, std::chrono::duration<Rep, Period> timeout) {
    return try_acquire_for(timeout, units);
  }
  template <class Clock, class Duration>
  bool try_acquire_until(std::chrono::time_point<Clock, Duration> deadline,
                         std::ptrdiff_t units = 1) {
    return try_acquire(units) || acquire_slow(units, detail::to_deadline(deadline));
  }

  void release(std::ptrdiff_t units = 1);

 private:
  struct waiting;
  static std::int64_t checked(std::ptrdiff_t units);
  bool acquire_slow(std::ptrdiff_t units, time_point deadline);
  void serve(void* woken);

  std::atomic<std::int64_t> state_;  // twice the free units, plus one while somebody waits
  detail::lock_word lock_;
  detail::wait_list waiting_;
};

}  // namespace magpie
