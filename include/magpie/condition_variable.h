// Waiting until something guarded by a magpie::mutex has changed; as std::condition_variable.
//
//   std::unique_lock hold(guard);
//   changed.wait(hold, [&] { return !queue.empty(); });
//
// Those who wait are notified in the order in which they came. wait() without a predicate returns
// only after a notification that was meant for it: there are no spurious wake-ups. It may be
// destroyed as soon as everybody who waits has been notified.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include <magpie/detail/deadline.h>
#include <magpie/detail/duration.h>
#include <magpie/detail/waiting.h>
#include <magpie/export.h>
#include <magpie/mutex.h>

namespace magpie {

using std::cv_status;

class MAGPIE_API condition_variable {
 public:
  constexpr condition_variable() noexcept = default;
  condition_variable(const condition_variable&) = delete;
  condition_variable& operator=(const condition_variable&) = delete;

  // Any goroutine or thread, with or without the mutex.
  void notify_one() noexcept {
    if (somebody_waits()) notify_slow(1);
  }
  void notify_all() noexcept {
    if (somebody_waits()) notify_slow(0);
  }

  // The lock is held before and after; another lock than that of a mutex held is misuse.
  void wait(std::unique_lock<mutex>& lock) { wait_slow(lock, never); }
  template <class Predicate>
  void wait(std::unique_lock<mutex>& lock, Predicate is_fulfilled) {
    while (!is_fulfilled()) wait(lock);
  }

  template <class Clock, class Duration>
  cv_status wait_until(std::unique_lock<mutex>& lock,
                       std::chrono::time_point<Clock, Duration> deadline) {
    return wait_slow(lock, detail::to_deadline(deadline)) ? cv_status::no_timeout
                                                          : cv_status::timeout;
  }
  template <class Rep, class Period>
  cv_status wait_for(std::unique_lock<mutex>& lock, std::chrono::duration<Rep, Period> timeout) {
    return wait_until(lock, detail::deadline_in(timeout));
  }
  // What the predicate says at the end.
  template <class Clock, class Duration, class Predicate>
  bool wait_until(std::unique_lock<mutex>& lock, std::chrono::time_point<Clock, Duration> deadline,
                  Predicate is_fulfilled) {
    while (!is_fulfilled()) {
      if (wait_until(lock, deadline) == cv_status::timeout) return is_fulfilled();
    }
    return true;
  }
  template <class Rep, class Period, class Predicate>
  bool wait_for(std::unique_lock<mutex>& lock, std::chrono::duration<Rep, Period> timeout,
                Predicate is_fulfilled) {
    return wait_until(lock, detail::deadline_in(timeout), std::move(is_fulfilled));
  }

 private:
  struct waiting;

  bool somebody_waits() const {
    // seq_cst: of a waiter and a notifier who do not share the mutex, one comes first for all.
    return waits_.load(std::memory_order_seq_cst);
  }
  bool wait_slow(std::unique_lock<mutex>&, time_point deadline);
  bool sleep(waiting& me, time_point deadline);
  void notify_slow(int count) noexcept;

  std::atomic<bool> waits_{false};  // somebody is on the list
  detail::lock_word lock_;
  detail::wait_list waiting_;
};

}  // namespace magpie
