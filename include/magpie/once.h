// Something that is done once, by whoever comes first, while the others wait for it.
//
//   magpie::once loaded;
//   loaded.call([] { load(); });
//
// Nobody returns from call() before f has returned. If f throws, or ends its goroutine by
// this_goroutine::exit(), it does not count: that caller sees the exception, and the next one
// calls its own f. A call() from inside f waits for itself, for ever. It may be destroyed as soon
// as call() has returned, although others are still on their way out of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include <magpie/detail/waiting.h>
#include <magpie/export.h>

namespace magpie {

class MAGPIE_API once {
 public:
  constexpr once() noexcept = default;
  once(const once&) = delete;
  once& operator=(const once&) = delete;

  template <class F>
  void call(F&& f) {
    if (done() || !begin()) return;
    attempt mine{*this};
    std::forward<F>(f)();
    mine.succeeded = true;
  }

  // Whether f has returned; what it did is visible then.
  bool done() const noexcept {
    return state_.load(std::memory_order_acquire) == k_done;  // pairs with end()
  }

 private:
  static constexpr std::uint32_t k_done = 4;

  struct attempt {
    once& of;
    bool succeeded = false;
    ~attempt() { of.end(succeeded); }
  };

  bool begin();  // true: the caller is the one who does it
  void end(bool succeeded) noexcept;

  std::atomic<std::uint32_t> state_{0};
  detail::lock_word lock_;
  detail::wait_list waiting_;
};

}  // namespace magpie
