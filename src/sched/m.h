// M: a thread of the runtime. With a P it runs goroutines or looks for one; without, it sleeps or
// is inside a blocking call.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/intrusive.h"
#include "base/random.h"
#include "fiber/fiber.h"
#include "goroutine/g.h"
#include "os/note.h"
#include "os/signal.h"
#include "os/thread.h"
#include "sched/block_cache.h"
#include "sched/call_history.h"
#include "sched/p.h"
#include "trace/stream.h"

namespace magpie::rt {

class scheduler;

// What must happen to a goroutine after its thread has left its stack: the landing side does it
// first thing. Until then nobody else may know that the goroutine has stopped.
//
// False: it does not wait after all, and becomes runnable at once.
struct M;
using park_commit = bool (*)(M&, void* argument);

struct M : thread_state {
  M(scheduler& home, int number, std::uint64_t seed) : scheduler_(home), id(number), random(seed) {}

  scheduler& scheduler_;
  const int id;
  const os::thread_id thread = os::current_thread_id();

  rt::fiber own;         // the thread's own stack: looks for work, sleeps
  G* current = nullptr;  // the goroutine it runs
  P* p = nullptr;
  random_source random;
  run_queue::popped found;           // by next_local(), for find_runnable() to hand out
  G* stopped_locked = nullptr;       // the goroutine locked to this thread has stopped: wait for it
  bool ends_with_goroutine = false;  // one that was locked to this thread has ended
  bool prefers_newest = false;       // see pop_local()
  int glances = 0;                   // as watcher, since it last slept in the poller
  int vain_searches = 0;             // since it last found something to steal
  os::nanos unannounced_timer = os::k_never;  // the earliest it has added on its way here
  bool spinning = false;  // looks for work without having any; counted in idle_state::spinning
  // Of the goroutine it ends with: deleted by the thread, outside of everything.
  goroutine_extra* left_extra = nullptr;

  // The gate: how deep this thread is inside the runtime. At 0 user code runs, which may be
  // stopped anywhere; above, the P and all that belongs to it are safe. See gate.h.
  atomic<std::uint32_t> depth{1};
  atomic<bool> yield_requested{false};  // the time slice is over
  // Its P was taken away from outside the gate, or is about to be. Written under the scheduler's
  // lock; while it is true and the lock is free, the M is an orphan.
  atomic<bool> retake{false};
  bool in_call = false;  // inside blocking()

  // Stopped by a signal, or about to be; see preempt.cpp.
  struct {
    // What the signal on its way is for: 0 for none, else the slice it is to end and why.
    atomic<std::uint64_t> request{0};
    atomic<bool> look{false};  // somebody wants to see the stack; see snapshot.cpp
    os::thread_timer timer;
    // Under the scheduler's lock.
    os::nanos asked_at = 0;
    M* next = nullptr;  // on P::stopped
    std::uint64_t due = 0;
    os::nanos slice_used = 0;  // before it was stopped; 0: all of it
  } stop;

  // What the landing side of a switch has to do for the one who left; see finish_switch().
  struct {
    void (*finish)(M&) = nullptr;
    G* g = nullptr;
    park_commit commit = nullptr;
    void* argument = nullptr;
    rt::stack* stack = nullptr;
  } leaving;

  // Inside a blocking call: the P it has left here, for itself when it comes back or for the
  // monitor when that takes too long. Whoever swaps it out owns the P.
  atomic<P*> call_p{nullptr};
  atomic<std::uint64_t> calls{0};  // how many it has made
  atomic<call_history::site> call_site{0};
  std::uint64_t handed_off_at = 0;  // ticks; 0: it kept its P for a start

  // Under the scheduler's lock, but for the note.
  list_links<M> all_links;
  list_links<M> idle_links;
  list_links<M> orphan_links;
  struct {
    os::nanos cpu_time = 0;      // when its P was taken
    os::nanos asleep_since = 0;  // by then
    bool reported = false;       // that it sleeps; see stalls.cpp
  } orphan;
  os::note wake;
  P* handed_p = nullptr;  // what it wakes up with; null: the runtime ends
  bool handed_spinning = false;

  // Goroutines seen in the run_next of other Ps, which are not to be stolen at once; a slot for
  // each P, shared by those with equal id modulo the size. See steal.cpp.
  struct sighting {
    const G* g = nullptr;
    std::uint64_t turns = 0;
    std::uint64_t since = 0;  // ticks
  };
  sighting sightings[16];

  block_cache future_states;  // the thread's own, in user code; not for the scheduler

  rt::trace::stream trace{static_cast<std::uint64_t>(thread)};
};

}  // namespace magpie::rt
