// sysmon.cpp: the monitor, a thread without a P that looks after what nobody else can.
//
//   - An M in a blocking call still has its P beside it. When the call takes long and somebody
//     could use the P, the monitor takes it away and hands it on.
//   - A goroutine that has run for a whole time slice while others wait is asked to yield, and a
//     thread that sleeps in user code loses its P (runners.cpp).
//   - Descriptors may be ready while every P is busy with long turns: it asks the poller.
//   - A timer is overdue while every P is busy: it is fired from here.
//   - The number of CPUs the process may use changes; the number of Ps follows.
//
// It is driven by events: while no goroutine is in a blocking call it looks once per time slice,
// and when every P is idle it sleeps until somebody wakes it. An idle process uses no CPU.

#include <algorithm>

#include "os/fence.h"
#include "sched/debug_settings.h"
#include "sched/scheduler.h"
#include "sched/tracing.h"

namespace magpie::rt {
namespace {

// How long a call must have lasted before its P is taken. Doubled while nothing happens.
constexpr os::nanos k_shortest_watch = 20'000;
constexpr os::nanos k_longest_watch = 1'000'000;
// A P that nobody needs is left alone for so long: its M may come back any moment.
constexpr os::nanos k_unwanted_call = 10'000'000;
// So many looks without any call before the monitor stops looking for them.
constexpr int k_quiet_looks = 64;
// So many looks without anybody who waits before the monitor takes a nap, which those who wait end.
constexpr int k_calm_looks = 10;
constexpr os::nanos k_cpu_check = 1'000'000'000;

}  // namespace

void scheduler::wake_monitor() {
  // release pairs with the acquire in monitor_main: a new value ends its sleep.
  monitor_word_.fetch_add(1, release);
  os::futex_wake(&monitor_word_, 1);
}

[[gnu::noinline]] void scheduler::poke_monitor_slow() {
  if (monitor_naps_.exchange(false, relaxed)) wake_monitor();  // relaxed: picks who wakes it
}

void scheduler::monitor_main(void* raw) {
  auto& self = *static_cast<scheduler*>(raw);
  os::nanos watch = k_shortest_watch;
  os::nanos next_cpu_check = os::now() + k_cpu_check;
  os::nanos next_trace = debugging().schedtrace != 0 ? os::now() : os::k_never;
  int quiet = k_quiet_looks;
  int calm = k_calm_looks;
  for (;;) {
    const std::uint32_t seen = self.monitor_word_.load(acquire);  // pairs with wake_monitor()
    if (self.monitor_ends_.load(acquire)) return;                 // pairs with shut_down()
    const os::nanos now = os::now();
    self.note_time(now);
    const calls_seen calls = self.look_at_calls(now);
    const runners_seen runners = self.look_at_runners(now);
    const os::nanos next_timer = self.look_at_timers(now);
    const os::nanos next_poll = self.look_at_descriptors(now);
    if (debugging().schedtrace != 0 && now >= next_trace) {
      self.print_trace_line(now);
      next_trace = now + debugging().schedtrace;
    }
    if (now >= next_cpu_check) {
      self.follow_cpus();
      next_cpu_check = now + k_cpu_check;
    }
    if (calls != calls_seen::none) {
      quiet = 0;
      // Where one was long the next may be, too.
      watch =
          calls == calls_seen::long_one ? k_shortest_watch : std::min(watch * 2, k_longest_watch);
    } else {
      watch = k_shortest_watch;
      if (quiet < k_quiet_looks) ++quiet;
    }
    const bool watches = quiet < k_quiet_looks;
    // relaxed: only the monitor writes it, and the fence below orders it.
    const bool stops_watching = !watches && self.monitor_watches_.load(relaxed);
    self.monitor_watches_.store(watches, relaxed);  // as above
    if (stops_watching) {
      // Who enters a call now sees that nobody watches, or is seen by this look.
      os::heavy_fence();
      if (self.look_at_calls(now) != calls_seen::none) {
        quiet = 0;
        continue;
      }
    }
    os::nanos until = std::min({next_trace, next_timer, next_poll});
    if (watches) {
      until = std::min(until, now + watch);
    }
    if (runners.view != runner_view::idle || !self.rest_while_all_are_idle()) {
      until = std::min(until, runners.next);
      calm = runners.view == runner_view::somebody_waits ? 0 : calm + 1;
      if (calm < k_calm_looks) until = std::min(until, now + k_longest_watch);
    }
    if (self.follows_cpus_.load(relaxed)) until = std::min(until, next_cpu_check);  // a setting
    // Who adds a timer now sees until when the monitor sleeps, or is seen by this look. Not for a
    // sleep that is short anyway: the fence interrupts everybody.
    self.monitor_until_.store(until, relaxed);  // relaxed: the fence orders it
    if (until - now > k_longest_timer_look) {
      // As with timers for those who find all Ps in use: see wake_p().
      self.monitor_naps_.store(true, relaxed);  // relaxed: the fence orders it
      os::heavy_fence();
      if (self.next_overdue_timer() < until) continue;
      if (runners.view == runner_view::busy && self.work_is_visible()) continue;
    }
    os::futex_wait(self.monitor_word_, seen, until);
    self.monitor_naps_.store(false, relaxed);  // relaxed: a poke too many is only that
  }
}

// From now on whoever takes a P wakes the monitor. False: somebody has one.
bool scheduler::rest_while_all_are_idle() {
  const os::lock_guard hold(lock_);
  monitor_rests_ = idle_ps_.size() == static_cast<std::size_t>(procs());
  return monitor_rests_;
}

// Is there somebody who could use a P that waits beside a thread in a call?
bool scheduler::is_wanted_locked(const P& p, os::nanos in_call_for) const {
  if (somebody_waits_for(p)) return true;
  // relaxed: counts only. Nobody spins and no P is spare: new work would find nobody.
  if (idle_count_.load(relaxed) + spinning_.load(relaxed) == 0) return true;
  return in_call_for >= k_unwanted_call;
}

scheduler::calls_seen scheduler::look_at_calls(os::nanos now) {
  calls_seen seen = calls_seen::none;
  const int count = ps_made_.load(acquire);  // pairs with the release in set_procs()
  for (int i = 0; i < count; ++i) {
    P* const p = ps_[i];
    P* taken = nullptr;
    {
      // An M does not end while its P points to it and the lock is held.
      const os::lock_guard hold(lock_);
      M* const m = p->m.load(acquire);  // pairs with acquire_p()
      if (m == nullptr) continue;
      P* beside = m->call_p.load(acquire);  // pairs with enter_syscall()
      if (beside != p) continue;
      if (seen == calls_seen::none) seen = calls_seen::some;
      const std::uint64_t call = m->calls.load(relaxed);  // relaxed: a number to compare
      if (p->watched.calls != call) {
        p->watched.calls = call;
        p->watched.call_since = now;
        continue;
      }
      if (!is_wanted_locked(*p, now - p->watched.call_since)) continue;
      // acquire: the P is ours with all its M did; release: its M sees that it is gone.
      if (!m->call_p.compare_exchange_strong(beside, nullptr, acq_rel, relaxed)) continue;
      trace_lost_p_in_call(*m, *p);
      p->m.store(nullptr, release);  // pairs with acquire loads of the monitor
      call_history_.was_long(m->call_site.load(relaxed));  // relaxed: a guess
      ++retakes_;
      taken = p;
    }
    hand_off_p(taken);
    seen = calls_seen::long_one;
  }
  return seen;
}

void scheduler::follow_cpus() {
  if (!follows_cpus_.load(relaxed)) return;  // relaxed: a setting
  const int usable = os::usable_cpus(quota_files_);
  if (usable != procs()) resize(usable, resize_cause::cpus);
}

}  // namespace magpie::rt
