// A goroutine whose result somebody waits for.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include <magpie/detail/duration.h>
#include <magpie/detail/task.h>
#include <magpie/errors.h>
#include <magpie/export.h>

namespace magpie {

namespace detail {

// The meeting point of one goroutine that ends and one waiter. Logic in src/sched/join.cpp.
class MAGPIE_API meeting {
 public:
  bool done() const noexcept;
  // Blocks the goroutine, or the thread outside of one, until finish() was called.
  void wait() noexcept;
  // At most until then; false: it has not ended.
  bool wait_until(time_point) noexcept;
  // Once. True: nobody will ever ask, see abandon(). Otherwise the meeting may be gone when it
  // returns.
  bool finish() noexcept;
  // By the one who could have waited, as its last. False: finish() was called before, and all that
  // the goroutine did is visible.
  bool abandon() noexcept;

 private:
  // null, a waiter, or the mark for done or for abandoned
  std::atomic<void*> state_{nullptr};
};

// Memory for it. The thread keeps some of what is given back.
MAGPIE_API void* allocate_state(std::size_t size);
MAGPIE_API void free_state(void* state, std::size_t size) noexcept;

template <class R>
struct future_state {
  using stored = std::conditional_t<
      std::is_void_v<R>, char,
      std::conditional_t<std::is_reference_v<R>, std::remove_reference_t<R>*, R>>;
  meeting end;
  std::optional<stored> value;  // empty without an error: the goroutine called exit()
  std::exception_ptr error;

  // The future and the goroutine share it; the meeting tells who is the last one.
  void drop_by_future() noexcept {
    if (!end.abandon()) delete this;
  }
  void drop_by_goroutine() noexcept {
    if (end.finish()) delete this;
  }

  static void* operator new(std::size_t size) { return allocate_state(size); }
  static void operator delete(void* state, std::size_t size) noexcept { free_state(state, size); }
  // For results that are aligned to more than memory usually is.
  static void* operator new(std::size_t size, std::align_val_t alignment) {
    return ::operator new(size, alignment);
  }
  static void operator delete(void* state, std::align_val_t alignment) noexcept {
    ::operator delete(state, alignment);
  }
};

// The goroutine's side: runs f and leaves the outcome.
template <class R, class F>
class async_task {
 public:
  async_task(future_state<R>* state, F&& f) : mine_(state), f_(std::move(f)) {}
  async_task(async_task&&) = default;

  const meeting* end() const { return &mine_.state->end; }
  code_address function() const noexcept requires has_function<F> { return function_in(f_); }

  void operator()() && {
    future_state<R>& state = *mine_.state;
    try {
      if constexpr (std::is_void_v<R>) {
        std::move(f_)();
        state.value.emplace();
      } else if constexpr (std::is_reference_v<R>) {
        state.value.emplace(std::addressof(std::move(f_)()));
      } else {
        state.value.emplace(std::move(f_)());
      }
    } catch (const goroutine_exit&) {
      throw;
    } catch (...) {
      state.error = std::current_exception();
    }
  }

 private:
  // The goroutine's share of the state: whoever holds it last says that the end has come.
  struct share {
    explicit share(future_state<R>* s) : state(s) {}
    share(share&& other) noexcept : state(std::exchange(other.state, nullptr)) {}
    ~share() {
      if (state != nullptr) state->drop_by_goroutine();
    }
    future_state<R>* state;
  };

  share mine_;  // before f_, so that f_ is gone when the end is announced
  F f_;
};

// All it has besides is a pointer.
template <class R, class F>
inline constexpr bool is_relocatable<async_task<R, F>> = is_relocatable<F>;

}  // namespace detail

// The result of an async() to come. Move-only; dropped without get(), the goroutine goes on and
// its exception is dropped. One thread or goroutine at a time.
template <class R>
class future {
 public:
  future() noexcept = default;
  future(future&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  future& operator=(future&& other) noexcept {
    future(std::move(other)).swap(*this);
    return *this;
  }
  ~future() {
    if (state_ != nullptr) state_->drop_by_future();
  }

  // Waits, then returns the result or throws what the goroutine threw. Once: a second call, or
  // one on an empty future, throws misuse; so does a goroutine that ended by exit().
  R get() {
    wait();
    const holder state{std::exchange(state_, nullptr)};
    if (state->error) std::rethrow_exception(std::move(state->error));
    if (!state->value) throw misuse("future: the goroutine ended without a result");
    if constexpr (std::is_reference_v<R>) {
      return static_cast<R>(**state->value);
    } else if constexpr (!std::is_void_v<R>) {
      return std::move(*state->value);
    }
  }

  void wait() const {
    if (state_ == nullptr) throw misuse("future: there is no result to wait for");
    state_->end.wait();
  }

  // At most so long; false: there is no result yet.
  bool wait_for(duration timeout) const {
    if (state_ == nullptr) throw misuse("future: there is no result to wait for");
    return state_->end.wait_until(detail::deadline_after(clock::now(), timeout));
  }
  template <class Rep, class Period>
  bool wait_for(std::chrono::duration<Rep, Period> timeout) const {
    return wait_for(detail::to_duration(timeout));
  }

  // Whether get() would return at once.
  bool ready() const { return state_ != nullptr && state_->end.done(); }
  bool valid() const noexcept { return state_ != nullptr; }
  void swap(future& other) noexcept { std::swap(state_, other.state_); }

 private:
  template <class F, class... Args>
  friend auto async_on(const detail::spawn_request&, F&&, Args&&...);

  struct dropper {
    void operator()(detail::future_state<R>* state) const noexcept { state->drop_by_future(); }
  };
  using holder = std::unique_ptr<detail::future_state<R>, dropper>;

  explicit future(detail::future_state<R>* state) noexcept : state_(state) {}
  detail::future_state<R>* state_ = nullptr;
};

// Not for users: async() in a given runtime.
template <class F, class... Args>
[[gnu::always_inline]] inline auto async_on(const detail::spawn_request& where, F&& f,
                                            Args&&... args) {
  using R = std::invoke_result_t<std::decay_t<F>, std::decay_t<Args>...>;
  auto call = detail::bind_decayed(std::forward<F>(f), std::forward<Args>(args)...);
  future<R> result(new detail::future_state<R>);
  detail::spawn(where, detail::async_task<R, decltype(call)>(result.state_, std::move(call)));
  return result;
}

// Runs f(args...) in a new goroutine, as go() does; its result or exception comes through the
// future. A goroutine's last instruction happens before get() or wait() returns. Any thread.
template <class F, class... Args>
[[gnu::always_inline]] inline auto async(F&& f, Args&&... args)
    -> future<std::invoke_result_t<std::decay_t<F>, std::decay_t<Args>...>> {
  return async_on({}, std::forward<F>(f), std::forward<Args>(args)...);
}

}  // namespace magpie
