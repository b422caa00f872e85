// timer.cpp: the public timers.

#include <magpie/time.h>

#include "time/channel_timer.h"
#include "time/func_timer.h"

namespace magpie {
namespace {

using mode = rt::channel_timer::mode;

detail::timer_core& demand(const detail::timer_handle& handle, const char* complaint) {
  if (handle.core() == nullptr) throw misuse(complaint);
  return *handle.core();
}

duration positive(duration period, const char* complaint) {
  if (period <= duration::zero()) throw misuse(complaint);
  return period;
}

receiver<time_point> channel_of(const detail::timer_handle& handle) {
  return handle.core() != nullptr ? receiver<time_point>(handle.core()->channel())
                                  : receiver<time_point>();
}

}  // namespace

detail::timer_handle::~timer_handle() {
  if (core_ != nullptr) core_->drop();
}

timer detail::make_func_timer(duration d, std::unique_ptr<timed_function> f) {
  return timer(&rt::func_timer::start(d, std::move(f), __builtin_return_address(0)));
}

timer::timer(duration d) : handle_(&rt::channel_timer::start(d, mode::once)) {}

receiver<time_point> timer::channel() const { return channel_of(handle_); }
bool timer::stop() { return demand(handle_, "timer: stop of an empty timer").stop(); }
bool timer::reset(duration d) { return demand(handle_, "timer: reset of an empty timer").reset(d); }

ticker::ticker(duration period)
    : handle_(&rt::channel_timer::start(positive(period, "ticker: the period must be positive"),
                                        mode::periodic)) {}

receiver<time_point> ticker::channel() const { return channel_of(handle_); }

void ticker::stop() {
  if (handle_.core() != nullptr) handle_.core()->stop();
}

void ticker::reset(duration period) {
  detail::timer_core& core = demand(handle_, "ticker: reset of an empty ticker");
  core.reset(positive(period, "ticker: the period must be positive"));
}

receiver<time_point> after(duration d) {
  return receiver<time_point>(
      detail::channel_handle(rt::channel_timer::start(d, mode::once).core()));
}

}  // namespace magpie
