// timers.cpp: who looks after the timers, and when.
//
// Comes from: block_until() in waiting.cpp, and the timers of the public API.
// Goes to:    the run queue of whoever finds that the time has come.
//
// Every P has a heap, and a new timer goes into that of the P it is set on. Four look:
//
//   - the M that holds the P, at every turn;
//   - whoever spins, at all heaps;
//   - the timekeeper: of the Ms that sleep while a P is idle, the one that sleeps only until the
//     earliest timer of all;
//   - the monitor, when every P is in use and a timer is overdue all the same.
//
// Why no timer is forgotten: the race is that of idle.cpp, with a heap for a queue. Whoever adds a
// timer publishes it, then looks for idle Ps, spinners and the timekeeper; whoever falls asleep
// gives its P up, then looks at all heaps; with fences in between, one sees the other. A
// timekeeper that is woken for something else becomes a spinner, or wakes one.

#include "sched/timers.h"

#include <algorithm>
#include <utility>

#include "os/fence.h"
#include "sched/scheduler.h"

namespace magpie::rt {

// The caller's P, or the first one: from outside, any will do.
bool scheduler::add_timer(M* m, timer& t, timer_heap::agreement agree, void* argument) {
  P& p = m != nullptr ? *m->p : *ps_[0];
  const os::nanos when = t.when;
  const timer_heap::addition outcome = p.timers.add(t, agree, argument);
  if (outcome != timer_heap::addition::earliest) return outcome != timer_heap::addition::refused;
  // On its own stack the M is about to look for work, and most likely for time, itself.
  if (m != nullptr && m->current == nullptr) {
    m->unannounced_timer = std::min(m->unannounced_timer, when);
  } else {
    announce_timer(when);
  }
  return true;
}

// By an M that goes on with other things than to look for work.
void scheduler::announce_own_timer(M& m) {
  if (m.unannounced_timer == os::k_never) return;
  announce_timer(std::exchange(m.unannounced_timer, os::k_never));
}

// A timer became the earliest of its heap, and the M that holds the P has other things to do.
void scheduler::announce_timer(os::nanos when) {
  if (when == os::k_never) return;
  os::light_fence();  // [fence], after the heap's [publish]
  // relaxed: ordered by the fence. [look]
  if (idle_count_.load(relaxed) == 0) {
    if (when < monitor_until_.load(relaxed) - timer_slack_.load(relaxed)) wake_monitor();
    return;
  }
  // relaxed: as above.
  if (spinning_.load(relaxed) == 0 && when < watched_until_.load(relaxed)) wake_one();
}

os::nanos scheduler::earliest_timer() const {
  os::nanos earliest = os::k_never;
  const int count = ps_made_.load(acquire);  // pairs with the release in set_procs()
  for (int i = 0; i < count; ++i) earliest = std::min(earliest, ps_[i]->timers.next());
  return earliest;
}

// A timer that is not in its heap any more, because its time has come, is not forgotten: whoever
// took it out is counted in firing_ since before that.
bool scheduler::timers_may_wake() const {
  const int count = ps_made_.load(acquire);  // pairs with the release in set_procs()
  for (int i = 0; i < count; ++i) {
    if (ps_[i]->timers.pending() != 0) return true;
  }
  return firing_.load(acquire) != 0;  // pairs with the release in run_timers()
}

namespace {

// Where so many wait for their turn, one whose time has come would wait for longer than this. So it
// may as well come together with those that are due next: what each needs, which is in nobody's
// cache, is then fetched while the others are seen to.
constexpr std::uint32_t k_crowd = 32;
constexpr os::nanos k_crowd_slack = 20'000;

}  // namespace

// Reading the clock at every turn would cost more than the turn. The tick counter tells when it
// is worth it; it may be off by a little, so it is set to be early and set again.
bool scheduler::timer_has_come(P& p, os::nanos next) {
  const std::uint64_t ticks = os::ticks();
  if (next == p.timer_watch.next && ticks < p.timer_watch.look_at) return false;
  const os::nanos now = os::now();
  const os::nanos due = p.queue.ring_length() >= k_crowd ? next + k_crowd_slack : next;
  if (due <= now) return true;
  constexpr os::nanos k_longest = 100'000'000;
  const auto wait = static_cast<std::uint64_t>(std::min(due - now, k_longest));
  const std::uint64_t early = wait - wait / 1024;
  p.timer_watch = {next, ticks + early * (os::ticks_per_second() / 1'000'000) / 1'000};
  return false;
}

// Those who wake up are in the caller's run queue afterwards; without an M, in the global queue.
bool scheduler::run_timers(M* m, P& p, os::nanos now) {
  firing_.fetch_add(1, relaxed);  // relaxed: published by the heap, see timers_may_wake()
  harvest ripe;
  const std::size_t fired = p.timers.run_expired(now, ripe);
  timer_fires_.fetch_add(fired, relaxed);  // relaxed: a statistic
  // Calls first: one who is woken finds what happened before its time.
  while (timed_call* const due = ripe.calls.pop_front()) due->call(m, *due);
  ripe.woken.wake_all(m);
  firing_.fetch_sub(1, release);  // pairs with timers_may_wake(): all of them are woken
  return fired != 0;
}

void scheduler::run_own_timers(M& m) {
  if (timer_is_due(*m.p)) run_timers(&m, *m.p, os::now());
}

bool scheduler::run_timers_of_all(M* m, os::nanos slack) {
  const os::nanos earliest = earliest_timer();
  if (earliest == os::k_never) return false;
  const os::nanos now = os::now();
  if (earliest > now - slack) return false;
  bool any = false;
  const int count = ps_made_.load(acquire);  // pairs with the release in set_procs()
  for (int i = 0; i < count; ++i) {
    if (ps_[i]->timers.next() <= now) any |= run_timers(m, *ps_[i], now);
  }
  return any;
}

// For an M that is about to sleep: until when, if it is the one to watch the timers. Not while
// every P is held: their Ms look themselves, and again before they give one up.
os::nanos scheduler::become_timekeeper(M& m) {
  const os::nanos next = earliest_timer();
  if (next == os::k_never) return next;
  const os::lock_guard hold(lock_);
  if (!idle_ms_.contains(&m) || idle_ps_.empty()) return os::k_never;
  if (next >= watched_until_.load(relaxed)) return os::k_never;  // relaxed: under the lock
  timekeeper_ = &m;
  watched_until_.store(next, relaxed);  // relaxed: who misses it wakes somebody in vain
  return next;
}

// True: it was the one.
bool scheduler::resign_as_timekeeper(M& m) {
  const os::lock_guard hold(lock_);
  if (timekeeper_ != &m) return false;
  timekeeper_ = nullptr;
  // relaxed: who still sees the old time leaves its timer to this M, which spins or wakes another.
  watched_until_.store(os::k_never, relaxed);
  return true;
}

// For the end of the runtime: nothing fires from now on.
void scheduler::pause_timers() {
  for (int i = 0; i < ps_made_.load(acquire); ++i) {  // pairs with the release in set_procs()
    ps_[i]->timers.pause();
  }
}

// It does not end after all.
void scheduler::resume_timers() {
  for (int i = 0; i < ps_made_.load(acquire); ++i) {  // as above
    ps_[i]->timers.resume();
  }
  announce_timer(earliest_timer());
}

// When the monitor has to see to a timer, if nobody else does.
os::nanos scheduler::next_overdue_timer() const {
  if (idle_count_.load(relaxed) != 0) return os::k_never;  // relaxed: as in announce_timer()
  const os::nanos next = earliest_timer();
  const os::nanos slack = timer_slack_.load(relaxed);  // relaxed: the monitor's own
  return next < os::k_never - slack ? next + slack : os::k_never;
}

// The monitor's look, when nobody sleeps with a P to spare. Returns when to look again: later each
// time there was nothing to do, for then the Ps see to their timers themselves.
os::nanos scheduler::look_at_timers(os::nanos now) {
  const os::nanos due = next_overdue_timer();
  if (due == os::k_never) return due;
  const os::nanos slack = timer_slack_.load(relaxed);  // relaxed: the monitor's own
  if (due <= now && fire_overdue_timers(now, slack)) {
    timer_look_interval_ = slack;
  } else if (due <= now) {
    timer_look_interval_ = std::min(2 * timer_look_interval_, k_longest_timer_look);
  }
  return std::max(next_overdue_timer(), now + timer_look_interval_);
}

// Nobody had a turn since they were due, so those they wake would wait for long, too.
bool scheduler::fire_overdue_timers(os::nanos now, os::nanos slack) {
  {
    const urgent_wakes first;
    if (!run_timers_of_all(nullptr, slack)) return false;
  }
  urge(now);
  return true;
}

}  // namespace magpie::rt
