// Goroutines that belong together: wait for all of them, stop at the first failure.
//
//   magpie::group crawl(ctx);
//   crawl.set_limit(16);
//   for (const url& u : urls) crawl.go([&u](const magpie::context& c) { fetch(c, u); });
//   crawl.wait();                                    // throws what the first one threw
//
// The first exception that leaves one of them cancels the group's context, with that exception as
// the cause: the others learn it from there, and should end.
#pragma once

#include <exception>
#include <type_traits>
#include <utility>

#include <magpie/context.h>
#include <magpie/detail/group_counter.h>
#include <magpie/detail/task.h>
#include <magpie/export.h>
#include <magpie/mutex.h>

namespace magpie {

class group;

namespace detail {
template <class F>
class group_task;
}  // namespace detail

class MAGPIE_API group {
 public:
  group() : group(context::background()) {}
  explicit group(context parent);

  // Without a wait() before: cancels the context, and waits for all. Exceptions are dropped.
  ~group();
  group(const group&) = delete;
  group& operator=(const group&) = delete;

  // Cancelled at the first failure, and when wait() returns.
  const context& ctx() const noexcept { return ctx_; }

  // Runs f() or f(ctx()) in a new goroutine, as magpie::go() does. Waits before that while as many
  // run as set_limit() allows. this_goroutine::exit() in it counts as done.
  template <class F>
  [[gnu::always_inline]] inline void go(F&& f) {
    running_.begin();
    start(std::forward<F>(f));
  }

  // The same without waiting; false: so many run, and f was not touched.
  template <class F>
  [[gnu::always_inline]] inline bool try_go(F&& f) {
    if (!running_.try_begin()) return false;
    start(std::forward<F>(f));
    return true;
  }

  // From now on go() waits while so many run. Negative: no limit. 0: nothing can be started.
  void set_limit(int);

  // Until all have ended. Then throws the first exception that left one of them, in every call.
  void wait();

 private:
  template <class F>
  friend class detail::group_task;

  template <class F>
  [[gnu::always_inline]] inline void start(F&& f) {
    detail::check_callable(f);
    // From its construction on the task counts down, however it ends.
    detail::spawn({}, detail::group_task<std::decay_t<F>>(*this, std::forward<F>(f)));
  }
  void fail(std::exception_ptr) noexcept;

  context ctx_;
  cancel_function cancel_;
  detail::group_counter running_;
  mutex failure_lock_;
  std::exception_ptr failure_;
};

namespace detail {

template <class F>
class group_task {
 public:
  template <class G>
  group_task(group& g, G&& f) : mine_(&g), f_(std::forward<G>(f)) {}
  group_task(group_task&&) = default;

  code_address function() const noexcept requires has_function<F> { return function_in(f_); }

  void operator()() && {
    group& g = *mine_.of;
    try {
      if constexpr (std::is_invocable_v<F, const context&>) {
        std::move(f_)(g.ctx());
      } else {
        std::move(f_)();
      }
    } catch (const goroutine_exit&) {
      throw;
    } catch (...) {
      g.fail(std::current_exception());
    }
  }

 private:
  struct share {
    explicit share(group* g) : of(g) {}
    share(share&& other) noexcept : of(std::exchange(other.of, nullptr)) {}
    ~share() {
      if (of != nullptr) of->running_.end();
    }
    group* of;
  };

  share mine_;  // before f_, so that f_ is gone when the end is counted
  F f_;
};

}  // namespace detail
}  // namespace magpie
