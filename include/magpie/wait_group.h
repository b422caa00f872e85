// Waiting for a number of goroutines to end.
//
//   magpie::wait_group all;
//   for (job& j : jobs) all.go([&j] { j.run(); });
//   all.wait();
//
// Or by hand: add() before the goroutine is started, done() when it ends. It may be used again, or
// destroyed, as soon as wait() has returned, although others who waited for the same zero are still
// on their way out.
//
// What Go calls misuse throws magpie::misuse and leaves the number as it was: counting below
// zero, and counting up from zero while somebody still waits for that zero.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <magpie/detail/countdown.h>
#include <magpie/detail/task.h>
#include <magpie/export.h>

namespace magpie {

class wait_group;

namespace detail {
[[noreturn]] MAGPIE_API void throw_wait_group_misuse(const char* what);
MAGPIE_API void end_of_change(countdown&, countdown::state by, countdown::state was);
MAGPIE_API void take_away_or_throw(countdown&, countdown::state by);
template <class F>
struct counted_task;
}  // namespace detail

class wait_group {
 public:
  constexpr wait_group() noexcept : number_(0) {}
  wait_group(const wait_group&) = delete;
  wait_group& operator=(const wait_group&) = delete;

  // So many more, or fewer, to wait for.
  void add(std::ptrdiff_t count) {
    using detail::countdown;
    if (count > countdown::k_most || count < -countdown::k_most) [[unlikely]]
      detail::throw_wait_group_misuse("wait_group: count out of range");
    if (count < 0) [[unlikely]]
      return detail::take_away_or_throw(number_, -count * countdown::k_one);
    change(count * countdown::k_one);
  }
  void done() { change(-detail::countdown::k_one); }

  // Until the number is zero. What was done before each done() happens before it returns.
  void wait() {
    if (!number_.is_over()) number_.wait(detail::countdown::kind::wait_group);
  }

  // add(1), and f() in a new goroutine which ends with done(). f is destroyed before that. An
  // exception that leaves f ends the process, as with magpie::go(); this_goroutine::exit() in it
  // counts as done.
  template <class F>
  [[gnu::always_inline]] inline void go(F&& f) {
    detail::check_callable(f);
    add(1);
    try {
      detail::spawn({}, detail::counted_task<std::decay_t<F>>{this, std::forward<F>(f)});
    } catch (...) {
      done();
      throw;
    }
  }

 private:
  void change(detail::countdown::state by) {
    const detail::countdown::state was = number_.change(by);
    // Still something to wait for, and there was before: nothing else to do.
    if (was > detail::countdown::k_wake && was + by > detail::countdown::k_wake) [[likely]]
      return;
    if (was + by == 0 || (was == 0 && by > 0)) return;
    detail::end_of_change(number_, by, was);
  }

  detail::countdown number_;
};

namespace detail {

// A closure of its own, so that small ones need no memory.
template <class F>
struct counted_task {
  wait_group* group;
  F f;

  code_address function() const noexcept requires has_function<F> { return function_in(f); }

  void operator()() && {
    if constexpr (std::is_trivially_destructible_v<F>) {
      std::move(f)();
    } else {
      F mine(std::move(f));  // gone before done()
      std::move(mine)();
    }
  }
  end_told over() {
    group->done();
    return {};
  }
};

}  // namespace detail
}  // namespace magpie
