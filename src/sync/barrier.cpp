// barrier.cpp: phases, all under the object's lock: everybody who comes has to wait anyway.
//
// The last who arrives leaves the lock to call the completion function. Nobody else may arrive in
// the meantime, since nobody is missing, and those who come to wait find the old phase.

#include <magpie/barrier.h>

#include <magpie/errors.h>

#include "sched/waiting.h"

namespace magpie::detail {

using namespace rt;

barrier_core::barrier_core(std::ptrdiff_t expected) : expected_(expected), missing_(expected) {
  if (expected < 0) throw misuse("barrier: expected count out of range");
}

bool barrier_core::arrive(std::ptrdiff_t count, std::ptrdiff_t leave_for_good,
                          std::uint64_t& phase) {
  bool fits;
  bool last = false;
  {
    const entry inside;
    const object_guard held(lock_);
    fits = count > 0 && count <= missing_;
    if (fits) {
      phase = phase_;
      expected_ -= leave_for_good;
      missing_ -= count;
      last = missing_ == 0;
    }
  }
  if (!fits) throw misuse("barrier: more arrivals than expected");
  return last;
}

void barrier_core::begin_next_phase() {
  const entry inside;
  wake_list woken;
  {
    const object_guard held(lock_);
    ++phase_;
    missing_ = expected_;
    woken.add_all(waiting_);
  }
  woken.wake_all(inside.m());
}

void barrier_core::wait(std::uint64_t phase) {
  entry inside;
  object_guard held(lock_);
  if (phase_ != phase) return;
  waiter me;
  me.object = this;
  wait_node node{me};
  push_back(waiting_, node);
  inside.block(me, wait_reason::barrier_wait, held);
}

}  // namespace magpie::detail
