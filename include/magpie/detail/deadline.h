// Points of time of any clock as the library's own. Not for users.
#pragma once

#include <chrono>

#include <magpie/detail/duration.h>

namespace magpie::detail {

// When a wait of `timeout` that begins now ends.
template <class Rep, class Period>
time_point deadline_in(std::chrono::duration<Rep, Period> timeout) {
  return deadline_after(clock::now(), to_duration(timeout));
}

// `t` on our clock, as far away as it is now on its own.
template <class Clock, class Duration>
time_point to_deadline(std::chrono::time_point<Clock, Duration> t) {
  const duration since_epoch = to_duration(t.time_since_epoch());
  if constexpr (std::is_same_v<Clock, clock>) {
    return time_point(since_epoch);
  } else {
    const duration now = to_duration(Clock::now().time_since_epoch());
    if (since_epoch <= now) return clock::now();
    const bool fits = now >= duration::zero() || since_epoch <= duration::max() + now;
    return deadline_after(clock::now(), fits ? since_epoch - now : no_timeout);
  }
}

}  // namespace magpie::detail
