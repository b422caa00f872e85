// Mutual exclusion between goroutines, and plain threads.
//
//   magpie::mutex guard;
//   ...
//   const std::scoped_lock hold(guard);
//
// As std::mutex and std::timed_mutex, so std::scoped_lock, std::unique_lock and std::lock work
// with it; but one who waits blocks only its goroutine. It may be unlocked by another goroutine
// or thread than the one that locked it. Not recursive.
//
// Whoever runs gets a free mutex, even while others wait: that is fast. One that could not get it
// for a millisecond is handed it directly: that is fair. Unlocking an unlocked mutex ends the
// process with a report. An unlock happens before the next lock returns.
//
// It may be destroyed as soon as the last lock() and unlock() have returned to whoever destroys
// it, although others are still on their way out of their unlock().
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include <magpie/detail/deadline.h>
#include <magpie/detail/duration.h>
#include <magpie/detail/waiting.h>
#include <magpie/export.h>

namespace magpie::rt {
struct M;
}  // namespace magpie::rt

namespace magpie {

class MAGPIE_API mutex {
 public:
  constexpr mutex() noexcept = default;
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;

  void lock() {
    std::uint32_t found = 0;
    // acquire pairs with the release in unlock().
    if (!state_.compare_exchange_strong(found, k_locked, std::memory_order_acquire,
                                        std::memory_order_relaxed)) [[unlikely]] {
      lock_slow(never);
    }
    note_holder();
  }

  // Never waits. May take a mutex that others wait for.
  bool try_lock() {
    std::uint32_t found = 0;
    // acquire: as in lock().
    const bool got = state_.compare_exchange_strong(found, k_locked, std::memory_order_acquire,
                                                    std::memory_order_relaxed) ||
                     ((found & k_locked) == 0 && try_lock_slow());
    if (got) note_holder();
    return got;
  }

  // False: the time is up. A mutex that is free is always got.
  template <class Rep, class Period>
  bool try_lock_for(std::chrono::duration<Rep, Period> timeout) {
    return try_lock() || (timeout > timeout.zero() && lock_by(detail::deadline_in(timeout)));
  }
  template <class Clock, class Duration>
  bool try_lock_until(std::chrono::time_point<Clock, Duration> deadline) {
    return try_lock() || lock_by(detail::to_deadline(deadline));
  }

  // Any goroutine or thread.
  void unlock() {
    std::uint32_t found = k_locked;
    // release pairs with the acquire in lock().
    if (!state_.compare_exchange_strong(found, 0, std::memory_order_release,
                                        std::memory_order_relaxed)) [[unlikely]] {
      unlock_slow();
    }
  }

 private:
  static constexpr std::uint32_t k_locked = 1;

  // For reports of deadlocks: somewhere on the stack of who holds it.
  [[gnu::always_inline]] void note_holder() {
    // relaxed: read by reports only.
    holder_.store(__builtin_frame_address(0), std::memory_order_relaxed);
  }
  bool lock_by(time_point deadline) {
    if (!lock_slow(deadline)) return false;
    note_holder();
    return true;
  }

  // The logic; src/sync/mutex.cpp.
  struct waiting;
  bool lock_slow(time_point deadline);
  bool try_lock_slow();
  void unlock_slow();
  bool spin_for_it(rt::M* m, bool& on_the_way);
  bool take_or_stay(bool& on_the_way, std::uint32_t marks);
  void give_up(waiting& me);
  void set_marks(std::uint32_t clear, std::uint32_t set);
  bool release_quickly();
  bool unlock_from(rt::M* m);

  std::atomic<std::uint32_t> state_{0};
  detail::lock_word lock_;
  detail::wait_list waiting_;
  std::atomic<const void*> holder_{nullptr};
};

}  // namespace magpie
