// polling.cpp: who asks the poller, and when.
//
// Comes from: io/, where a goroutine waits for a descriptor.
// Goes to:    the run queue of whoever finds that the descriptor is ready.
//
// Four ask:
//
//   - an M that has run out of work, before it looks at other Ps, and while it spins;
//   - every P under load, when nobody has asked for a while: at one turn in 61 it looks at the
//     clock;
//   - the watcher: of the Ms that sleep while all Ps are idle, the one that sleeps in the poller
//     instead of on its note. It is the last one to be woken for other work. While some Ps are busy
//     they ask often enough, most of the time: then it sleeps on its note, too, and looks now and
//     then whether they do. A thread in the poller would be woken for every event, only to compete
//     with the one that is about to ask;
//   - the monitor, when nobody has asked for a millisecond while some P was busy.
//
// Why no event is forgotten: as long as a P is idle and nobody spins, there is a watcher, in the
// poller or beside it. An M that falls asleep becomes one if there is none; a watcher that finds
// something takes a P and spins, and one that is woken for something else wakes another (idle.cpp).
// The first descriptor of all comes when nobody watches yet: whoever starts the poller wakes
// somebody. When no P is idle those that run ask, and again before they give up their P. One case
// is left to the monitor: a P that keeps_to_itself() has no watcher beside it.

#include <algorithm>
#include <utility>

#include "os/fence.h"
#include "sched/debug_settings.h"
#include "sched/idle.h"
#include "sched/scheduler.h"
#include "sched/waiting.h"

namespace magpie::rt {
namespace {

// A goroutine that runs for less is done sooner where it is: see steal.cpp.
constexpr os::nanos k_short_turn = 8'000;
// Under load: long beside what asking costs, short beside what a client notices.
constexpr os::nanos k_poll_interval = 100'000;
// Nobody has asked for so long: the monitor does.
constexpr os::nanos k_neglect = 1'000'000;
// ... and when those who have the Ps have had no turn for a while.
constexpr os::nanos k_standstill = 500'000;
// How long a watcher waits beside the poller: longer each time others have asked meanwhile.
constexpr os::nanos k_shortest_glance = 200'000;
constexpr int k_most_glances = 3;

void wake_side(poll_desc::side& side, wake_list& woken) {
  side.drained = false;
  if (side.waiting.first == nullptr) {
    side.ready = true;
  } else {
    woken.add_all(side.waiting);
  }
}

}  // namespace

// ---- Waiting ----------------------------------------------------------------------------------

os::error scheduler::start_poller() {
  if (descriptors.started()) return {};
  if (const os::error failed = descriptors.start()) return failed;
  os::heavy_fence();
  wake_p();
  return {};
}

void scheduler::io_wait_begins(M* m) {
  if (m != nullptr) return m->p->counters.io_waits_begun.add();
  io_waiting_outside_.fetch_add(1, relaxed);  // relaxed: see io_waiters()
}

void scheduler::io_wait_ends(M* m) {
  if (m != nullptr) return m->p->counters.io_waits_ended.add();
  io_waiting_outside_.fetch_sub(1, relaxed);  // relaxed: as above
}

// Ends are read before beginnings, so that 0 is certain when no P is in use; a guess otherwise.
std::uint64_t scheduler::io_waiters() const {
  const int count = ps_made_.load(acquire);  // pairs with the release in set_procs()
  std::uint64_t ended = 0, begun = 0;
  for (int i = 0; i < count; ++i) ended += ps_[i]->counters.io_waits_ended.read();
  for (int i = 0; i < count; ++i) begun += ps_[i]->counters.io_waits_begun.read();
  return begun + io_waiting_outside_.load(relaxed) - ended;  // relaxed: a number
}

// ---- Asking -----------------------------------------------------------------------------------

// Adds those to be woken. Records may be in use for another descriptor by now.
void scheduler::take_events(const poll_batch& batch, wake_list& woken) {
  for (std::size_t i = 0; i < batch.count; ++i) {
    __builtin_prefetch(desc_of(batch.events[i].token));  // no matter if it is none
  }
  for (std::size_t i = 0; i < batch.count; ++i) {
    const poll_event& e = batch.events[i];
    if (e.ring() >= 0) {
      collect_from_ring(e.ring(), woken);
      continue;
    }
    poll_desc& d = *desc_of(e.token);
    const object_guard held(d.lock);
    if (d.sequence != sequence_of(e.token)) continue;
    d.uncertain |= e.uncertain;
    if (e.readable) wake_side(d.read, woken);
    if (e.writable) wake_side(d.write, woken);
    // Who still waits: an error would have been reported when they began to.
    if (d.guest && d.is_awaited()) (void)arm_guest_locked(d);
  }
}

// ---- Files ------------------------------------------------------------------------------------

file_ring* scheduler::ring_for_files(M& m) {
  P& p = *m.p;
  if (file_ring* const made = p.ring.load(relaxed)) return made;  // relaxed: own
  // relaxed: a hint; whoever asks again gets the same answer.
  if (rings_refused_.load(relaxed) || start_poller()) return nullptr;
  file_ring* const ring = file_ring::create();
  if (ring == nullptr || descriptors.add_ring(ring->fd(), p.id)) {
    if (ring != nullptr) ring->destroy();
    rings_refused_.store(true, relaxed);  // as above
    return nullptr;
  }
  p.ring.store(ring, release);  // pairs with collect_from_ring()
  return ring;
}

void scheduler::collect_from_ring(int number, wake_list& woken) {
  file_ring& ring = *ps_[number]->ring.load(acquire);  // pairs with ring_for_files()
  const object_guard held(ring.lock);
  collect_locked(ring, woken);
}

// Those who do not sleep yet see that it is done before they do.
void scheduler::collect_locked(file_ring& ring, wake_list& woken) {
  for (file_request* r = ring.collect_locked(); r != nullptr; r = r->next) {
    if (r->sleeper != nullptr) woken.add(*r->sleeper);
  }
}

// ---- Guests -----------------------------------------------------------------------------------

// Asks for what is waited for now; nothing, perhaps. Each question has a number of its own.
os::error scheduler::arm_guest_locked(poll_desc& d) {
  const bool readable = d.read.waiting.first != nullptr;
  const bool writable = d.write.waiting.first != nullptr;
  ++d.sequence;
  return descriptors.arm_guest(d.fd, readable, writable, token_of(d));
}

// Whether somebody was woken. One thread at a time: two would find half each.
bool scheduler::ask_poller(M* m) {
  if (!descriptors.started() || io_waiters() == 0) return false;
  // relaxed: a hint. acquire: nothing but the turn.
  if (poll_in_progress_.load(relaxed) || poll_in_progress_.exchange(true, acquire)) return false;
  poll_batch batch;
  descriptors.poll(0, batch);
  polls_.fetch_add(1, relaxed);             // relaxed: a statistic
  last_poll_.store(os::ticks(), relaxed);   // relaxed: a hint
  poll_in_progress_.store(false, release);  // pairs with the exchange
  return deliver(m, batch);
}

bool scheduler::deliver(M* m, const poll_batch& batch) {
  if (batch.count == 0) return false;
  wake_list woken;
  take_events(batch, woken);
  if (woken.empty()) return false;
  netpoll_wakeups_.fetch_add(1, relaxed);  // relaxed: a statistic
  if (m == nullptr || !keeps_to_itself(*m->p)) {
    woken.wake_all(m);
  } else {
    if (std::exchange(m->spinning, false)) spinning_.fetch_sub(1, relaxed);  // relaxed: see there
    woken.wake_all(m, wake_policy::keep_here);
  }
  if (m != nullptr) {
    m->p->pace.turns = m->p->turns.read();
    m->p->pace.since = os::ticks();
  }
  return true;
}

run_queue::popped scheduler::from_poller(M& m) {
  measure_pace(*m.p);
  return ask_poller(&m) ? from_local_queue(m) : run_queue::popped{};
}

// A server of small requests: one P is busy, with goroutines that take a few microseconds each. A
// second one would be awake when most is done, take some of the rest away from the cache it is in,
// find nothing more and fall asleep, over and over. So as long as turns are short nobody is woken
// for what comes from the poller, and the one that gets it is not one who looks for work for all.
// Should a turn be long for once, the monitor notices within a millisecond; so not without it. Nor
// while several Ps are busy, who may have left work to a spinner.
bool scheduler::keeps_to_itself(const P& p) const {
  // relaxed: numbers that change all the time.
  const bool others_busy = procs() - idle_count_.load(relaxed) > 1;
  return !debugging().nosysmon && !others_busy &&
         p.pace.turn <
             static_cast<std::uint64_t>(k_short_turn) * os::ticks_per_second() / 1'000'000'000;
}

// With an empty queue: what was delivered is done.
void scheduler::measure_pace(P& p) const {
  if (p.pace.turns == 0) return;
  const std::uint64_t turns = p.turns.read() - std::exchange(p.pace.turns, 0);
  if (turns == 0) return;
  const std::uint64_t each = (os::ticks() - p.pace.since) / turns;
  p.pace.turn = p.pace.turn == P::k_unknown_pace ? each : p.pace.turn - p.pace.turn / 4 + each / 4;
}

bool scheduler::poll_is_overdue(os::nanos limit) const {
  if (!descriptors.started()) return false;
  // relaxed: a hint.
  return os::ticks_to_nanos(os::ticks() - last_poll_.load(relaxed)) >= limit;
}

void scheduler::ask_poller_under_load(M& m) {
  if (poll_is_overdue(k_poll_interval)) ask_poller(&m);
}

// ---- The watcher ------------------------------------------------------------------------------

// For an M that is about to sleep. Not while every P is held: their Ms ask themselves. Nor while
// another one is in the poller, though it may be on its way out, woken for other work: there is one
// alarm, and it is for that one.
scheduler::watch scheduler::become_watcher(M& m) {
  if (!descriptors.started()) return {};
  const os::lock_guard hold(lock_);
  if (watcher_ != nullptr || !idle_ms_.contains(&m) || idle_ps_.empty()) return {};
  watcher_ = &m;
  idle_ms_.remove(&m);
  idle_ms_.push_back(&m);
  const bool others_ask =
      idle_ps_.size() != static_cast<std::size_t>(procs()) && !poll_is_overdue(2 * k_poll_interval);
  watcher_in_poller_ = !others_ask;
  if (!others_ask) {
    m.glances = 0;
    return {.assigned = true, .in_poller = true};
  }
  const os::nanos glance = k_shortest_glance << std::min(m.glances++, k_most_glances);
  return {.assigned = true, .in_poller = false, .glance = glance};
}

void scheduler::resign_as_watcher() {
  const os::lock_guard hold(lock_);
  watcher_ = nullptr;
  watcher_in_poller_ = false;
}

void scheduler::watch_until(os::nanos deadline, poll_batch& out) {
  const os::nanos now = os::now();
  descriptors.poll(deadline == os::k_never ? -1 : std::max<os::nanos>(deadline - now, 0), out);
  polls_.fetch_add(1, relaxed);            // relaxed: a statistic
  last_poll_.store(os::ticks(), relaxed);  // relaxed: a hint
}

// ---- The monitor ------------------------------------------------------------------------------

// Returns when to look again. While all Ps are idle somebody is in the poller.
os::nanos scheduler::look_at_descriptors(os::nanos now) {
  const int idle = idle_count_.load(relaxed);  // relaxed: a hint
  if (!descriptors.started() || idle == procs()) return os::k_never;
  // relaxed: the monitor's own. Short when nobody has had a turn since the last look.
  const os::nanos limit =
      timer_slack_.load(relaxed) == k_short_timer_slack ? k_standstill : k_neglect;
  if (poll_is_overdue(limit)) {
    bool found = false;
    {
      const urgent_wakes first;
      found = ask_poller(nullptr);
    }
    if (found) urge(now);
  }
  if (idle != 0 && !gets_on_quickly() && last_look() == visible_work::stealable) wake_p();
  return now + limit;
}

// Since the last look, which was about a millisecond ago.
bool scheduler::gets_on_quickly() {
  const std::uint64_t progress = progress_of_all();
  const std::uint64_t before = std::exchange(progress_at_last_look_, progress);
  return progress - before > static_cast<std::uint64_t>(k_neglect / k_short_turn);
}

}  // namespace magpie::rt
