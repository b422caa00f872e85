// A lock that many readers may hold at a time, or one writer; as std::shared_timed_mutex.
//
//   std::shared_lock read(guard);        std::scoped_lock write(guard);
//
// A writer that waits stops new readers; readers that waited for a writer get in before the next
// one. So neither starves, and a reader must not lock it a second time: a writer in between would
// wait for the first, and the second for the writer.
//
// Where readers meet often, they do not share a counter but mark themselves each in a place of
// its own, so that they do not slow each other down. The first writer then pays for it, some
// microseconds. Unlocking what is not locked ends the process with a report; who unlocks need not
// be who locked. It may be destroyed as soon as the last unlock has returned to who destroys it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include <magpie/detail/deadline.h>
#include <magpie/detail/duration.h>
#include <magpie/detail/waiting.h>
#include <magpie/export.h>

namespace magpie {

class MAGPIE_API shared_mutex {
 public:
  constexpr shared_mutex() noexcept = default;
  shared_mutex(const shared_mutex&) = delete;
  shared_mutex& operator=(const shared_mutex&) = delete;

  // ---- The writer ----
  void lock() {
    std::uint32_t found = 0;
    // acquire pairs with the release in unlock() and unlock_shared().
    if (!state_.compare_exchange_strong(found, k_writer, std::memory_order_acquire,
                                        std::memory_order_relaxed)) [[unlikely]] {
      lock_slow(never);
    }
    note_holder();
  }
  bool try_lock() {
    if (!try_lock_once()) return false;
    note_holder();
    return true;
  }
  template <class Rep, class Period>
  bool try_lock_for(std::chrono::duration<Rep, Period> timeout) {
    return try_lock() || (timeout > timeout.zero() && lock_by(detail::deadline_in(timeout)));
  }
  template <class Clock, class Duration>
  bool try_lock_until(std::chrono::time_point<Clock, Duration> deadline) {
    return try_lock() || lock_by(detail::to_deadline(deadline));
  }
  void unlock() {
    std::uint32_t found = k_writer;
    // release pairs with the acquires of those who lock.
    if (!state_.compare_exchange_strong(found, 0, std::memory_order_release,
                                        std::memory_order_relaxed)) [[unlikely]] {
      unlock_slow();
    }
  }

  // ---- Readers ----
  void lock_shared() {
    if (!try_lock_shared()) lock_shared_slow(never);
  }
  bool try_lock_shared() {
    std::uint32_t found = state_.load(std::memory_order_relaxed);  // relaxed: only worth a try?
    // acquire: as in lock().
    return (found == 0 && state_.compare_exchange_strong(found, k_reader, std::memory_order_acquire,
                                                         std::memory_order_relaxed)) ||
           try_lock_shared_slow();
  }
  template <class Rep, class Period>
  bool try_lock_shared_for(std::chrono::duration<Rep, Period> timeout) {
    if (try_lock_shared()) return true;
    return timeout > timeout.zero() && lock_shared_slow(detail::deadline_in(timeout));
  }
  template <class Clock, class Duration>
  bool try_lock_shared_until(std::chrono::time_point<Clock, Duration> deadline) {
    return try_lock_shared() || lock_shared_slow(detail::to_deadline(deadline));
  }
  void unlock_shared() {
    std::uint32_t found = state_.load(std::memory_order_relaxed);  // relaxed: only worth a try?
    // release: as in unlock().
    if (found != k_reader || !state_.compare_exchange_strong(found, 0, std::memory_order_release,
                                                             std::memory_order_relaxed)) {
      unlock_one_of_many();
    }
  }

 private:
  static constexpr std::uint32_t k_writer = 1;
  static constexpr std::uint32_t k_reader = 32;  // each of them

  // For reports of deadlocks: somewhere on the stack of the writer.
  [[gnu::always_inline]] void note_holder() {
    // relaxed: read by reports only.
    holder_.store(__builtin_frame_address(0), std::memory_order_relaxed);
  }
  bool lock_by(time_point deadline) {
    if (!lock_slow(deadline)) return false;
    note_holder();
    return true;
  }

  // The logic; src/sync/shared_mutex.cpp.
  struct waiting;
  struct settlement;
  bool try_lock_once();
  bool try_lock_shared_slow();
  void unlock_one_of_many();
  bool lock_slow(time_point deadline);
  bool lock_shared_slow(time_point deadline);
  bool wait_in(detail::wait_list&, waiting& me, void* entry_inside, void* held, time_point);
  void unlock_slow();
  void unlock_shared_slow();
  bool enter_slot();
  bool leave_slot();
  bool may_use_slots() const;
  void gather_readers(void* m);
  std::uint32_t take_or_stay(bool on_the_way, bool stays);
  void settle(settlement&);
  void pass_on(settlement&);

  std::atomic<std::uint32_t> state_{0};
  detail::lock_word lock_;
  detail::wait_list writers_;
  detail::wait_list readers_;
  std::atomic<std::uint64_t> no_slots_until_{0};  // ticks
  std::atomic<const void*> holder_{nullptr};
};

}  // namespace magpie
