// runners.cpp: the monitor's look at those who run user code: who has had its time, and who does
// not run at all, but sleeps in the kernel.
//
// Comes from: the monitor's loop (sysmon.cpp).
// Goes to:    take_from_sleeper() for a thread that sleeps, stop_runner() for one whose time is
//             over.
//
// A thread that blocks in code which never heard of magpie (a plain read, a lock of the C library,
// a page fault) cannot tell, so it is found out. Its P has started nothing since the last look; the
// CPU time of its thread has not moved since then either, so that it slept, or had no processor;
// and the kernel says that it sleeps. Each look costs more than the one before, and each is asked
// for only when the one before has said yes, and most only while there is work for the P.
//
// No signal is sent to find out, and none to take the P: what the thread waits in goes on as if
// nothing had happened, and returns what it would have returned.

#include <algorithm>

#include "os/thread_view.h"
#include "sched/scheduler.h"

namespace magpie::rt {
namespace {

// How long a thread must have slept before its P is taken, while others could use it.
constexpr os::nanos k_short_sleep = 450'000;
// Between two looks while there is work that waits: when somebody may have fallen asleep, and else.
constexpr os::nanos k_soon = 500'000;
constexpr os::nanos k_later = 1'000'000;
// While there is none, a P is taken from a sleeper after so long, if no other is spare: what comes
// up then finds it.
constexpr os::nanos k_long_sleep = 10'000'000;

}  // namespace

bool scheduler::work_is_visible() const {
  const int count = ps_made_.load(acquire);  // pairs with the release in set_procs()
  for (int i = 0; i < count; ++i) {
    if (somebody_waits_for(*ps_[i])) return true;
  }
  return false;
}

// Since when the thread sleeps, as far as its CPU time tells; 0: it does not.
os::nanos scheduler::asleep_since_locked(P& p, const M& m, os::nanos now) {
  auto& seen = p.watched;
  const bool moved_on = seen.m != &m || seen.turns != p.turns.read();
  const os::nanos last_look = seen.looked_at;
  seen.m = &m;
  seen.turns = p.turns.read();
  seen.looked_at = now;
  // relaxed: a hint. Inside the gate it does not sleep for long.
  if (m.depth.load(relaxed) != 0) {
    seen.cpu_time = -1;
    return seen.asleep_since = 0;
  }
  const os::nanos cpu_time = os::cpu_time_of(m.thread);
  const bool ran = cpu_time != seen.cpu_time || cpu_time < 0;
  seen.cpu_time = cpu_time;
  if (moved_on || ran) return seen.asleep_since = 0;
  if (seen.asleep_since == 0) seen.asleep_since = last_look;
  return seen.asleep_since;
}

bool scheduler::slice_is_over_locked(P& p, os::nanos now) const {
  auto& seen = p.watched;
  const std::uint64_t slices = p.slices.read();
  if (seen.slices != slices) {
    seen.slices = slices;
    // relaxed: hints, of one who went on with a slice it had begun before.
    seen.slice_since = p.dated.slices.load(relaxed) == slices ? p.dated.since.load(relaxed) : now;
  }
  return now - seen.slice_since >= settings.time_slice.count();
}

scheduler::runners_seen scheduler::look_at_runners(os::nanos now) {
  runners_seen seen;
  const bool work_waits = work_is_visible();
  bool all_stand_still = true;  // no turn since the last look: timers cannot hope for one
  const os::nanos sleep_limit = work_waits ? k_short_sleep : k_long_sleep;
  const int count = ps_made_.load(acquire);  // pairs with the release in set_procs()
  for (int i = 0; i < count; ++i) {
    P& p = *ps_[i];
    runner its;
    bool sleeps = false, is_to_stop = false;
    {
      // An M does not end while its P points to it and the lock is held.
      const os::lock_guard hold(lock_);
      M* const m = p.m.load(acquire);  // pairs with acquire_p()
      if (m == nullptr) continue;
      its = runner_locked(*m);
      if (seen.view == runner_view::idle) seen.view = runner_view::busy;
      if (m->call_p.load(relaxed) == &p) continue;  // relaxed: look_at_calls() sees to it
      all_stand_still &= p.watched.m == m && p.watched.turns == p.turns.read();
      const os::nanos asleep_since = asleep_since_locked(p, *m, now);
      if (asleep_since != 0) {
        // relaxed: counts only. Nobody spins and no P is spare: new work would find nobody.
        const bool none_spare = idle_count_.load(relaxed) + spinning_.load(relaxed) == 0;
        sleeps = now - asleep_since >= sleep_limit && (work_waits || none_spare);
        seen.next = std::min(seen.next, std::max(asleep_since + sleep_limit, now + k_soon));
      }
      const bool slice_is_over = slice_is_over_locked(p, now);
      // relaxed: a hint, looked at again by those who use it.
      if (somebody_waits_for(p) || p.retired.load(relaxed) || others_have_more_stopped(p)) {
        is_to_stop = slice_is_over;
        const os::nanos end = p.watched.slice_since + settings.time_slice.count();
        seen.next = std::min(seen.next, is_to_stop ? now + k_soon : end);
      }
    }
    if (sleeps && take_from_sleeper(p, its)) continue;
    if (is_to_stop) stop_runner(p, its, now, false);
  }
  look_at_orphans(now);
  // relaxed: a hint for those who set timers.
  timer_slack_.store(all_stand_still ? k_short_timer_slack : k_timer_slack, relaxed);
  if (work_waits) {
    seen.view = runner_view::somebody_waits;
    seen.next = std::min(seen.next, now + k_later);
  }
  seen.next = std::min<os::nanos>(seen.next, now + settings.time_slice.count());
  return seen;
}

}  // namespace magpie::rt
