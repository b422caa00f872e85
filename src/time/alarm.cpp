#include "time/alarm.h"

#include <cstring>

#include "sched/defaults.h"

namespace magpie::rt {

alarm& alarm::from_closure(void* closure) {
  alarm* self;
  std::memcpy(&self, closure, sizeof self);
  return *self;
}

void alarm::start(time_point at) {
  const entry inside;
  const destination to = find_destination(nullptr, inside.m());
  set(to.home, to.m, to_nanos(at));
}

bool alarm::stop() {
  if (home == nullptr) return false;  // never started
  const entry inside;
  return unset();
}

// The goroutine counts from here on: a runtime that is about to end would otherwise not see it.
os::nanos alarm::on_fire(timer& t, os::nanos now, harvest& out) {
  auto& self = static_cast<alarm&>(t);
  if (!self.may_take_off()) return now + k_soon;
  self.where_ = self.home;
  self.where_->announce_spawn();
  self.take_off(out);
  return 0;
}

void alarm::on_call(M* m, timed_call& due) {
  auto& self = static_cast<alarm&>(due);
  scheduler& where = *self.where_;
  if (!self.claim(self)) {
    self.land();
    return where.withdraw_spawn();
  }
  G* const g = where.new_g(m);
  store_for_lookers(g->spawn_site, self.site);
  g->size_class = where.default_class();
  g->task = &self.task;
  alarm* const closure = &self;
  std::memcpy(g->closure, &closure, sizeof closure);
  self.land();
  where.spawn_announced(m, g);
}

}  // namespace magpie::rt
