// after_func(): a timer without a channel that starts a goroutine.
//
// It is shared by the user's handle, by the heap while it is pending (then by the one aloft, then
// by the goroutine), and so lives as long as something can come of it.
#pragma once

#include <memory>

#include "time/alarm.h"
#include "time/timer_core.h"

namespace magpie::rt {

class func_timer final : public detail::timer_core, private alarm {
 public:
  static func_timer& start(duration, std::unique_ptr<detail::timed_function>, const void* site);

  bool stop() override;
  bool reset(duration) override;
  detail::channel_handle channel() override { return {}; }
  void drop() noexcept override;

 private:
  func_timer(std::unique_ptr<detail::timed_function>, const void* site);
  ~func_timer() = default;

  static void run(void* closure);
  static void on_end_of_runtime(timer&);
  static const task_type k_task;

  const std::unique_ptr<detail::timed_function> function_;
  detail::lock_word lock_;
  atomic<std::uint32_t> shares_{1};
};

}  // namespace magpie::rt
