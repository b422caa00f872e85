// Time: one clock, one resolution, words for "for ever"; timers, tickers, and calls to come.
//
// Every call that takes a duration takes any std::chrono duration. One that does not fit is cut
// to the longest that does, a negative one means now:
//
//   hours::max()           as good as no_timeout
//   -1s                    do not wait at all
//   duration<double>(0.5)  half a second
//
// clock, duration, time_point, no_timeout and never are in <magpie/detail/duration.h>.
//
// A timer or ticker sends the time into its channel:
//
//   magpie::timer limit(1s);
//   magpie::select(on_receive(answers, ...), on_receive(limit.channel(), ...));
//
// What is received is the time at which it was due, which is earlier than now by as much as it
// was late. Nothing fires early. A timer is set in the caller's runtime, or outside of one in the
// default runtime, and does not keep ~runtime waiting: what is pending then never fires.
//
// No need to stop what is not needed any more: a timer or ticker that nobody can receive from is
// gone. All members may be called from any thread, and at the same time, but for the destructor
// and moves.
#pragma once

#include <chrono>
#include <memory>
#include <type_traits>
#include <utility>

#include <magpie/channel.h>
#include <magpie/detail/duration.h>
#include <magpie/errors.h>
#include <magpie/export.h>

namespace magpie {

class timer;

namespace detail {

struct timer_core;  // src/time/timer_core.h

// What after_func() runs.
struct timed_function {
  virtual ~timed_function() = default;
  virtual void call() = 0;
};

template <class F>
struct timed_function_of final : timed_function {
  explicit timed_function_of(F&& f) : function(std::move(f)) {}
  void call() override { function(); }
  F function;
};

MAGPIE_API timer make_func_timer(duration, std::unique_ptr<timed_function>);

// A share in a timer, or in none.
class MAGPIE_API timer_handle {
 public:
  timer_handle() noexcept = default;
  explicit timer_handle(timer_core* core) noexcept : core_(core) {}
  timer_handle(timer_handle&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  timer_handle& operator=(timer_handle&& other) noexcept {
    timer_handle taken(std::move(other));
    std::swap(core_, taken.core_);
    return *this;
  }
  ~timer_handle();

  timer_core* core() const noexcept { return core_; }

 private:
  timer_core* core_ = nullptr;
};

}  // namespace detail

// Fires once. Movable; a default-constructed or moved-from one is empty: stop() and reset() throw
// misuse.
class MAGPIE_API timer {
 public:
  timer() noexcept = default;
  // Zero or less: at once.
  explicit timer(duration);
  template <class Rep, class Period>
  explicit timer(std::chrono::duration<Rep, Period> d) : timer(detail::to_duration(d)) {}

  // Gets one time_point. Reports a size and a capacity of 0. Nil for after_func().
  receiver<time_point> channel() const;

  // True: it was prevented from firing, or its value from being received. Afterwards nothing is
  // received that was sent before, and nothing comes until the next reset(). For after_func(),
  // false: f has been started already, or was stopped before; f may still run.
  bool stop();

  // Fires after `d`, counted from now, and not at the time it was set to before. Returns and
  // forgets what stop() would.
  bool reset(duration d);
  template <class Rep, class Period>
  bool reset(std::chrono::duration<Rep, Period> d) {
    return reset(detail::to_duration(d));
  }

 private:
  friend timer detail::make_func_timer(duration, std::unique_ptr<detail::timed_function>);
  explicit timer(detail::timer_core* core) noexcept : handle_(core) {}

  detail::timer_handle handle_;
};

// Fires again and again, at times that are whole periods apart. A receiver that is slow misses
// ticks: the channel keeps one. Movable; an empty one ignores stop(), and reset() throws misuse.
class MAGPIE_API ticker {
 public:
  ticker() noexcept = default;
  // Throws misuse unless the period is positive.
  explicit ticker(duration period);
  template <class Rep, class Period>
  explicit ticker(std::chrono::duration<Rep, Period> period)
      : ticker(detail::to_duration(period)) {}

  // Gets a time_point per tick. It is never closed.
  receiver<time_point> channel() const;

  // Afterwards no tick is received, not even one that was there already.
  void stop();

  // The next tick comes after one new period, also when it was stopped. Throws misuse unless the
  // period is positive.
  void reset(duration period);
  template <class Rep, class Period>
  void reset(std::chrono::duration<Rep, Period> period) {
    reset(detail::to_duration(period));
  }

 private:
  detail::timer_handle handle_;
};

// The channel of a timer that cannot be stopped, but that is gone when its receivers are.
MAGPIE_API receiver<time_point> after(duration);
template <class Rep, class Period>
receiver<time_point> after(std::chrono::duration<Rep, Period> d) {
  return after(detail::to_duration(d));
}

// Runs f() in a goroutine of its own after `d`, in the runtime where it was set: the caller's
// here, that of the caller of reset() afterwards. stop() prevents it; dropping the handle does
// not. After a reset() f runs again, at the same time as before if the first run still goes on. An
// exception that leaves f is treated as by go().
template <class F>
[[gnu::always_inline]] inline timer after_func(duration d, F f) {
  return detail::make_func_timer(d, std::make_unique<detail::timed_function_of<F>>(std::move(f)));
}
template <class Rep, class Period, class F>
[[gnu::always_inline]] inline timer after_func(std::chrono::duration<Rep, Period> d, F f) {
  return detail::make_func_timer(detail::to_duration(d),
                                 std::make_unique<detail::timed_function_of<F>>(std::move(f)));
}

}  // namespace magpie
