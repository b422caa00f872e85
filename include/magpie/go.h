// Goroutines: starting one, and what one can ask and do about itself.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include <magpie/detail/duration.h>
#include <magpie/detail/task.h>
#include <magpie/export.h>

namespace magpie {

struct spawn_options {
  std::string_view name = {};  // shown in dumps and traces; copied
  std::size_t stack_size = 0;  // 0: config::stack_size
};

// Runs f(args...) in a new goroutine, which starts soon and runs on its own; nobody waits for it.
// f and args are copied or moved as by std::thread. What the caller did before happens before the
// goroutine's first instruction.
//
// The goroutine belongs to the caller's runtime; on a thread without one, to the default runtime,
// which is started if need be. An exception that leaves f ends the process with a report, and so
// does an f that is a null pointer or an empty std::function, right here.
// Any thread.
template <class F, class... Args>
requires(!std::is_same_v<std::decay_t<F>, spawn_options>)
    [[gnu::always_inline]] inline void go(F&& f, Args&&... args) {
  if constexpr (sizeof...(Args) == 0) {
    detail::spawn({}, std::forward<F>(f));
  } else {
    detail::spawn({}, detail::bind_decayed(std::forward<F>(f), std::forward<Args>(args)...));
  }
}

// The same with a name, or a stack of its own size.
template <class F>
[[gnu::always_inline]] inline void go(spawn_options options, F&& f) {
  detail::spawn({nullptr, options.stack_size, options.name}, std::forward<F>(f));
}

namespace this_goroutine {

// Unique in its runtime; 0 on a plain thread.
MAGPIE_API std::uint64_t id() noexcept;

// Empty when none was given, and on a plain thread.
MAGPIE_API std::string_view name() noexcept;
MAGPIE_API void set_name(std::string_view);

// Lets the others on this P run first. On a plain thread: yields the thread.
MAGPIE_API void yield();

// Yields only if the goroutine has used up its time slice and others wait: cheap enough for
// inner loops.
MAGPIE_API void checkpoint();

// Waits without using a thread; never returns early. Zero or less returns at once. On a plain
// thread: sleeps the thread.
MAGPIE_API void sleep_until(time_point);
MAGPIE_API void sleep_for(duration);
template <class Rep, class Period>
void sleep_for(std::chrono::duration<Rep, Period> d) {
  sleep_for(detail::to_duration(d));
}

// Ends the goroutine after running the destructors on its stack, as an exception would that only
// catch (...) sees, which must rethrow it. On a plain thread: throws misuse.
[[noreturn]] MAGPIE_API void exit();

MAGPIE_API bool is_goroutine() noexcept;

}  // namespace this_goroutine

// While one exists, the goroutine stays on the thread it is on, and that thread runs nobody else:
// for libraries that keep state in the thread. Nests. A goroutine that ends with one alive ends
// its thread, too. On a plain thread: nothing.
class MAGPIE_API thread_lock {
 public:
  thread_lock();
  ~thread_lock();
  thread_lock(const thread_lock&) = delete;
  thread_lock& operator=(const thread_lock&) = delete;
};

// While one exists, the goroutine is not stopped for others, however long it runs: for a section
// during which everybody would have to wait for it, such as under a spin lock of your own. Keep it
// short: it delays all that share its P. It does not keep the goroutine from waiting itself, nor
// the kernel from stopping the thread. Nests. On a plain thread: nothing.
class MAGPIE_API no_preempt {
 public:
  no_preempt() noexcept;
  ~no_preempt();
  no_preempt(const no_preempt&) = delete;
  no_preempt& operator=(const no_preempt&) = delete;
};

namespace detail {

// What a goroutine_local is told apart by: given out at its first use, and never again. Its address
// would not do: another one, of another type, may be made where it was.
using local_key = std::uint64_t;  // 0: none yet
MAGPIE_API local_key draw_local_key(std::atomic<local_key>&) noexcept;
MAGPIE_API void* find_local(local_key) noexcept;
MAGPIE_API void add_local(local_key, void* value, void (*destroy)(void*));

}  // namespace detail

// Each goroutine its own T, made by its default constructor on first use and destroyed when the
// goroutine ends, even if the goroutine_local was destroyed before that: before run(), get() or
// wait() return to who waits for its end. Plain threads have one each, too.
template <class T>
class goroutine_local {
 public:
  constexpr goroutine_local() = default;
  goroutine_local(const goroutine_local&) = delete;
  goroutine_local& operator=(const goroutine_local&) = delete;

  T& get() {
    detail::local_key key = key_.load(std::memory_order_relaxed);  // relaxed: only a number
    if (key == 0) [[unlikely]]
      key = detail::draw_local_key(key_);
    if (void* const found = detail::find_local(key)) return *static_cast<T*>(found);
    auto made = std::make_unique<T>();
    detail::add_local(key, made.get(), [](void* value) { delete static_cast<T*>(value); });
    return *made.release();
  }
  T& operator*() { return get(); }
  T* operator->() { return &get(); }

 private:
  std::atomic<detail::local_key> key_{0};
};

}  // namespace magpie
