// schedule.cpp: who runs next.
//
// Comes from: every stop of a goroutine (park, yield, finish) and every waking M.
// Goes to:    the goroutine found, or to sleep_until_work() in idle.cpp.

#include <utility>

#include "os/clock.h"
#include "sched/arena.h"
#include "sched/idle.h"
#include "sched/turn.h"

namespace magpie::rt {
namespace {

// Goroutines that ready each other through run_next share one time slice. Their turns do not
// count, as in Go: by turns, those with short ones would get less than those with long ones. But
// when they have had a whole slice between them, the global queue and the ring go before
// run_next. The monitor ends such a chain as well, if there is one.
bool chain_is_over(P& p, os::nanos time_slice) {
  const std::uint64_t now = os::ticks();
  if (p.chain.slices != p.slices.read()) {
    p.chain.slices = p.slices.read();
    p.chain.since = now;
    return false;
  }
  return os::ticks_to_nanos(now - p.chain.since) >= time_slice;
}

// Who yields wants others to go first, but goes to the end of its own P's queue, which costs less
// than Go's way through the global queue. There a few that yield again and again, perhaps until
// somebody in the global queue has done his work, would have all turns but one in 61. When all of
// them have had one, it is the turn of the others.
bool only_yielders_had_turns(const P& p) {
  static_assert(k_fairness_turn + run_queue::k_half <= run_queue::k_size, "a share must fit");
  return p.queue.ring_length() < k_fairness_turn &&
         p.counters.yields.read() - p.yields_at_last_look >= k_fairness_turn / 2;
}

}  // namespace

void scheduler::run_loop(M& m) {
  for (;;) {
    const run_queue::popped found = find_runnable(m);
    if (found.g == nullptr) return;
    if (found.g->locked) {
      hand_p_to_locked(m, found.g);
      continue;
    }
    if (m.spinning) stop_spinning(m);
    announce_own_timer(m);
    begin_turn(m, found.g, found.inherits_slice);
    if (!run(m, found.g)) return;
  }
}

// On the M's own stack: runs `g`, and whoever takes over from it directly, until one stops with
// nobody at hand to follow. False: the thread has to end.
bool scheduler::run(M& m, G* g) {
  for (;;) {
    m.current = g;
    switch_to(m.own, g->fiber, &m);
    m.trace.moment_passed();
    finish_switch(m);
    if (m.ends_with_goroutine) return false;
    if (m.stopped_locked == nullptr) return true;
    // The goroutine that stopped is locked to this thread: nobody else runs here.
    g = std::exchange(m.stopped_locked, nullptr);
    wait_for_locked_turn(m);
    begin_turn(m, g, false);
  }
}

run_queue::popped scheduler::find_runnable(M& m) {
  if (m.found.g != nullptr) return std::exchange(m.found, {});
  for (;;) {
    while (m.p == nullptr || m.p->retired.load(relaxed)) {  // relaxed: a later turn will do
      if (m.p != nullptr) retire_p(m);
      if (!sleep_until_work(m)) return {};
    }
    run_own_timers(m);
    if (auto found = from_global_queue_when_urged(m); found.g) return found;
    if (stopped_is_due(*m.p) && resume_stopped(m)) continue;
    if (is_fairness_turn(*m.p)) ask_poller_under_load(m);
    if (auto found = from_global_queue_for_fairness(m); found.g) return found;
    if (auto found = from_local_queue(m); found.g) return found;
    if (auto found = from_global_queue_after_loot(m); found.g) return found;
    if (resume_stopped(m)) continue;
    if (auto found = from_poller(m); found.g) return found;
    if (auto found = while_spinning(m); found.g) return found;
    if (!sleep_until_work(m)) return {};
  }
}

// Somebody was stopped for one who waits there.
run_queue::popped scheduler::from_global_queue_when_urged(M& m) {
  // relaxed: a hint; whoever sets it has put the goroutine there before, under the lock.
  if (!m.p->urged.load(relaxed)) return {};
  m.p->urged.store(false, relaxed);  // as above
  const os::lock_guard hold(lock_);
  G* const g = global_.pop_urgent();
  // It went before the others: theirs are still to come, before those of the stopped.
  if (g != nullptr) m.p->stopped.others_turns.add(~std::uint64_t{0});
  return {g, false};
}

run_queue::popped scheduler::from_global_queue_for_fairness(M& m) {
  if (!is_fairness_turn(*m.p)) return {};
  P& p = *m.p;
  const bool over = chain_is_over(p, settings.time_slice.count());
  if (over) p.stopped.others_turns.add();
  // Most of the turns since the last time were of one chain: it goes on.
  if (!over && p.slices.read() - p.chain.slices_at_last_look < k_fairness_turn / 2) return {};
  const bool take_share = only_yielders_had_turns(p);
  p.chain.slices_at_last_look = p.slices.read();
  p.yields_at_last_look = p.counters.yields.read();
  if (global_.length() != 0) {
    if (take_share) return from_global_queue(m, run_queue::k_half);
    const os::lock_guard hold(lock_);
    if (G* const g = global_.pop()) return {g, false};
  }
  return {over ? p.queue.pop_ring() : nullptr, false};
}

run_queue::popped scheduler::from_local_queue(M& m) { return m.p->queue.pop(); }

// The P's queue is empty. If that was loot, and not worth it, neither is this: see steal.cpp.
run_queue::popped scheduler::from_global_queue_after_loot(M& m) {
  if (m.p->loot.count == 0) return from_global_queue(m, run_queue::k_half);
  judge_loot(*m.p);
  return from_global_queue(m, appetite(*m.p));
}

// A fair share of it, at most `most`, which is at most half of what fits into the P's queue: that
// is empty or short here.
//
// They may have waited for long: nothing of them is in the cache. What each begins with is fetched
// while the others are looked at, and while the others run: see fetch_cold_ahead(). Not under the
// lock, which those who make more of them runnable would wait for. Until they are in the P's queue
// nobody can see them: a thread that looked for work meanwhile has gone to sleep, so one is woken,
// unless this one does that when it stops spinning.
run_queue::popped scheduler::from_global_queue(M& m, std::size_t most) {
  if (global_.length() == 0 || most == 0) return {};
  G* batch[run_queue::k_half];
  std::size_t count;
  {
    const os::lock_guard hold(lock_);
    count = global_.pop_batch(static_cast<std::size_t>(procs()), most, batch);
  }
  if (count == 0) return {};
  for (std::size_t i = 0; i < count; ++i) {
    __builtin_prefetch(&batch[i]->fiber, 1);
    __builtin_prefetch(&wait_room_of(*batch[i]).bytes[k_cache_line]);  // how the wait ended
  }
  auto& cold = m.p->cold;
  cold.next = cold.count = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const G& g = *batch[i];
    if (i < k_turns_ahead || g.fiber.stack == nullptr) {
      fetch_frames(g);
    } else {
      __builtin_prefetch(g.fiber.stack, 1);
      cold.at[cold.count++] = g.fiber.registers.stack_pointer;
    }
  }
  m.p->queue.push_all(batch + 1, count - 1);
  if (m.spinning) {
    begin_loot(m, count, nullptr);
  } else if (count > 1) {
    wake_p();
  }
  return {batch[0], false};
}

// See pop_local().
[[gnu::noinline]] G* scheduler::pop_newest_child(M& m) {
  m.prefers_newest = false;
  return m.p->queue.take_newest_if([](const G& g) { return g.is_fresh_child(); });
}

}  // namespace magpie::rt
