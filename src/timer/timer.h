// A point of time at which something is to happen. Its memory belongs to whoever set it.
//
//               add                        its time has come
//      idle  ----------> pending, in a heap ----------------> fire() --> idle, or pending again
//                           |
//                           +-- cancel() --> idle; what is left in the heap is a node for nobody
#pragma once

#include "base/atomic.h"
#include "os/clock.h"

namespace magpie::rt {

class timer_heap;
struct timer;

// What expired timers have to say to those above: whom to wake, what to call. See sched/timers.h.
struct harvest;

// A pending timer's place in a heap. Type-stable, so that a timer can be cancelled without the
// heap's lock: the node stays where it is, for nobody, until the heap comes across it.
struct timer_node {
  atomic<timer*> who{nullptr};  // null: cancelled, or about to fire
  atomic<timer_heap*> heap{nullptr};
  timer_node* next_free = nullptr;
};

struct timer {
  // Its time has come. Called under the heap's lock by whatever thread finds it: takes no lock,
  // wakes nobody, but adds to the harvest. Returns when to fire again, or 0.
  using callback = os::nanos (*)(timer&, os::nanos now, harvest&);

  // The runtime has ended, and it was pending: it never fires. Called without any lock, when it
  // is idle again. May be null; not for a timer that somebody else may free meanwhile.
  using farewell = void (*)(timer&);

  explicit timer(callback f, farewell a = nullptr) : fire(f), abandoned(a) {}
  timer(const timer&) = delete;
  timer& operator=(const timer&) = delete;

  // True: it was pending, and will not fire. False: it has fired, or was never set. Nobody touches
  // the timer any more in either case. By its owner, who is also the one who adds it, and while
  // the runtime whose heap it is in cannot end.
  bool cancel();

  // The same for one who does not know whether that runtime still is.
  bool cancel_from_afar();

  const callback fire;
  const farewell abandoned;
  os::nanos when = 0;
  atomic<bool> pending{false};
  timer_node* node = nullptr;
};

}  // namespace magpie::rt
