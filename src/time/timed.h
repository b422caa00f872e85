// What all timers above the scheduler have in common: the way from the heap to what they do.
//
//   idle --set()--> in a heap --fire--> aloft, in somebody's harvest --call--> landed
//                       |
//                       +--unset()--> idle
//
// A timer fires under the heap's lock, where nothing can be done but to be added to the harvest.
// What it has to do is done a moment later by the same thread, without that lock. In between it
// is aloft: it may be set again meanwhile, but does not fire again before it has landed, and its
// memory must stay. What is aloft works with a copy of what it needs, taken when it fired.
#pragma once

#include "sched/timers.h"

namespace magpie::rt {

enum class flight : std::uint8_t {
  none,
  aloft,
  landing,  // what it has to do is done; for those who count in between
};

struct timed : timer, timed_call {
  timed(timer::callback on_fire, void (*on_call)(M*, timed_call&), timer::farewell f = nullptr)
      : timer(on_fire, f), timed_call(on_call) {}

  // The three below: under the owner's lock, inside the gate.

  // It is idle, or has been unset.
  void set(scheduler& where, M* m, os::nanos at);

  // True: it was in a heap, and will not fire.
  bool unset();

  bool is_aloft() const {
    return in_flight.load(acquire) == flight::aloft;  // pairs with take_off()
  }

  // In fire(), after everything the call needs was copied. Only if may_take_off(): otherwise it
  // must fire again, soon.
  bool may_take_off() const {
    return in_flight.load(acquire) == flight::none;  // pairs with land()
  }
  void take_off(harvest& out) {
    in_flight.store(flight::aloft, release);  // pairs with is_aloft()
    out.calls.push_back(this);
  }
  static constexpr os::nanos k_soon = 1'000;

  // At the end of the call: nothing of it may be touched afterwards.
  void land() { in_flight.store(flight::none, release); }  // pairs with wait_until_landed()

  // Before its memory is freed, once it has been unset.
  void wait_until_landed() const;

  scheduler* home = nullptr;  // where it was set last
  os::nanos due = 0;          // timer::when, but for the delays of above
  atomic<flight> in_flight{flight::none};
};

}  // namespace magpie::rt
