// Timers and tickers with a channel.
//
// The timer belongs to its channel: it lives as long as a handle of that, of which the timer's own
// handle has one. The channel's lock guards both, so that stop() and reset() decide in one step
// about the heap, about a value that is aloft and about one that nobody has received yet: they
// draw a new number, and what comes with an old one is dropped.
#pragma once

#include "chan/chan.h"
#include "time/timed.h"
#include "time/timer_core.h"

namespace magpie::rt {

class channel_timer final : public detail::timer_core, private timed {
 public:
  enum class mode {
    once,
    periodic,
  };

  // Set; with one reference to the channel, which is the caller's.
  static channel_timer& start(duration, mode);

  bool stop() override;
  bool reset(duration) override;
  detail::channel_handle channel() override;
  void drop() noexcept override;

  channel_core* core() const { return channel_; }

 private:
  explicit channel_timer(mode);
  ~channel_timer() = default;

  bool discard_locked();
  os::nanos following(os::nanos now) const;

  static os::nanos on_fire(timer&, os::nanos now, harvest&);
  static void on_call(M*, timed_call&);
  static void end(channel_core*, void* self);

  channel_core* const channel_;
  const mode mode_;
  os::nanos period_ = 0;        // 0: fires once
  std::uint64_t sequence_ = 0;  // the number of the present setting

  struct {
    os::nanos due;
    std::uint64_t sequence;
  } aloft_{};
};

}  // namespace magpie::rt
