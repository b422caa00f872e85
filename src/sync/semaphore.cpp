// semaphore.cpp: units for those who come first.
//
// While nobody waits, taking and giving back are one step each. While somebody does, everything
// happens under the lock: units are given to the first on the list until they do not suffice for
// it. Only under the lock does the bit for "somebody waits" change.

#include <magpie/semaphore.h>

#include <magpie/errors.h>

#include "sched/waiting.h"

namespace magpie {

using namespace rt;

namespace {
constexpr std::int64_t k_unit = 2;
constexpr std::int64_t k_waits = 1;
}  // namespace

struct semaphore::waiting : waiter {
  wait_node node{*this};
  std::int64_t wanted = 0;

  static waiting& of(const wait_node& n) { return *static_cast<waiting*>(n.who); }
};

std::int64_t semaphore::checked(std::ptrdiff_t units) {
  if (units < 0 || units > max()) throw misuse("semaphore: number of units out of range");
  return units * k_unit;
}

semaphore::semaphore(std::ptrdiff_t units) : state_(checked(units)) {}

bool semaphore::try_acquire(std::ptrdiff_t units) {
  const std::int64_t wanted = checked(units);
  std::int64_t found = state_.load(rt::relaxed);  // relaxed: the exchange decides
  while ((found & k_waits) == 0 && found >= wanted) {
    // acquire pairs with the release in release().
    if (state_.compare_exchange_weak(found, found - wanted, rt::acquire, rt::relaxed)) return true;
  }
  return false;
}

bool semaphore::acquire_slow(std::ptrdiff_t units, time_point deadline) {
  entry inside;
  waiting me;
  me.wanted = checked(units);
  me.object = this;
  me.contested = deadline != never;
  object_guard held(lock_);
  std::int64_t found = state_.load(rt::relaxed);  // relaxed: the exchange decides
  for (;;) {
    const bool got = (found & k_waits) == 0 && found >= me.wanted;
    const std::int64_t next = got ? found - me.wanted : found | k_waits;
    // acquire: as in try_acquire(); the bit is under the lock.
    if (!state_.compare_exchange_weak(found, next, rt::acquire, rt::relaxed)) continue;
    if (got) return true;
    break;
  }
  push_back(waiting_, me.node);
  if (deadline == never) {
    inside.block(me, wait_reason::semaphore_acquire, held);
    return true;
  }
  if (inside.block_until(me, wait_reason::semaphore_acquire, held, to_nanos(deadline))) return true;
  // Those behind us may be content with what is there.
  wake_list woken;
  {
    const object_guard again(lock_);
    remove(waiting_, me.node);
    serve(&woken);
  }
  woken.wake_all(inside.m());
  return false;
}

// To the first, and the next, as far as it goes. Under the lock.
void semaphore::serve(void* raw) {
  auto& woken = *static_cast<wake_list*>(raw);
  const std::int64_t found =
      state_.load(rt::relaxed);        // relaxed: nobody else changes it, see below
  if ((found & k_waits) == 0) return;  // the list is empty, and others need no lock
  std::int64_t units = found & ~k_waits;
  while (wait_node* const first = waiting_.first) {
    waiting& next = waiting::of(*first);
    if (next.wanted > units) break;
    remove(waiting_, *first);
    if (!next.decide(first)) continue;  // its time is up; it comes for the lock in a moment
    units -= next.wanted;
    woken.add(next);
  }
  // release: as in release(), for those who need not wait any more.
  state_.store(units | (waiting_.first != nullptr ? k_waits : 0), rt::release);
}

void semaphore::release(std::ptrdiff_t units) {
  const std::int64_t given = checked(units);
  std::int64_t found = state_.load(rt::relaxed);  // relaxed: the exchange decides
  for (;;) {
    if ((found & k_waits) == 0) {
      if (found > max() * k_unit - given) throw misuse("semaphore: too many units");
      // release pairs with the acquire in try_acquire(). The last touch: see mutex.cpp.
      if (state_.compare_exchange_weak(found, found + given, rt::release, rt::relaxed)) return;
      continue;
    }
    const entry inside;
    wake_list woken;
    {
      const object_guard held(lock_);
      found = state_.load(rt::relaxed);  // relaxed: nobody else changes it while the bit is set
      if ((found & k_waits) == 0) continue;
      state_.store(found + given, rt::relaxed);  // relaxed: serve() publishes it
      serve(&woken);
    }
    return woken.wake_all(inside.m());
  }
}

}  // namespace magpie
