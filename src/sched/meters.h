// Everything there is to measure about a runtime, as numbers: for metrics and the debug server.
// Counters are read where their owners keep them, without a lock; what is a list or a state, under
// the scheduler's, for a moment. Nobody is stopped.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <magpie/runtime.h>

#include "os/clock.h"
#include "sched/latency.h"

namespace magpie::rt {

enum class p_state : std::uint8_t {
  idle,
  busy,     // an M has it, and runs a goroutine or looks for one
  in_call,  // its M is in a blocking call, and has it beside
};

const char* p_state_text(p_state);

struct p_meters {
  p_state state = p_state::idle;
  std::size_t queued = 0;   // run_next and the ring
  std::size_t stopped = 0;  // preempted, to go on here
  std::size_t timers = 0;
  std::uint64_t turns = 0, spawned = 0, steals = 0, stolen = 0, preemptions = 0;
};

struct meters {
  stats all;
  // The goroutines alive, by state. Their sum is all.goroutines.
  std::uint64_t running = 0, runnable = 0, waiting = 0;
  std::uint64_t in_calls = 0;  // in blocking(), or in a call that a P was taken from
  std::uint64_t stopped = 0;   // preempted in the middle of user code; among the runnable
  std::uint64_t turns = 0, yields = 0, calls = 0, stalls = 0, polls = 0;
  std::uint64_t io_waiters = 0;  // for descriptors
  std::size_t timers = 0;        // pending
  std::size_t stacks_in_use = 0, stacks_free = 0, stack_bytes_reserved = 0;
  os::nanos uptime = 0;
  // The time of the Ps, from when each was first there: what they spent on user code and blocking
  // calls, on looking for work, and idle.
  struct {
    os::nanos user = 0, searching = 0, idle = 0;
    os::nanos total() const { return user + searching + idle; }
  } cpu;
  os::nanos mutex_wait = 0;  // of all goroutines, in mutex and shared_mutex
  std::array<std::uint64_t, latency_histogram::k_buckets> latencies{};
  std::uint64_t latency_sum = 0;  // nanoseconds
  std::vector<p_meters> ps;
};

// Of the caller's runtime, or the default one.
meters read_meters();
meters read_meters(const runtime&);

}  // namespace magpie::rt
