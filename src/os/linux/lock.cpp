// Invariant: word_ is held_with_waiters whenever a thread sleeps in futex_wait for it. A thread
// that has slept once therefore acquires with held_with_waiters, not held: it cannot know whether
// it was the only sleeper. The price is one futex_wake too many at the end of a contended phase.

#include "os/lock.h"

#include "base/check.h"
#include "os/clock.h"
#include "os/fork.h"

namespace magpie::rt::os {
namespace {

#ifndef NDEBUG
// The ranks this thread holds, in the order it took them. A lock is released on the thread that
// took it: the scheduler moves goroutines to other threads only while they hold none.
struct held_ranks {
  static constexpr int k_deepest = 16;
  lock_rank ranks[k_deepest];
  int count = 0;
};
thread_local held_ranks t_held;

[[gnu::noinline]] void note_acquired(lock_rank rank) {
  held_ranks& held = t_held;
  MAGPIE_CHECK(held.count < held_ranks::k_deepest, "too many runtime locks held at once");
  for (int i = 0; i < held.count; ++i) {
    MAGPIE_CHECK(held.ranks[i] < rank, "runtime locks taken out of rank order");
  }
  held.ranks[held.count++] = rank;
}

[[gnu::noinline]] void note_released(lock_rank rank) {
  held_ranks& held = t_held;
  for (int i = held.count - 1; i >= 0; --i) {
    if (held.ranks[i] != rank) continue;
    for (; i + 1 < held.count; ++i) held.ranks[i] = held.ranks[i + 1];
    --held.count;
    return;
  }
  MAGPIE_CHECK(false, "a runtime lock released by a thread that does not hold it");
}
#else
void note_acquired(lock_rank) {}
void note_released(lock_rank) {}
#endif

// Counted from before the lock is taken until after it was released, as a handler on this thread
// sees it.
thread_local int t_locks_held = 0;

void count_up() {
  ++t_locks_held;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // before the lock, for the handler
}
void count_down() {
  std::atomic_signal_fence(std::memory_order_seq_cst);  // after it
  --t_locks_held;
}

// A section under a runtime lock takes less than a microsecond; falling asleep and being woken
// costs five to fifty. Spinning about as long as the former avoids most of the latter.
constexpr int k_spins = 40;

}  // namespace

member_lock::~member_lock() {
  // relaxed: nobody else may use a lock that is being destroyed.
  MAGPIE_DCHECK(word_.load(relaxed) == free, "a runtime lock destroyed while held");
}

void lock::acquire() {
  count_up();  // first of all: the handler may not meet a rank that is not counted
  // Checked before waiting: the wrong order is reported instead of deadlocking.
  note_acquired(rank_);
  std::uint32_t expected = free;
  // acquire pairs with the release in release(): what the last holder wrote is visible.
  if (!word_.compare_exchange_strong(expected, held, rt::acquire, relaxed)) acquire_slow();
}

void lock::acquire_slow() {
  for (int i = 0; i < k_spins; ++i) {
    cpu_relax();
    std::uint32_t expected = free;
    // relaxed look first: a failing compare-exchange would take the cache line from the holder.
    if (word_.load(relaxed) == free &&
        word_.compare_exchange_weak(expected, held, rt::acquire, relaxed)) {  // as in acquire()
      return;
    }
  }
  // acquire as in acquire(): the exchange that finds `free` takes the lock.
  const nanos give_up = in_forked_child() ? now() + k_lost_lock : k_never;
  while (word_.exchange(held_with_waiters, rt::acquire) != free) {
    futex_wait(word_, held_with_waiters, give_up);
    if (give_up != k_never && now() >= give_up) fail_in_forked_child();
  }
}

bool lock::try_acquire() {
  count_up();
  std::uint32_t expected = free;
  // acquire pairs with the release in release().
  if (!word_.compare_exchange_strong(expected, held, rt::acquire, relaxed)) {
    count_down();
    return false;
  }
  note_acquired(rank_);
  return true;
}

void lock::release() {
  note_released(rank_);
  futex_word* const word = &word_;
  // release pairs with the acquire of the next holder. After it the lock may be gone: the next
  // holder can destroy it, so only its address is used.
  const std::uint32_t before = word_.exchange(free, rt::release);
  MAGPIE_CHECK(before != free, "release of a runtime lock that is not held");
  if (before == held_with_waiters) futex_wake(word, 1);
  count_down();
}

bool lock::try_seize() {
  count_up();
  std::uint32_t expected = free;
  // acquire pairs with the release in release().
  if (word_.compare_exchange_strong(expected, held, rt::acquire, relaxed)) return true;
  count_down();
  return false;
}

void lock::let_go() {
  // release pairs with the acquire of the next holder.
  if (word_.exchange(free, rt::release) == held_with_waiters) futex_wake(&word_, 1);
  count_down();
}

int locks_held() { return t_locks_held; }

void assert_no_locks_held() {
#ifndef NDEBUG
  MAGPIE_CHECK(t_held.count == 0, "a runtime lock is held where none may be");
#endif
}

}  // namespace magpie::rt::os
