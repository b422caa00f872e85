// resize.cpp: the number of Ps changes while goroutines run. Nobody is stopped for it: new Ps
// appear on the idle list, surplus ones are marked and given up by their holders at their next
// turn, after their goroutines moved to the global queue and their timers to the first P.

#include <algorithm>
#include <new>

#include "os/memory.h"
#include "sched/idle.h"
#include "sched/scheduler.h"

namespace magpie::rt {

int scheduler::set_procs(int count) {
  if (count <= 0) return procs();
  follows_cpus_.store(false, relaxed);  // relaxed: a setting
  return resize(count);
}

int scheduler::resize(int count, resize_cause cause) {
  count = std::clamp(count, 1, k_most_procs);
  int before = 0;
  {
    const os::lock_guard hold(lock_);
    // relaxed: set_procs() takes the lock after it has written it, so its number is the last one.
    if (cause == resize_cause::cpus && !follows_cpus_.load(relaxed)) return procs();
    if (paused_) {
      procs_after_pause_ = count;
      return procs();
    }
    before = resize_locked(count);
  }
  follow_resize(before, count);
  return before;
}

int scheduler::resize_locked(int count) {
  const int before = procs();
  for (int i = ps_made_.load(relaxed); i < count; ++i) {  // relaxed: written under the lock
    const auto memory = os::allocate_records(sizeof(P));
    if (!memory) fatal("no memory for another P");
    ps_[i] = new (*memory) P(i, stacks);
    ps_[i]->trace.number = trace::take_proc_number();
    ps_[i]->off = true;
    ps_made_.store(i + 1, release);  // pairs with the acquires of thieves and the monitor
  }
  for (int i = 0; i < ps_made_.load(relaxed); ++i) {  // relaxed: as above
    P* const p = ps_[i];
    p->retired.store(i >= count, relaxed);  // relaxed: looked at again at every turn
    // During a pause somebody may have been stopped for a P that nobody holds.
    if (i >= count && (p->off || idle_ps_.contains(p))) move_stopped_locked(*p);
    if (i >= count && idle_ps_.contains(p)) {
      idle_ps_.remove(p);
      turn_off_locked(*p);
      ps_[0]->timers.absorb(p->timers);
    } else if (i < count && p->off) {
      p->off = false;
      p->usage.become(p_usage::use::idle);
      idle_ps_.push_back(p);
    }
  }
  // relaxed: follow_resize() brings the fence; a stale count only costs a look under the lock.
  idle_count_.store(static_cast<int>(idle_ps_.size()), relaxed);
  procs_.store(count, relaxed);  // as above
  trace::change_procs(count - before);
  return before;
}

// Without the lock: those who find work now, and whoever looks after the timers, are told.
void scheduler::follow_resize(int before, int count) {
  for (int i = before; i < count; ++i) wake_p();
  if (count >= before) return;
  wake_p();  // for those who have moved
  announce_timer(ps_[0]->timers.next());
}

// The same for one that nobody holds. Whoever calls wakes somebody for what it had to run.
void scheduler::rest_retired_locked(P* p) {
  goroutine_queue rest;
  p->queue.drain_into(rest);
  global_.push_all(rest);
  move_stopped_locked(*p);
  turn_off_locked(*p);
}

// Those that were stopped on a P that is not to be used any more have their turns elsewhere. Where
// a P waits for its thread, at once: that may never be made before one of them goes on, who was
// stopped inside malloc.
void scheduler::move_stopped_locked(P& p) {
  while (&p != ps_[0] && p.stopped.first != nullptr) {
    M* const m = pop_stopped_locked(p);
    m->handed_p = take_usable_wished_p_locked();
    if (m->handed_p != nullptr) {
      m->wake.wake();
    } else {
      push_stopped_locked(*ps_[0], *m);
    }
  }
}

void scheduler::turn_off_locked(P& p) {
  p.off = true;
  p.usage.become(p_usage::use::off);
}

// The holder gives up a P that is not to be used any more.
void scheduler::retire_p(M& m) {
  P* const p = m.p;
  goroutine_queue rest;
  p->queue.drain_into(rest);
  p->stacks.drain();
  p->loot.count = 0;  // others have it now: there is nothing to be judged
  if (p != ps_[0]) ps_[0]->timers.absorb(p->timers);
  {
    const os::lock_guard hold(lock_);
    while (G* const g = p->free_gs.pop()) free_gs_.push_back(g);
    move_stopped_locked(*p);
    release_p(m);
    if (p->retired.load(relaxed)) {  // relaxed: written under the lock
      turn_off_locked(*p);
    } else {
      put_idle_locked(p);  // wanted again meanwhile
    }
    global_.push_all(rest);
    if (m.spinning) {
      m.spinning = false;
      spinning_.fetch_sub(1, relaxed);  // relaxed: wake_p() brings the fence
    }
  }
  wake_p();
  announce_timer(ps_[0]->timers.next());
}

}  // namespace magpie::rt
