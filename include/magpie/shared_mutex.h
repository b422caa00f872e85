// A lock that many readers may hold at a time, or one writer; as std::shared_timed_mutex.
//
//   std::shared_lock read(guard);        std::scoped_lock write(guard);
//
// A writer that waits stops new readers, and before the next writer as many readers get in as
// waited for the one before. Within these rules whoever runs comes before those who have to be
// woken; but one who could not get in for a millisecond is given the lock. So neither starves, and
// a reader must not lock it a second time: a writer in between would wait for the first, and the
// second for the writer.
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

namespace magpie::rt {
struct M;
class entry;
class object_guard;
}  // namespace magpie::rt

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
    if (!try_lock_slow()) return false;
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
    if (!be_only_reader() && !join_readers(manner::patient)) lock_shared_slow(never);
  }
  bool try_lock_shared() { return be_only_reader() || try_lock_shared_slow(); }
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
    std::uint32_t found = k_reader;
    // relaxed: a hint. release: as in unlock().
    if (slots_open_.load(std::memory_order_relaxed) ||
        !state_.compare_exchange_strong(found, 0, std::memory_order_release,
                                        std::memory_order_relaxed)) {
      unlock_one_of_many();
    }
  }

 private:
  static constexpr std::uint32_t k_writer = 1;
  static constexpr std::uint32_t k_reader = 32;  // each of them

  bool be_only_reader() {
    std::uint32_t found = 0;
    // relaxed: a hint. acquire: as in lock().
    return !slots_open_.load(std::memory_order_relaxed) &&
           state_.compare_exchange_strong(found, k_reader, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
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
  bool take_if_free();
  bool try_lock_slow();
  enum class manner : std::uint8_t {
    patient,
    prompt
  };
  bool join_readers(manner);
  bool join_counted(manner);
  bool try_lock_shared_slow();
  void unlock_one_of_many();
  void unlock_counted();
  bool lock_slow(time_point deadline);
  bool lock_shared_slow(time_point deadline);
  bool wait_in(detail::wait_list&, waiting& me, rt::entry&, rt::object_guard& held, time_point);
  void unlock_slow();
  void unlock_shared_slow();
  bool enter_slot();
  bool leave_slot();
  bool may_use_slots() const;
  void gather_readers(rt::M*);
  void rest_from_slots(std::uint64_t start, std::uint64_t end);
  std::uint32_t take_or_stay(std::uint32_t mark);
  void mark_queue();
  bool take_place();
  bool count_or_stay(std::uint32_t bars, std::uint32_t mark);
  std::uint32_t call_readers(settlement&);
  std::uint32_t call_writer(settlement&);
  std::uint32_t marks() const;
  void settle(settlement&);
  void pass_on(settlement&);

  std::atomic<std::uint32_t> state_{0};
  detail::lock_word lock_;
  // Whether k_slots is set, most of the time. A word of its own, because a load right after an
  // exchange of the same word takes as long as the exchange.
  std::atomic<bool> slots_open_{false};
  std::uint8_t rest_ = 3;     // for how long slots stay closed; by who sets k_gathering
  std::uint32_t places_ = 0;  // for readers: counted in the state, and not taken yet
  detail::wait_list writers_;
  detail::wait_list readers_;
  std::atomic<std::uint64_t> no_slots_until_{0};  // ticks
  std::atomic<const void*> holder_{nullptr};
};

}  // namespace magpie
