// steal.cpp: from whom an M without work takes some.
//
// Comes from: find_runnable(), for a spinning M with an empty queue.
// Goes to:    the goroutine stolen; the rest of the loot is in this P's queue.

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "os/clock.h"
#include "os/futex.h"
#include "sched/scheduler.h"

namespace magpie::rt {
namespace {

// All numbers below `count` once each, in an order that looks random: start anywhere and go on
// in steps that have no divisor in common with `count`.
class random_order {
 public:
  random_order(int count, random_source& random) : count_(static_cast<std::uint32_t>(count)) {
    at_ = random.below(count_);
    do {
      step_ = 1 + random.below(count_);
    } while (std::gcd(step_, count_) != 1);
  }
  bool more() const { return taken_ < count_; }
  int next() {
    ++taken_;
    at_ = (at_ + step_) % count_;
    return static_cast<int>(at_);
  }

 private:
  const std::uint32_t count_;
  std::uint32_t at_;
  std::uint32_t step_;
  std::uint32_t taken_ = 0;
};

}  // namespace

// ---- Is it worth it? --------------------------------------------------------------------------
//
// A goroutine that is brought over drags its G, its closure and what it works on from one cache to
// another: some hundred nanoseconds. One that does next to nothing is done sooner where it is, and
// both processors are slowed down by the traffic. Nothing tells in advance what a goroutine will
// do, but the last loot does: if all of it was done in less than it cost, the thief holds back for
// a while, longer each time, and then tries a few only. With half of a queue the one who made them
// all often came over, too, woken by the last of them, and both processors had to fetch from each
// other for a millisecond. It does not hold back for longer than the others get on quickly, though:
// when they do not, they have something better.
//
// The same when nothing was won by it: the victim had little to do after it, while the thief was
// busy with more than the loot. So it is when the rest of them wait for a lock that the stolen one
// holds, and when the last of the stolen ones woke who had made them all. Then one processor works
// at a time, and every theft only moves the work. Of long turns that is no sign: both may have
// worked for most of the time.

namespace {

constexpr os::nanos k_cost_of_one = 4'000;
constexpr std::uint64_t k_first_holds_per_second = 10'000;  // 100 us
constexpr int k_most_doublings = 8;
// What it tries again with: enough that waking a successor, which comes first, does not count.
constexpr std::size_t k_sample = std::min<std::size_t>(8, run_queue::k_half);
constexpr os::nanos k_much_busier = 4;  // so many turns of the thief to one
// What the others have done is written in the lines they use most: each look costs them a miss, so
// between two there is a pause. The first ones are spent awake; after that the thief sleeps, longer
// each time: one that is awake for nothing slows the others down, by the memory and the power that
// processors share.
constexpr os::nanos k_first_rest = 60'000;
constexpr int k_rests_awake = 2;
constexpr int k_most_rest_doublings = 4;
constexpr os::nanos k_quick = 2'000;  // between two turns, or spawns, of a P

}  // namespace

// How many turns the victim has had; null: it is not known who lost them, so all but the thief.
std::uint64_t scheduler::turns_of_others(const P& thief, const P* victim) const {
  if (victim != nullptr) return victim->turns.read();
  std::uint64_t sum = 0;
  const int count = ps_made_.load(acquire);  // pairs with the release in set_procs()
  for (int i = 0; i < count; ++i) {
    if (ps_[i] != &thief) sum += ps_[i]->turns.read();
  }
  return sum;
}

void scheduler::begin_loot(M& m, std::size_t count, const P* victim) {
  m.vain_searches = 0;
  auto& loot = m.p->loot;
  loot.count = count;
  loot.since = os::ticks();
  loot.turns = m.p->turns.read();
  loot.victim = victim;
  loot.others_turns = turns_of_others(*m.p, victim);
}

// With an empty queue: what was brought over is done.
void scheduler::judge_loot(P& p) {
  auto& loot = p.loot;
  if (loot.count == 0) return;
  const std::uint64_t now = os::ticks();
  const auto count = static_cast<os::nanos>(std::exchange(loot.count, 0));
  const os::nanos took = os::ticks_to_nanos(now - loot.since);
  const auto turns = static_cast<os::nanos>(p.turns.read() - loot.turns);
  const auto others = static_cast<os::nanos>(turns_of_others(p, loot.victim) - loot.others_turns);
  const bool won_nothing = k_much_busier * others < turns;
  if (took / (won_nothing ? std::max(count, turns) : count) >= k_cost_of_one) {
    loot.poor = 0;
    return;
  }
  const std::uint64_t first = os::ticks_per_second() / k_first_holds_per_second;
  loot.hold_back_until = now + (first << std::min(loot.poor, k_most_doublings));
  ++loot.poor;
}

// How much all Ps have done so far, in turns and spawns.
std::uint64_t scheduler::progress_of_all(const P* but) const {
  std::uint64_t sum = 0;
  const int count = ps_made_.load(acquire);  // pairs with the release in set_procs()
  for (int i = 0; i < count; ++i) {
    if (ps_[i] != but) sum += ps_[i]->turns.read() + ps_[i]->counters.spawned.read();
  }
  return sum;
}

// Since the last look; if that was just now, what was seen there holds: in a moment as short an
// interrupt may have come between two turns.
bool scheduler::others_get_on(P& p) const {
  auto& last = p.others;
  const std::uint64_t now = os::ticks();
  if (os::ticks_to_nanos(now - last.seen_at) < k_first_rest) return last.get_on;
  const std::uint64_t progress = progress_of_all(&p);
  const std::uint64_t done = progress - std::exchange(last.progress, progress);
  const std::uint64_t took = now - std::exchange(last.seen_at, now);
  // relaxed: a guess. Each of them, on the average.
  const auto busy =
      static_cast<std::uint64_t>(std::max(1, procs() - idle_count_.load(relaxed) - 1));
  last.get_on = done != 0 && os::ticks_to_nanos(busy * took / done) < k_quick;
  return last.get_on;
}

// How many goroutines an M without work may bring to its P now.
std::size_t scheduler::appetite(P& p) const {
  if (p.loot.poor == 0 || !others_get_on(p)) return run_queue::k_half;
  return os::ticks() < p.loot.hold_back_until ? 0 : k_sample;
}

// With its P, and as one who spins: what others leave to it waits for as long. But not the timers.
void scheduler::rest_held_back(int looks) {
  const os::nanos now = os::now();
  if (looks < k_rests_awake) {
    while (os::now() < now + k_first_rest) cpu_relax();
    return;
  }
  const int doublings = std::min(looks - k_rests_awake, k_most_rest_doublings);
  os::futex_word nobody{0};
  os::futex_wait(nobody, 0, std::min(now + (k_first_rest << doublings), earliest_timer()));
}

// ---- Stealing ---------------------------------------------------------------------------------

// Half of the ring of some P. One pass: while an M spins it comes here several times, as Go's four
// passes do without the pause in between.
G* scheduler::steal_work(M& m, std::size_t most) {
  const int count = ps_made_.load(acquire);  // pairs with the release in set_procs()
  P& mine = *m.p;
  for (random_order order(count, m.random); order.more();) {
    P& victim = *ps_[order.next()];
    if (&victim == &mine) continue;
    mine.counters.steal_attempts.add();
    if (G* const g = mine.queue.steal_half_from(victim.queue, static_cast<std::uint32_t>(most))) {
      mine.counters.steals.add();
      mine.counters.stolen.add(1 + mine.queue.ring_length());
      begin_loot(m, 1 + mine.queue.ring_length(), &victim);
      return g;
    }
  }
  return nullptr;
}

// A goroutine in run_next will most likely run within a microsecond where it is, with all it
// needs in that processor's cache. It is taken only when it was seen there a while ago and its P
// has not started anything since: the goroutine that runs there has not stopped as expected.
G* scheduler::steal_forgotten(M& m) {
  static const std::uint64_t patience = os::ticks_per_second() / 200'000;  // 5 us
  const int count = ps_made_.load(acquire);  // pairs with the release in set_procs()
  for (random_order order(count, m.random); order.more();) {
    P& victim = *ps_[order.next()];
    const G* const g = victim.queue.peek_next();
    if (&victim == m.p || g == nullptr) continue;
    const std::uint64_t turns = victim.turns.read();
    const std::uint64_t now = os::ticks();
    M::sighting& seen = m.sightings[static_cast<std::size_t>(victim.id) % std::size(m.sightings)];
    if (seen.g != g || seen.turns != turns) {
      seen = {g, turns, now};
    } else if (now - seen.since > patience) {
      if (G* const taken = victim.queue.steal_next()) {
        m.p->counters.steals.add();
        m.p->counters.stolen.add();
        begin_loot(m, 1, &victim);
        return taken;
      }
    }
  }
  return nullptr;
}

}  // namespace magpie::rt
