// P: the right to run goroutines, and everything that goes with it. As many as there are, so
// many goroutines run at once. An M holds it, or it is on the idle list, or its M is in a
// blocking call and it waits to be taken back or taken away.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/cacheline.h"
#include "base/intrusive.h"
#include "fiber/stack_pool.h"
#include "goroutine/g.h"
#include "os/clock.h"
#include "poll/file_ring.h"
#include "sched/counter.h"
#include "sched/latency.h"
#include "sched/run_queue.h"
#include "sched/usage.h"
#include "timer/timer_heap.h"
#include "trace/stream.h"

namespace magpie::rt {

struct M;

struct p_counters {
  counter spawned, finished, parks, readies, yields;
  counter steal_attempts, steals, stolen;
  counter hand_offs, preemptions;
  counter calls_begun, calls_ended;  // of blocking()
  counter io_waits_begun, io_waits_ended;
  counter mutex_wait;  // ticks; of goroutines that have gone on here
  counter searching;   // ticks
};

struct alignas(k_cache_line) P {
  P(int number, stack_pool& pool) : id(number), stacks(pool) {}

  const int id;

  // How many slices those in the queue have had: all that have begun, but for those of the stopped;
  // and a chain through run_next that was ended has had one more. Any thread.
  std::uint64_t queue_turns() const { return slices.read() + stopped.others_turns.read(); }

  // Any thread, as its own file says.
  run_queue queue;

  // How many goroutines this P has started; and how many of them with a time slice of their own,
  // which those from run_next have not. Written by the owner.
  counter turns;
  counter slices;
  p_counters counters;

  // Any thread. Filled by the owner, emptied by whoever finds that it is time.
  timer_heap timers;

  // Owner only.
  alignas(k_cache_line) goroutine_stack free_gs;
  latency_sampler sampler;
  stack_cache stacks;
  std::uint64_t next_goroutine_id = 0;  // of a batch this P drew; equal to the end: draw anew
  std::uint64_t end_goroutine_id = 0;
  struct {
    std::uint64_t slices = 0;
    std::uint64_t since = 0;                // ticks
    std::uint64_t slices_at_last_look = 0;  // at the global queue, out of turn
  } chain;  // the turns since `slices` changed, all through run_next; see schedule.cpp

  // Stack pointers of those who came from the global queue and have waited for long, in the order
  // of their turns. See turn.h.
  struct {
    std::uint32_t next = 0, count = 0;
    const void* at[run_queue::k_half];
  } cold;

  struct {
    std::size_t count = 0;      // of goroutines got from elsewhere; 0: judged already
    std::uint64_t since = 0;    // ticks
    std::uint64_t turns = 0;    // of this P, then
    const P* victim = nullptr;  // null: nobody in particular
    std::uint64_t others_turns = 0;
    int poor = 0;  // so many in a row were not worth it
    std::uint64_t hold_back_until = 0;
  } loot;  // see steal.cpp
  struct {
    std::uint64_t progress = 0;
    std::uint64_t seen_at = 0;  // ticks
    bool get_on = false;
  } others;  // see others_get_on()

  struct {
    os::nanos next = 0;
    std::uint64_t look_at = 0;  // ticks: not before that
  } timer_watch;                // see timer_is_due()

  // For files; null: none, so far. Made by the owner, collected from by any thread.
  atomic<file_ring*> ring{nullptr};

  static constexpr std::uint64_t k_unknown_pace = ~std::uint64_t{0};
  struct {
    std::uint64_t turns = 0;              // when something was delivered here; 0: not since
    std::uint64_t since = 0;              // ticks
    std::uint64_t turn = k_unknown_pace;  // ticks that a turn took lately
  } pace;                                 // see polling.cpp

  struct {
    std::uint64_t preemptions = 0;  // as counted when the last one ended
    std::uint32_t considerate = 0;  // so many more end with a yield
    std::uint32_t count = 0;
  } quick_calls;                          // see scheduler::end_quick_call()
  std::uint64_t yields_at_last_look = 0;  // as in `chain`; those unasked for are added

  // Who holds it. Written by the holder or under the scheduler's lock; read by the monitor.
  atomic<M*> m{nullptr};

  // Ms that were stopped in the middle of user code and go on with this P, oldest first. The list
  // under the scheduler's lock; what is atomic may be read by any thread.
  struct {
    M* first = nullptr;
    M* last = nullptr;
    atomic<std::uint32_t> count{0};
    // The first one's turn has come when those in the queue have had so many; see queue_turns().
    atomic<std::uint64_t> due{0};
    // To be added to `slices` for that. Written by the owner.
    counter others_turns;
  } stopped;
  // Somebody who must not wait is in the global queue: look there first.
  atomic<bool> urged{false};
  // The slice with that number has begun at a time that is known better than by a look.
  struct {
    atomic<std::uint64_t> slices{0};
    atomic<os::nanos> since{0};
  } dated;

  // Beyond the present number of Ps: whoever holds it gives it up at the next turn.
  atomic<bool> retired{false};

  // Under the scheduler's lock.
  list_links<P> idle_links;
  bool off = false;  // retired, and nobody holds it any more
  p_usage usage;
  struct {
    std::uint64_t slices = 0, calls = 0, turns = 0;
    os::nanos slice_since = 0, call_since = 0;
    const M* m = nullptr;
    os::nanos cpu_time = 0;  // of m's thread
    os::nanos looked_at = 0, asleep_since = 0;
  } watched;  // what the monitor saw last, and since when

  rt::trace::proc trace;
  latency_histogram latencies;  // of those who were timed and began here. Written by the owner
};

}  // namespace magpie::rt
