#include "sched/meters.h"

#include <algorithm>

#include "sched/scheduler.h"

namespace magpie::rt {
namespace {

std::uint64_t positive_difference(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

}  // namespace

const char* p_state_text(p_state state) {
  switch (state) {
    case p_state::idle:
      return "idle";
    case p_state::busy:
      return "busy";
    case p_state::in_call:
      return "syscall";
  }
  return "unknown";
}

// Numbers that belong together are read one after the other while everything moves. Ends are read
// before beginnings, so that no difference is negative; what is left over is made to fit, so that
// the states add up.
meters scheduler::read_meters() const {
  meters now;
  now.all = read_stats();
  now.uptime = os::now() - started_at_;
  const int made = ps_made_.load(acquire);  // pairs with the release in resize()
  std::uint64_t calls_ended = 0, calls_begun = 0, mutex_wait = 0;
  for (int i = 0; i < made; ++i) calls_ended += ps_[i]->counters.calls_ended.read();
  for (int i = 0; i < made; ++i) {
    const P& p = *ps_[i];
    calls_begun += p.counters.calls_begun.read();
    now.turns += p.turns.read();
    now.yields += p.counters.yields.read();
    mutex_wait += p.counters.mutex_wait.read();
    now.timers += p.timers.pending();
    now.latency_sum += p.latencies.sum();
    for (int b = 0; b < latency_histogram::k_buckets; ++b) {
      now.latencies[static_cast<std::size_t>(b)] += p.latencies.count(b);
    }
  }
  now.mutex_wait = os::ticks_to_nanos(mutex_wait);
  now.calls = calls_begun;
  now.polls = polls_.load(relaxed);  // relaxed: a moment's view
  now.io_waiters = io_waiters();
  const stack_pool_stats memory = stacks.stats();
  now.stacks_in_use = memory.in_use;
  now.stacks_free = memory.free;
  now.stack_bytes_reserved = memory.reserved;
  read_ps(now);
  {
    const os::lock_guard hold(lock_);
    calls_ended += calls_ended_outside_;
    now.stalls = stalls_seen_;
    now.in_calls = orphans_.size();
  }
  now.in_calls += positive_difference(calls_begun, calls_ended);
  share_out(now);
  return now;
}

// Room is made before the lock is taken: nobody may allocate under it.
void scheduler::read_ps(meters& now) const {
  now.ps.resize(static_cast<std::size_t>(procs()));
  const os::lock_guard hold(lock_);
  std::size_t i = 0;
  for (p_meters& to : now.ps) {
    const P& p = *ps_[i++];
    const M* const m = p.m.load(acquire);  // pairs with acquire_p(); it lives under the lock
    to.queued = p.queue.ring_length() + (p.queue.peek_next() != nullptr ? 1 : 0);
    to.stopped = p.stopped.count.load(relaxed);  // relaxed: under the lock
    to.timers = p.timers.pending();
    to.turns = p.turns.read();
    to.spawned = p.counters.spawned.read();
    to.steals = p.counters.steals.read();
    to.stolen = p.counters.stolen.read();
    to.preemptions = p.counters.preemptions.read();
    if (m == nullptr) continue;
    // relaxed: to be compared only.
    to.state = m->call_p.load(relaxed) == &p ? p_state::in_call : p_state::busy;
  }
  for (int p = 0; p < ps_made_.load(relaxed); ++p) {     // relaxed: under the lock
    now.stopped += ps_[p]->stopped.count.load(relaxed);  // as above
  }
  read_usage_locked(now);
}

// Searching is noted some microseconds later than it is done. What was shown as user time stays so,
// or a counter would go back.
void scheduler::read_usage_locked(meters& now) const {
  std::uint64_t searching = 0, idle = 0, busy = 0;
  const int made = ps_made_.load(relaxed);  // relaxed: under the lock
  for (int i = 0; i < made; ++i) searching += ps_[i]->counters.searching.read();
  const std::uint64_t time = os::ticks();
  for (int i = 0; i < made; ++i) {
    idle += ps_[i]->usage.spent(p_usage::use::idle, time);
    busy += ps_[i]->usage.spent(p_usage::use::busy, time);
  }
  const std::uint64_t user = std::max(positive_difference(busy, searching), user_ticks_shown_);
  user_ticks_shown_ = user;
  now.cpu.user = os::ticks_to_nanos(user);
  now.cpu.searching = os::ticks_to_nanos(positive_difference(busy, user));
  now.cpu.idle = os::ticks_to_nanos(idle);
}

// Who waits is known by counting parks and wake-ups, who is runnable by the length of the queues.
// A goroutine whose child runs on its stack (join.cpp) waits, too, without having parked: it is
// what is left when the Ps in use have one each.
void scheduler::share_out(meters& now) const {
  const std::uint64_t alive = now.all.goroutines;
  std::uint64_t left = alive;
  const auto take = [&left](std::uint64_t wish) {
    const std::uint64_t taken = std::min(wish, left);
    left -= taken;
    return taken;
  };
  std::uint64_t queued = now.all.global_queue_length + now.stopped, in_use = 0;
  for (const p_meters& p : now.ps) {
    queued += p.queued;
    if (p.state == p_state::busy) ++in_use;
  }
  now.in_calls = take(now.in_calls);
  now.waiting = take(positive_difference(now.all.parks, now.all.readies));
  now.runnable = take(queued);
  now.running = take(in_use);
  now.waiting += left;
}

meters read_meters() { return read_meters(runtime::current()); }
meters read_meters(const runtime& r) { return scheduler_of(r).read_meters(); }

}  // namespace magpie::rt
