// The conventions of time, for headers that need no more than those. Users include <magpie/time.h>.
#pragma once

#include <chrono>
#include <ratio>
#include <type_traits>

namespace magpie {

// Monotonic: setting the time of day does not move it.
using clock = std::chrono::steady_clock;

using duration = std::chrono::nanoseconds;
using time_point = std::chrono::time_point<clock, duration>;

// A duration that never passes, and the point of time it leads to.
inline constexpr duration no_timeout = duration::max();
inline constexpr time_point never = time_point::max();

namespace detail {

// `d` in nanoseconds, rounded towards zero. What does not fit becomes duration::max() or min();
// chrono's own conversion would overflow, which is undefined. Not-a-number becomes min(): not
// waiting is better than waiting for ever.
template <class Rep, class Period>
requires std::is_arithmetic_v<Rep>
constexpr duration to_duration(std::chrono::duration<Rep, Period> d) noexcept {
  using scale = std::ratio_divide<Period, std::nano>;
  if constexpr (std::is_floating_point_v<Rep>) {
    if (d.count() != d.count()) return duration::min();
    const long double count = static_cast<long double>(d.count()) *
                              static_cast<long double>(scale::num) /
                              static_cast<long double>(scale::den);
    constexpr long double limit = 9223372036854775808.0L;  // 2^63
    if (count >= limit) return duration::max();
    if (count <= -limit) return duration::min();
    return duration(static_cast<duration::rep>(count));
  } else {
    // Wide enough for every 64-bit count times every std::ratio.
    __extension__ using wide = __int128;
    const wide count = static_cast<wide>(d.count()) * scale::num / scale::den;
    if (count > duration::max().count()) return duration::max();
    if (count < duration::min().count()) return duration::min();
    return duration(static_cast<duration::rep>(count));
  }
}

// When a wait of `timeout` that begins at `now` ends; `never` when it has no end or one that
// does not fit.
constexpr time_point deadline_after(time_point now, duration timeout) noexcept {
  if (timeout <= duration::zero()) return now;
  if (timeout == no_timeout || now.time_since_epoch() > duration::max() - timeout) return never;
  return now + timeout;
}

}  // namespace detail
}  // namespace magpie
