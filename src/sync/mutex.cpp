// mutex.cpp: what happens when a mutex is not free, or somebody waits for it.
//
// One word decides who has it: k_locked. Three more bits tell the one who unlocks what else there
// is to do:
//
//   k_waiting   somebody is on the list;
//   k_on_way    somebody who wants it is awake and will come and look: it need not be woken;
//   k_give      the first on the list has waited long enough: it is given the mutex.
//
// Throughput against fairness. To give the mutex to the first who waits is fair, but then nobody
// has any use of it until that one runs, and everybody who comes meanwhile has to wait, too: a
// queue that builds up never ends. To free it and wake the first leaves it to whoever runs now,
// which is fast, but one who is woken may find it taken again and again. So: free and wake, once;
// one who was woken in vain, or has waited for a millisecond, is given it. While somebody is on
// its way nobody else is woken.
//
// k_on_way is a promise: whoever set it, or was woken with it, takes the bit away in the same step
// in which it takes the mutex or finds it locked. So a mutex that is free while somebody is on
// the list always has somebody on the way. Two may share the bit; then one too many is woken, and
// nothing is lost.
//
// k_waiting and k_give change under the object's lock only. A mutex with k_give set is locked: it
// is never free, so nobody can be faster than the one it is for.
//
// Lifetime. Somebody else may take a free mutex, unlock and destroy it at once. So the step that
// frees it is the last touch of the one who unlocks, unless it has taken one who waits off the
// list and not woken it yet: that one is inside lock(), and nobody may destroy the mutex before.

#include <magpie/mutex.h>

#include "base/check.h"
#include "sched/waiting.h"
#include "sync/spinning.h"

namespace magpie {

using namespace rt;

namespace {

constexpr std::uint32_t k_waiting = 2;
constexpr std::uint32_t k_on_way = 4;
constexpr std::uint32_t k_give = 8;

}  // namespace

struct mutex::waiting : waiter {
  wait_node node{*this};
  std::uint64_t since = 0;  // ticks; over all attempts. Once woken: for how long
  bool in_vain = false;     // was woken before, and found it locked
  bool given = false;       // it is ours

  static waiting& of(const wait_node& n) { return *static_cast<waiting*>(n.who); }
};

// ---- Locking ----------------------------------------------------------------------------------

bool mutex::try_lock_slow() {
  std::uint32_t found = state_.load(relaxed);  // relaxed: the exchange decides
  while ((found & k_locked) == 0) {
    // acquire: as in lock().
    if (state_.compare_exchange_weak(found, found | k_locked, acquire, relaxed)) return true;
  }
  return false;
}

// False: the time is up.
bool mutex::lock_slow(time_point deadline) {
  entry inside;
  std::uint64_t since = 0;
  bool on_the_way = false;
  for (;;) {
    if (spin_for_it(inside.m(), on_the_way)) {
      if (since != 0) inside.note_mutex_wait(os::ticks() - since);
      return true;
    }
    const bool timed = deadline != never;
    const bool time_is_up = timed && os::now() >= to_nanos(deadline);
    waiting me;
    me.in_vain = since != 0;
    me.since = since != 0 ? since : os::ticks();
    me.contested = timed;
    me.object = this;
    since = me.since;

    object_guard held(lock_);
    const std::uint32_t give = me.in_vain ? k_give : 0;
    const bool taken = take_or_stay(on_the_way, time_is_up ? 0 : k_waiting | give);
    if (taken || time_is_up) {
      if (me.in_vain) inside.note_mutex_wait(os::ticks() - since);
      return taken;
    }
    if (me.in_vain) {
      push_front(waiting_, me.node);
    } else {
      push_back(waiting_, me.node);
    }
    me.holder = &holder_;
    if (!timed) {
      inside.block(me, wait_reason::mutex_lock, held);
    } else if (!inside.block_until(me, wait_reason::mutex_lock, held, to_nanos(deadline))) {
      give_up(me);
      inside.note_mutex_wait(os::ticks() - since);
      return false;
    }
    if (me.given) {
      inside.note_mutex_wait(me.since);
      return true;
    }
    on_the_way = true;
  }
}

// A short while; once, where that does not pay.
bool mutex::spin_for_it(M* m, bool& on_the_way) {
  const bool pays = spinning_pays(m);
  for (int i = 0; i < k_spins; ++i) {
    std::uint32_t found = state_.load(relaxed);  // relaxed: the exchange decides
    if ((found & k_locked) == 0) {
      const std::uint32_t taken = (found | k_locked) & ~(on_the_way ? k_on_way : 0);
      // acquire: as in lock().
      if (state_.compare_exchange_strong(found, taken, acquire, relaxed)) return true;
      continue;
    }
    if (!pays || (found & k_give) != 0) return false;
    if (!on_the_way && (found & (k_waiting | k_on_way)) == k_waiting) {
      // relaxed: keeps the holder from waking somebody; nothing is published.
      on_the_way = state_.compare_exchange_strong(found, found | k_on_way, relaxed);
    }
    if (i == 0 && others_rush(state_)) {
      stay_away();
    } else {
      pause_between_spins(i);
    }
  }
  return false;
}

// True: we have it. Otherwise whoever has it will see the marks. Under the object's lock.
bool mutex::take_or_stay(bool& on_the_way, std::uint32_t marks) {
  const std::uint32_t arrived = on_the_way ? k_on_way : 0;
  std::uint32_t found = state_.load(relaxed);  // relaxed: the exchange decides
  for (;;) {
    const bool is_free = (found & k_locked) == 0;
    const std::uint32_t next = (found & ~arrived) | (is_free ? k_locked : marks);
    // Who unlocks a mutex with k_waiting and nobody on the way comes for the object's lock first.
    if (next == found && (found & (k_waiting | k_on_way)) == k_waiting) return false;
    // acquire: as in lock(); the marks need no order, the list is under the lock.
    if (!state_.compare_exchange_weak(found, next, acquire, relaxed)) continue;
    on_the_way = false;
    return is_free;
  }
}

// The time is up. Whoever decided for us instead has taken us off, but not this time.
void mutex::give_up(waiting& me) {
  const object_guard held(lock_);
  remove(waiting_, me.node);
  set_marks(0, 0);
}

// Makes the marks say what the list says, and changes two other bits along with them. Under the
// object's lock.
void mutex::set_marks(std::uint32_t clear, std::uint32_t set) {
  const wait_node* const first = waiting_.first;
  const std::uint32_t marks = (first != nullptr ? k_waiting : 0) |
                              (first != nullptr && waiting::of(*first).in_vain ? k_give : 0);
  std::uint32_t found = state_.load(relaxed);  // relaxed: the exchange decides
  for (;;) {
    const std::uint32_t next = (found & ~(clear | k_waiting | k_give)) | set | marks;
    // release: as in release_quickly(), where it frees the mutex.
    if (next == found || state_.compare_exchange_weak(found, next, release, relaxed)) return;
  }
}

// ---- Unlocking --------------------------------------------------------------------------------

void mutex::unlock_slow() {
  if (release_quickly()) return;
  entry inside;
  // One who starved gets this processor along with the mutex.
  if (unlock_from(inside.m()) && inside.m() != nullptr) inside.yield();
}

// Nobody has to be woken: one step.
bool mutex::release_quickly() {
  std::uint32_t found = state_.load(relaxed);  // relaxed: the exchange decides
  for (;;) {
    if ((found & k_locked) == 0) fatal("unlock of unlocked mutex");
    const bool quick = (found & k_waiting) == 0 || (found & (k_on_way | k_give)) == k_on_way;
    if (!quick) return false;
    // release pairs with the acquire of whoever locks it next.
    if (state_.compare_exchange_weak(found, found & ~k_locked, release, relaxed)) return true;
  }
}

// Somebody had to be woken. True: it went to one who had starved. `m`: the caller's, inside the
// gate.
bool mutex::unlock_from(M* m) {
  do {
    object_guard held(lock_);
    wait_node* const node = pop_front(waiting_);
    if (node == nullptr) {  // their time was up: there is nobody to wake
      set_marks(0, 0);
      continue;
    }
    waiting& next = waiting::of(*node);
    next.since = os::ticks() - next.since;
    const bool starved = next.since > patience();
    next.given = starved || next.in_vain;
    // Not given: it is free from here on. `next` is on its way, and the mutex stays until then.
    if (next.given) {
      set_marks(0, 0);
    } else {
      set_marks(k_locked, k_on_way);
    }
    held.unlock();
    next.wake(m);
    return starved;
  } while (!release_quickly());
  return false;
}

}  // namespace magpie
