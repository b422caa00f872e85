// steal.cpp: from whom an M without work takes some.
//
// Comes from: find_runnable(), for a spinning M with an empty queue.
// Goes to:    the goroutine stolen; the rest of the loot is in this P's queue.

#include <iterator>
#include <numeric>

#include "os/clock.h"
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

// Half of the ring of some P. One pass: while an M spins it comes here several times, as Go's four
// passes do without the pause in between.
G* scheduler::steal_work(M& m) {
  const int count = ps_made_.load(acquire);  // pairs with the release in set_procs()
  P& mine = *m.p;
  for (random_order order(count, m.random); order.more();) {
    P& victim = *ps_[order.next()];
    if (&victim == &mine) continue;
    mine.counters.steal_attempts.add();
    if (G* const g = mine.queue.steal_half_from(victim.queue)) {
      mine.counters.steals.add();
      mine.counters.stolen.add(1 + mine.queue.ring_length());
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
      if (G* const taken = victim.queue.take_next()) {
        m.p->counters.steals.add();
        m.p->counters.stolen.add();
        return taken;
      }
    }
  }
  return nullptr;
}

}  // namespace magpie::rt
