// How many goroutines of a group run, and who waits for fewer of them. Not for users; the logic is
// in src/sync/group_counter.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include <magpie/detail/waiting.h>
#include <magpie/export.h>

namespace magpie::detail {

class MAGPIE_API group_counter {
 public:
  static constexpr std::size_t k_no_limit = SIZE_MAX;

  // One more runs. Waits while as many as the limit allows do; those who wait are served in order.
  void begin();
  // False: it would have to wait.
  bool try_begin();
  // One has ended. The counter may be gone when it returns, if somebody is in wait().
  void end() noexcept;
  // Until none runs.
  void wait() noexcept;
  // At any time; those who run already go on.
  void set_limit(std::size_t limit);

 private:
  lock_word lock_;
  std::size_t running_ = 0;
  std::size_t limit_ = k_no_limit;
  wait_list beginners_;  // only while as many run as may
  wait_list waiting_;
};

}  // namespace magpie::detail
