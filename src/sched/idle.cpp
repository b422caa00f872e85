// idle.cpp: when Ms sleep and when they are woken.
//
// The tension. Enough threads must be awake to use every P while there is work, and none when
// there is not. Waking a thread costs five to fifty microseconds, running a goroutine fifty
// nanoseconds; so both to wake too often and to sleep too early are expensive, and to wake too
// late leaves a processor idle beside a full queue.
//
// What cannot be known: whether a goroutine made runnable here will run here in a moment (its
// maker is about to wait) or not for long (its maker computes on). And there is no central
// place that knows all queues.
//
// Rejected: a central list of work (every operation would contend for it); handing the new
// goroutine to a woken thread (it leaves the cache it is hot in); waking a thread for every new
// goroutine (most would find nothing).
//
// The rule. An M that has a P but no work is spinning: it looks at all queues, again and again,
// for about as long as a wake-up takes, before it gives its P up and sleeps. Whoever makes work
// visible wakes one M, as a spinner, only if some P is idle and nobody spins. A spinner that
// finds work stops spinning and wakes a successor by the same rule. So one wake-up leads to the
// next for as long as there is work to find, and to none when there is not.
//
// The race, and why no wake-up is lost. Both sides carry these labels in the code:
//
//   submit:  [publish] put g on a queue                            [fence]  [look] at idle_count_
//   sleep:   [leave]   idle_count_ += 1, spinning_ -= 1 if spinning [fence]  [recheck] all queues
//
// With full barriers between the two steps of each side, at least one sees the other: [look] sees
// the idle P, or [recheck] sees the goroutine. The sleeping side is rare and pays for both
// (os/fence.h). Every M that gives up a P rechecks, spinning or not, so it does not matter for
// what transient reason somebody did not spin or a wake-up found no P: whenever a P becomes idle,
// somebody looks at all queues after that.
//   If [look] sees somebody spinning, it leaves the work to that one: a spinner that gives up
// counts itself out before it rechecks. If that recheck finds work but no idle P, all Ps are
// held, and each of their Ms rechecks when it gives its P up.
//
// run_next. A goroutine in run_next is not stolen at once (steal.cpp), so an M woken for it alone
// would find nothing to take, go back to sleep, and be woken by the next: two goroutines that
// ready each other would keep a third of a processor busy with that. Instead an M that sees work
// in run_next slots only sleeps with one eye open: it is drowsy, and looks again after a fraction
// of a millisecond. While somebody is drowsy nobody is woken for a run_next; for work in a ring as
// always. Every sleep begins like that: that a run_next was empty for a moment means little.

#include <algorithm>
#include <utility>

#include "os/clock.h"
#include "os/fence.h"
#include "sched/debug_settings.h"
#include "sched/idle.h"
#include "sched/scheduler.h"
#include "sched/tracing.h"

namespace magpie::rt {
namespace {

// About what a sleeping thread takes to come back: measured 23 us for one on an idle processor.
constexpr std::uint64_t k_spins_per_second = 1'000'000'000 / 20'000;

// Often enough to be quicker than a wake-up; each look costs the looked-at P a cache miss.
constexpr std::uint64_t k_looks_per_second = 1'000'000'000 / 3'000;

// How long an M is drowsy: longer each time it has looked for work in vain.
constexpr os::nanos k_shortest_doze = 50'000;
constexpr int k_most_doublings = 4;

}  // namespace

// ---- The submitting side ----------------------------------------------------------------------

// At most one wake-up is under way at a time: the one who counts the spinner in.
void scheduler::wake_one() {
  int nobody = 0;
  // relaxed: the count only limits the number of spinners; [leave] is what must be ordered.
  if (!spinning_.compare_exchange_strong(nobody, 1, relaxed)) return;
  sleeper found;
  P* spare = nullptr;
  {
    const os::lock_guard hold(lock_);
    P* const p = take_idle_p_locked();
    if (p == nullptr) {
      // All Ps are held: whoever gives one up looks at all queues. relaxed: as above.
      spinning_.fetch_sub(1, relaxed);
      return;
    }
    found = pop_sleeper_locked();
    if (found.m == nullptr) return request_thread_locked(p, true);
    spare = p;
  }
  wake_sleeper(found, spare, true);
}

void scheduler::start_m(P* p, bool spinning) {
  sleeper found;
  {
    const os::lock_guard hold(lock_);
    found = pop_sleeper_locked();
    if (found.m == nullptr && !p->retired.load(relaxed)) {  // relaxed: written under the lock
      return request_thread_locked(p, spinning);
    }
    if (found.m == nullptr) {
      if (spinning) spinning_.fetch_sub(1, relaxed);  // relaxed: wake_p() brings the fence
      rest_retired_locked(p);
    }
  }
  if (found.m == nullptr) return wake_p();
  wake_sleeper(found, p, spinning);
}

scheduler::sleeper scheduler::pop_sleeper_locked() {
  M* const m = idle_ms_.pop_front();
  return {m, m != nullptr && watcher_ == m && watcher_in_poller_};
}

// The note last: after that the thread may be gone, and the runtime with it.
void scheduler::wake_sleeper(const sleeper& one, P* p, bool spinning) {
  one.m->handed_p = p;
  one.m->handed_spinning = spinning;
  if (one.watches) descriptors.interrupt();
  one.m->wake.wake();
}

// ---- Spinning ---------------------------------------------------------------------------------

// At most half of the busy Ps: the rest would only look for what the first ones find.
bool scheduler::may_spin() const {
  // relaxed: a limit, not a promise.
  return 2 * spinning_.load(relaxed) < procs() - idle_count_.load(relaxed);
}

void scheduler::become_spinning(M& m) {
  m.spinning = true;
  spinning_.fetch_add(1, relaxed);  // relaxed: see wake_one()
}

// It found something. If it was the last one who looked, somebody else should look on.
void scheduler::stop_spinning(M& m) {
  m.spinning = false;
  spinning_.fetch_sub(1, relaxed);  // relaxed: wake_p() brings the fence
  wake_p();
}

run_queue::popped scheduler::while_spinning(M& m) {
  if (!m.spinning) {
    if (!may_spin()) return {};
    become_spinning(m);
  }
  judge_loot(*m.p);
  int looks_held_back = 0;
  std::uint64_t now = os::ticks();
  std::uint64_t until = now + os::ticks_per_second() / k_spins_per_second;
  do {
    std::uint64_t pause = os::ticks_per_second() / k_looks_per_second;
    if (run_timers_of_all(&m, 0)) {
      if (auto found = from_local_queue(m); found.g) return found;
    }
    if (auto found = from_poller(m); found.g) return found;
    const std::size_t most = appetite(*m.p);
    if (most == 0) {
      rest_held_back(looks_held_back++);
      until = os::ticks() + pause + os::ticks_per_second() / k_spins_per_second;
    } else {
      looks_held_back = 0;
      if (G* const g = steal_work(m, most)) return {g, false};
      if (G* const g = steal_forgotten(m)) return {g, false};
      if (auto found = from_global_queue(m, most); found.g) return found;
      if (resume_stopped_elsewhere(m)) return {};
    }
    // Looking takes the queue's cache line from the P that works: not too often.
    for (const std::uint64_t from = os::ticks(); os::ticks() - from < pause;) cpu_relax();
    // What it finds at its first look has cost next to nothing.
    const std::uint64_t before = std::exchange(now, os::ticks());
    m.p->counters.searching.add(now - before);
  } while (now < until);
  return {};
}

// ---- The sleeping side ------------------------------------------------------------------------

namespace {

// One M's share in the count of the drowsy. relaxed throughout: whoever leaves a run_next to a
// drowsy M has published it before, and the M looks once more, with a heavy fence in between,
// after it has stopped being drowsy.
class drowsiness {
 public:
  explicit drowsiness(atomic<int>& count) : count_(count) { count_.fetch_add(1, relaxed); }
  ~drowsiness() { end(); }
  bool lasts() const { return lasts_; }
  void begin() {
    if (!std::exchange(lasts_, true)) count_.fetch_add(1, relaxed);  // relaxed: see above
  }
  void end() {
    if (std::exchange(lasts_, false)) count_.fetch_sub(1, relaxed);  // relaxed: see above
  }

 private:
  atomic<int>& count_;
  bool lasts_ = true;
};

}  // namespace

// Gives up the P, if the M has one, and sleeps until it is given another. False: the thread is
// not needed any more.
bool scheduler::sleep_until_work(M& m) {
  // Drowsy before the P is given up: else whoever uses run_next just now would wake this M before
  // it is asleep, again and again.
  drowsiness drowsy(drowsy_);
  if (!give_up_p(m)) return true;
  const os::nanos doze = k_shortest_doze << std::min(m.vain_searches++, k_most_doublings);
  os::nanos next_check = k_first_check;
  for (;;) {
    const visible_work seen = last_look();
    if (seen == visible_work::stealable && take_p_back(m)) return true;
    if (seen == visible_work::in_run_next_only) drowsy.begin();
    // All goroutines wait and this is the last thread that falls asleep: those who could wake one
    // from outside may fall asleep later, and then nobody else is left to notice.
    const bool last_one = seen == visible_work::none && check_deadlock();
    const os::nanos limit = drowsy.lasts() ? doze : last_one ? next_check : debugging().threadidle;
    const os::nanos timer = become_timekeeper(m);
    const watch watches = become_watcher(m);
    poll_batch events;
    os::nanos until = std::min(os::now() + limit, timer);
    if (watches.in_poller) {
      watch_until(until, events);
      until = 0;
    } else if (watches.assigned) {
      until = std::min(until, os::now() + watches.glance);
    }
    const bool handed = wait_for_p(m, until);
    const bool kept_time = timer != os::k_never && resign_as_timekeeper(m);
    if (watches.assigned) resign_as_watcher();
    if (handed) {
      deliver(m.p != nullptr ? &m : nullptr, events);
      // It was drowsy or a spinner when others decided to leave work to it, or watched the timers
      // or the descriptors, and now runs something else: another one must look.
      const bool relied_on =
          drowsy.lasts() || seen != visible_work::none || kept_time || watches.assigned;
      if (m.p != nullptr && !m.spinning && (relied_on || nobody_watches())) wake_p();
      return m.p != nullptr;  // null: the runtime ends
    }
    if (events.count != 0) {
      const bool took_p = take_p_back(m);
      deliver(took_p ? &m : nullptr, events);
      if (took_p) return true;
      continue;
    }
    if (timer <= os::now()) {
      if (take_p_back(m)) return true;
      continue;  // no P is idle any more, and those who hold them look
    }
    if (drowsy.lasts()) {
      drowsy.end();
      os::heavy_fence();
      // Whoever came meanwhile relied on this look, and shall not wait for another doze. With a P:
      // steal_forgotten().
      if (last_look() == visible_work::in_run_next_only && take_p_back(m)) return true;
      continue;
    }
    if (last_one) {
      next_check = std::min(2 * next_check, k_longest_check);
      continue;
    }
    if (kept_time || watches.assigned) continue;  // nobody else would wake up for what it watches
    const os::lock_guard hold(lock_);
    if (!idle_ms_.contains(&m)) continue;  // handed a P in the last moment
    idle_ms_.remove(&m);
    return false;
  }
}

// Those who fell asleep while all Ps were held took no office, and one who has given up a P may be
// handed another before it takes one: then nobody would learn of an event or a timer, beside a P
// that is idle. By a guess: to wake somebody in vain does no harm.
bool scheduler::nobody_watches() {
  if (earliest_timer() < watched_until_.load(relaxed)) return true;  // relaxed: see above
  const os::lock_guard hold(lock_);
  return descriptors.started() && watcher_ == nullptr && !idle_ps_.empty();
}

// From here on the M can be handed a P by others. False: it has kept its P. There is work after
// all, or the P is not to be used any more, and must not be found on the idle list: see retire_p().
bool scheduler::give_up_p(M& m) {
  {
    const os::lock_guard hold(lock_);
    if (m.p != nullptr) {
      if (m.p->retired.load(relaxed)) return false;  // relaxed: written under the lock
      if (global_.length() != 0 || m.p->stopped.first != nullptr) return false;
      put_idle_locked(release_p(m));  // [leave]
    }
    idle_ms_.push_front(&m);
    if (stopping_) end_sleepers_locked();
  }
  m.unannounced_timer = os::k_never;  // this M looks at all of them now
  if (m.spinning) {
    m.spinning = false;
    spinning_.fetch_sub(1, relaxed);  // relaxed: the heavy fence orders it. [leave]
  }
  os::heavy_fence();  // [fence]
  return true;
}

// [recheck]
scheduler::visible_work scheduler::last_look() const {
  if (global_.length() != 0) return visible_work::stealable;
  visible_work seen = visible_work::none;
  const int count = ps_made_.load(acquire);  // pairs with the release in set_procs()
  for (int i = 0; i < count; ++i) {
    if (ps_[i]->stopped.count.load(relaxed) != 0)
      return visible_work::stealable;  // see preempt.cpp
    if (ps_[i]->queue.empty()) continue;
    if (ps_[i]->queue.ring_length() != 0) return visible_work::stealable;
    seen = visible_work::in_run_next_only;
  }
  return seen;
}

// An idle P for an M that saw work and has not been handed one.
bool scheduler::take_p_back(M& m) {
  const os::lock_guard hold(lock_);
  if (!idle_ms_.contains(&m)) return false;
  P* const p = take_idle_p_locked();
  if (p == nullptr) return false;
  idle_ms_.remove(&m);
  acquire_p(m, p);
  become_spinning(m);
  return true;
}

// Sleeps. True: woken with what is in handed_p, which is null when the runtime ends.
bool scheduler::wait_for_p(M& m, os::nanos deadline) {
  if (!m.wake.wait_until(deadline)) {
    const os::lock_guard hold(lock_);
    if (idle_ms_.contains(&m)) return false;
  }
  m.wake.wait();  // at once, or as soon as whoever took us off the list has got to it
  m.wake.clear();
  if (m.handed_p != nullptr) {
    acquire_p(m, m.handed_p);
    m.spinning = m.handed_spinning;  // counted in by whoever handed it over
  }
  return true;
}

// The runtime ends: whoever sleeps, or is about to, wakes up with nothing.
void scheduler::end_sleepers_locked() {
  for (;;) {
    const sleeper one = pop_sleeper_locked();
    if (one.m == nullptr) return;
    wake_sleeper(one, nullptr, false);
  }
}

// ---- The lists --------------------------------------------------------------------------------

void scheduler::put_idle_locked(P* p) {
  MAGPIE_CHECK(p->queue.empty(), "an idle P has work");
  idle_ps_.push_front(p);
  p->usage.become(p_usage::use::idle);
  // relaxed: the fence of whoever calls orders it before the recheck.
  idle_count_.store(static_cast<int>(idle_ps_.size()), relaxed);
}

P* scheduler::take_idle_p_locked() {
  P* const p = idle_ps_.pop_front();
  if (p != nullptr) {
    p->usage.become(p_usage::use::busy);
    // relaxed: a submitter that still sees the old number finds none under the lock.
    idle_count_.store(static_cast<int>(idle_ps_.size()), relaxed);
    if (monitor_rests_ || debugging().nosysmon) note_time(os::now());
    if (monitor_rests_) {
      monitor_rests_ = false;
      wake_monitor();
    }
  }
  return p;
}

void scheduler::acquire_p(M& m, P* p) {
  // relaxed: whoever had it before let it go under the lock, or by the exchange of call_p.
  MAGPIE_CHECK(m.p == nullptr && p->m.load(relaxed) == nullptr, "a P taken that is in use");
  m.p = p;
  p->m.store(&m, release);  // pairs with the monitor's acquire
  trace_proc_start(m, *p);
}

P* scheduler::release_p(M& m) {
  P* const p = m.p;
  trace_proc_stop(m, *p);
  m.p = nullptr;
  p->m.store(nullptr, release);  // pairs with the monitor's acquire
  return p;
}

}  // namespace magpie::rt
