// Why a goroutine waits. Every place that parks has a reason of its own, so that a dump says
// where to look; Go's words where Go has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace magpie::rt {

enum class wait_reason : std::uint8_t {
  none,
  future_wait,
  thread_cap,
  chan_receive,
  chan_send,
  chan_receive_nil,
  chan_send_nil,
  chan_turn,
  select,
  select_no_cases,
  sleep,
  mutex_lock,
  shared_mutex_lock,
  shared_mutex_lock_shared,
  condition_wait,
  semaphore_acquire,
  once_call,
  wait_group_wait,
  latch_wait,
  barrier_wait,
  event_wait,
  group_limit,
  io_wait,
  io_turn,
  io_close,
  count_,
};

// Outside of the function, where debuggers find it.
inline constexpr const char* k_wait_reason_texts[] = {
    "waiting",
    "future wait",
    "thread limit",
    "chan receive",
    "chan send",
    "chan receive (nil chan)",
    "chan send (nil chan)",
    "chan turn",
    "select",
    "select (no cases)",
    "sleep",
    "sync.Mutex.Lock",
    "sync.RWMutex.Lock",
    "sync.RWMutex.RLock",
    "sync.Cond.Wait",
    "semacquire",
    "sync.Once.Do",
    "sync.WaitGroup.Wait",
    "latch wait",
    "barrier wait",
    "event wait",
    "group limit",
    "IO wait",
    "IO turn",
    "IO close",
};
static_assert(std::size(k_wait_reason_texts) == static_cast<std::size_t>(wait_reason::count_));

constexpr const char* wait_reason_text(wait_reason reason) {
  return k_wait_reason_texts[static_cast<std::size_t>(reason)];
}

}  // namespace magpie::rt
