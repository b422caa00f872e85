#include "time/channel_timer.h"

#include "sched/defaults.h"

namespace magpie::rt {

channel_timer::channel_timer(mode m)
    : timed(on_fire, on_call),
      channel_(make_timer_channel(detail::element_type_of<time_point>, end, this)),
      mode_(m) {}

channel_timer& channel_timer::start(duration d, mode m) {
  auto* const self = new channel_timer(m);
  self->reset(d);
  return *self;
}

bool channel_timer::stop() {
  const entry inside;
  const object_guard held(channel_->lock);
  return discard_locked();
}

bool channel_timer::reset(duration d) {
  const os::nanos at = deadline_after(d);
  const entry inside;
  const destination to = find_destination(nullptr, inside.m());
  const object_guard held(channel_->lock);
  const bool prevented = discard_locked();
  period_ = mode_ == mode::periodic ? d.count() : 0;
  set(to.home, to.m, at);
  return prevented;
}

// True: there was something to discard, in the heap, aloft or in the channel.
bool channel_timer::discard_locked() {
  const bool was_set = unset();
  const bool aloft = is_aloft() && aloft_.sequence == sequence_;
  const renumbered fresh = renumber_locked(*channel_);
  sequence_ = fresh.sequence;
  return was_set || aloft || fresh.discarded;
}

detail::channel_handle channel_timer::channel() {
  detail::retain_channel(channel_);
  return detail::channel_handle(channel_);
}

void channel_timer::drop() noexcept { detail::release_channel(channel_); }

// The last handle is gone.
void channel_timer::end(channel_core* c, void* raw) {
  auto* const self = static_cast<channel_timer*>(raw);
  {
    const entry inside;
    self->unset();
  }
  self->wait_until_landed();
  destroy_channel(c);
  delete self;
}

os::nanos channel_timer::on_fire(timer& t, os::nanos now, harvest& out) {
  auto& self = static_cast<channel_timer&>(t);
  if (!self.may_take_off()) return now + k_soon;
  self.aloft_ = {self.due, self.sequence_};
  self.take_off(out);
  return self.period_ == 0 ? 0 : self.due = self.following(now);
}

// The first tick that is still to come: those that were missed are left out.
os::nanos channel_timer::following(os::nanos now) const {
  const os::nanos last = now - (now - due) % period_;
  return period_ < os::k_never - last ? last + period_ : os::k_never;
}

// The receiver goes on, and may drop the last handle, only after the timer has landed.
void channel_timer::on_call(M* m, timed_call& call) {
  auto& self = static_cast<channel_timer&>(call);
  wake_list woken;
  {
    const object_guard held(self.channel_->lock);
    const time_point value{duration(self.aloft_.due)};
    post_locked(*self.channel_, &value, self.aloft_.sequence, woken);
    self.in_flight.store(flight::landing, relaxed);  // relaxed: is_aloft() is under the lock
  }
  self.land();
  woken.wake_all(m);
}

}  // namespace magpie::rt
