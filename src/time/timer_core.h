// What a handle of a timer or ticker leads to.
#pragma once

#include <magpie/time.h>

namespace magpie::detail {

struct timer_core {
  virtual bool stop() = 0;
  // A ticker's next tick comes after `d`, and so do all later ones.
  virtual bool reset(duration d) = 0;
  virtual channel_handle channel() = 0;
  virtual void drop() noexcept = 0;  // the handle is gone

 protected:
  ~timer_core() = default;
};

}  // namespace magpie::detail
