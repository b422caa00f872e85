// Calls that may block their thread, without taking a processor from the other goroutines.
#pragma once

#include <utility>

#include <magpie/export.h>

namespace magpie {

struct hand_off_now_t {};
inline constexpr hand_off_now_t hand_off_now;

namespace detail {

// From here to the end of the scope the thread may block. On a plain thread: nothing.
class MAGPIE_API blocking_scope {
 public:
  blocking_scope();
  explicit blocking_scope(hand_off_now_t);
  ~blocking_scope();  // keeps errno
  blocking_scope(const blocking_scope&) = delete;
  blocking_scope& operator=(const blocking_scope&) = delete;

 private:
  void* m_;
};

}  // namespace detail

// Calls f, which may block in the kernel or in a foreign library. Other goroutines go on: when
// the call takes longer than some microseconds and somebody needs it, the P is taken away, and
// the goroutine waits for another one afterwards if it must. Returns what f returns; errno is as
// f left it. Inside, the runtime can be used as from a plain thread. Nests.
template <class F>
decltype(auto) blocking(F&& f) {
  const detail::blocking_scope scope;
  return std::forward<F>(f)();
}

// The same for calls known to be long: the P goes to others at once.
template <class F>
decltype(auto) blocking(hand_off_now_t now, F&& f) {
  const detail::blocking_scope scope(now);
  return std::forward<F>(f)();
}

}  // namespace magpie
