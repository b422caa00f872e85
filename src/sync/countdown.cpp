// countdown.cpp: the waiting of wait_group and latch.
//
// The state is changed by one atomic step, by whoever counts. The bit for "somebody waits" is set
// under the object's lock, only while the number is not zero, and before the lock is released its
// owner is on the list. So the one change that leads to zero with the bit set owns the list: it
// takes the list, under the lock, then the bit away, and wakes.
//
// Misuse. A done() below zero, or an add() up from a zero that somebody waits for, has happened
// before it is noticed, and is undone. Nobody may be forgotten because of what is seen in between:
// an owner that does not find the state as it left it leaves list and bit to whoever brings the
// state back to k_wake, for that one is an owner, too; and one whose done() came out below zero
// tries again when others have undone theirs. add() of a negative number never gets below zero.
//
// Lifetime. The first of those who wait for the zero may destroy the object when it is back. So
// whoever takes the bit away does not touch the object afterwards, nor does one who was woken; and
// one who finds the number zero, but the bit still set, waits for that last touch.

#include <magpie/detail/countdown.h>

#include <magpie/errors.h>
#include <magpie/go.h>
#include <magpie/wait_group.h>

#include "os/thread.h"
#include "sched/waiting.h"

namespace magpie::detail {

using namespace rt;

namespace {

constexpr wait_reason reason_of(countdown::kind k) {
  return k == countdown::kind::latch ? wait_reason::latch_wait : wait_reason::wait_group_wait;
}

}  // namespace

// False: the number is zero.
bool countdown::wait_unless_zero(kind k) {
  entry inside;
  object_guard held(lock_);
  state found = state_.load(relaxed);  // relaxed: the exchange decides
  while (found > k_wake) {
    // relaxed: who sees the bit takes the lock.
    if (!state_.compare_exchange_weak(found, found | k_wake, relaxed)) continue;
    waiter me;
    me.object = this;
    wait_node node{me};
    push_back(waiting_, node);
    inside.block(me, reason_of(k), held);
    return true;
  }
  return false;
}

// Outside the gate: the owner may have been stopped on its way to wake_all(), and need the P.
void countdown::wait(kind k) {
  if (wait_unless_zero(k)) return;
  const auto owner_is_about = [this] {
    const state now = read();
    return now <= k_wake && (now & k_wake) != 0;
  };
  while (owner_is_about()) this_goroutine::yield();
}

void countdown::wake_all() {
  const entry inside;
  wake_list woken;
  {
    const object_guard held(lock_);
    if (state_.load(relaxed) != k_wake) return;  // relaxed: a change is its own; see above
    woken.add_all(waiting_);
  }
  state expected = k_wake;
  // release pairs with read(). The last touch. On failure another owner is to come.
  state_.compare_exchange_strong(expected, 0, release, relaxed);
  woken.wake_all(inside.m());
}

void countdown::undo(state by) {
  if (change(-by) - by == k_wake) wake_all();
}

bool countdown::take_away(state by) {
  state found = read();
  for (;;) {
    if (found < 0) {  // somebody is about to undo what he did
      os::yield_thread();
      found = read();
    } else if (found < by) {
      return false;
    } else if (state_.compare_exchange_weak(found, found - by, acq_rel, acquire)) {  // as change()
      if (found - by == k_wake) wake_all();
      return true;
    }
  }
}

// ---- wait_group's -----------------------------------------------------------------------------

void throw_wait_group_misuse(const char* what) { throw misuse(what); }

void take_away_or_throw(countdown& number, countdown::state by) {
  if (!number.take_away(by)) throw_wait_group_misuse("negative wait_group counter");
}

// `by` led to zero or below, or came up from there.
void end_of_change(countdown& number, countdown::state by, countdown::state was) {
  const countdown::state is = was + by;
  if (is == countdown::k_wake && by != 0) return number.wake_all();
  if (is < 0 && by < 0) {
    number.undo(by);
    return take_away_or_throw(number, -by);
  }
  if (was == countdown::k_wake && by > 0) {
    number.undo(by);
    throw_wait_group_misuse("wait_group: add called concurrently with wait");
  }
}

}  // namespace magpie::detail
