// shared_mutex.cpp: readers that do not meet, and writers that find them all the same.
//
// The state counts readers and has five bits:
//
//   k_writer     a writer has it;
//   k_queued     somebody is on a list: who comes now waits, too, and who leaves looks at the
//   lists; k_slots      readers may mark themselves in slots instead of being counted; k_gathering
//   somebody turns readers in slots into counted ones: nobody gets it meanwhile.
//
// A counter that every reader writes is a cache line that travels between processors with every
// lock. So there is a table for the whole process, a line of slots for each reader's goroutine (by
// hash), and a reader puts the address of the lock into a slot of its line. All holds of readers
// are alike: an unlock takes back any one of them, its own line's first, a counted one else. So it
// does not matter where or by whom it is unlocked.
//
//   reader:  [mark] its slot             [look] k_slots is still set: it has the lock
//   writer:  [close] k_slots taken away  [find] every slot with this lock: counted, and emptied
//
// Both pairs are sequentially consistent: either the reader sees the slots closed, or the writer
// finds it. A reader that sees them closed takes its mark back; if the mark is gone by then, the
// writer has counted it, and it has the lock after all.
//
// While k_gathering is set the count may be off, even below zero for a moment (it wraps around in
// the upper bits): a hold is counted before its slot is emptied, and taken back if the reader was
// faster. Nobody decides by the count then; the one who gathers settles it afterwards.
//
// Gathering costs a look at the whole table. After it, slots stay closed for nine times as long as
// it took: writers lose at most a tenth of the time with it. They are opened when readers meet.
//
// Lifetime: as in mutex.cpp. A reader in a slot does not touch the lock when it leaves.

#include <magpie/shared_mutex.h>

#include <algorithm>

#include "base/cacheline.h"
#include "base/check.h"
#include "os/thread.h"
#include "sched/waiting.h"
#include "sync/spinning.h"

namespace magpie {

using namespace rt;

namespace {

constexpr std::uint32_t k_queued = 2;
constexpr std::uint32_t k_slots = 4;
constexpr std::uint32_t k_gathering = 8;
constexpr std::uint32_t k_on_way = 16;

constexpr std::uint64_t k_rest_factor = 9;

constexpr unsigned k_line_bits = 8;
struct alignas(k_cache_line) slot_line {
  atomic<const void*> slots[k_cache_line / sizeof(void*)];
};
constinit slot_line g_lines[1u << k_line_bits] = {};

// The line of the calling goroutine, or of the thread outside of one.
slot_line& own_line() {
  const M* const m = current_m();
  const void* const who = m != nullptr ? m->current : __builtin_thread_pointer();
  const auto mixed = reinterpret_cast<std::uintptr_t>(who) * std::uint64_t{0x9E3779B97F4A7C15};
  return g_lines[mixed >> (64 - k_line_bits)];
}

// Calls `attempt` some times, if those who have the lock may be running elsewhere: most hold it for
// less than it costs to wait. Not when others wait already: it is theirs first.
template <class Attempt>
bool spin(const M* m, const atomic<std::uint32_t>& state, Attempt attempt) {
  if (!spinning_pays(m)) return false;
  for (int i = 0; i < k_spins; ++i) {
    if (attempt()) return true;
    if ((state.load(relaxed) & k_queued) != 0) return false;  // relaxed: a hint
    pause_between_spins();
  }
  return false;
}

}  // namespace

struct shared_mutex::waiting : waiter {
  wait_node node{*this};
  std::uint64_t since = 0;  // ticks; writers only, over all attempts
  bool in_vain = false;     // was woken before, and found it locked
  bool given = false;       // it is ours

  static waiting& of(const wait_node& n) { return *static_cast<waiting*>(n.who); }
};

// Those to wake when the lock has been released.
struct shared_mutex::settlement {
  wake_list woken;

  void let_in(wait_node& n) {
    waiting::of(n).given = true;
    woken.add(*n.who);
  }
};

// ---- Slots ------------------------------------------------------------------------------------

// False: no slot is free, or they were closed.
bool shared_mutex::enter_slot() {
  for (auto& slot : own_line().slots) {
    const void* found = nullptr;
    // relaxed: only worth a try? seq_cst: [mark], before [look].
    if (slot.load(relaxed) != nullptr || !slot.compare_exchange_strong(found, this, seq_cst))
      continue;
    if ((state_.load(seq_cst) & k_slots) != 0) return true;  // [look]
    found = this;
    // relaxed: nothing was done under the lock. Gone: somebody has counted it.
    return !slot.compare_exchange_strong(found, nullptr, relaxed);
  }
  return false;
}

bool shared_mutex::leave_slot() {
  for (auto& slot : own_line().slots) {
    const void* found = this;
    // relaxed: only worth a try? release pairs with [find].
    if (slot.load(relaxed) == this &&
        slot.compare_exchange_strong(found, nullptr, release, relaxed))
      return true;
  }
  return false;
}

bool shared_mutex::may_use_slots() const {
  return os::ticks() > no_slots_until_.load(relaxed);  // relaxed: a hint
}

// Every reader is counted afterwards, and the slots are closed. By the one who set k_gathering;
// not under the lock, because it takes microseconds.
void shared_mutex::gather_readers(void* m) {
  const std::uint64_t start = os::ticks();
  for (slot_line& line : g_lines) {
    for (auto& slot : line.slots) {
      if (slot.load(seq_cst) != this) continue;  // [find]
      state_.fetch_add(k_reader, relaxed);       // relaxed: only the number counts
      const void* found = this;
      // acquire pairs with leave_slot(): what the reader did is over. relaxed: as above.
      if (!slot.compare_exchange_strong(found, nullptr, acquire, acquire))
        state_.fetch_sub(k_reader, relaxed);
    }
  }
  const std::uint64_t end = os::ticks();
  no_slots_until_.store(end + (end - start) * k_rest_factor, relaxed);  // relaxed: a hint
  settlement now;
  {
    const object_guard held(lock_);
    state_.fetch_and(~k_gathering, acq_rel);  // the count is right again, for all who see this
    settle(now);
  }
  now.woken.wake_all(static_cast<M*>(m));
}

// ---- Who is next ------------------------------------------------------------------------------

// Lets in whoever may come in, after something has changed. Under the lock.
void shared_mutex::settle(settlement& now) {
  std::uint32_t found = state_.load(relaxed);  // relaxed: the exchanges decide
  if ((found & (k_writer | k_gathering)) != 0) return;
  std::uint32_t let_in = 0;
  if (writers_.first != nullptr && found < k_reader) {
    if (wait_node* const writer = pop_front(writers_)) {
      now.let_in(*writer);
      let_in = k_writer;
    }
  }
  if (let_in == 0 && writers_.first == nullptr) {
    while (wait_node* const reader = pop_front(readers_)) {
      now.let_in(*reader);
      let_in += k_reader;
    }
  }
  const bool queued = writers_.first != nullptr || readers_.first != nullptr;
  for (;;) {
    const std::uint32_t next = ((found & ~k_queued) | (queued ? k_queued : 0)) + let_in;
    // acq_rel: what those who left did is visible to those who come, and the other way round.
    if (state_.compare_exchange_weak(found, next, acq_rel, relaxed)) return;
  }
}

// Puts `me` on the list and waits until it was woken. False: the time is up.
bool shared_mutex::wait_in(detail::wait_list& list, waiting& me, void* entry_inside, void* held,
                           time_point deadline) {
  auto& inside = *static_cast<entry*>(entry_inside);
  auto& guard = *static_cast<object_guard*>(held);
  const wait_reason why =
      &list == &writers_ ? wait_reason::shared_mutex_lock : wait_reason::shared_mutex_lock_shared;
  me.object = this;
  me.holder = &holder_;
  me.contested = deadline != never;
  if (me.in_vain) {
    push_front(list, me.node);
  } else {
    push_back(list, me.node);
  }
  if (deadline == never) {
    inside.block(me, why, guard);
    return true;
  }
  if (inside.block_until(me, why, guard, to_nanos(deadline))) return true;
  settlement now;
  {
    const object_guard again(lock_);
    remove(list, me.node);
    settle(now);
  }
  now.woken.wake_all(inside.m());
  return false;
}

// ---- The writer -------------------------------------------------------------------------------

bool shared_mutex::lock_slow(time_point deadline) {
  entry inside;
  if (spin(inside.m(), state_, [this] { return try_lock_once(); })) return true;
  std::uint64_t since = 0;
  bool on_the_way = false;  // k_on_way stands for us
  for (;;) {
    const bool time_is_up = on_the_way && deadline != never && os::now() >= to_nanos(deadline);
    object_guard held(lock_);
    const std::uint32_t found = take_or_stay(on_the_way, !time_is_up);
    if ((found & ~k_on_way) == 0) return true;
    if ((found & k_slots) != 0) {
      held.unlock();
      gather_readers(inside.m());
      continue;
    }
    if (time_is_up) return false;
    waiting me;
    me.in_vain = on_the_way;
    me.since = since != 0 ? since : os::ticks();
    since = me.since;
    if (!wait_in(writers_, me, &inside, &held, deadline)) return false;
    if (me.given) return true;
    on_the_way = true;
  }
}

// One step for a writer who is not on a list: takes the lock if it is free, else closes the slots
// if they are open, else says that somebody waits. Returns what was found. Under the lock.
std::uint32_t shared_mutex::take_or_stay(bool on_the_way, bool stays) {
  const bool others = writers_.first != nullptr || readers_.first != nullptr;
  std::uint32_t found = state_.load(relaxed);  // relaxed: the exchange decides
  for (;;) {
    std::uint32_t next = on_the_way ? found & ~k_on_way : found;
    if ((found & ~k_on_way) == 0) {
      next |= k_writer | (others && next == 0 ? k_queued : 0);
    } else if ((found & k_slots) != 0) {
      next = (next & ~k_slots) | k_gathering;
    } else if (stays || others) {
      next |= k_queued;
    }
    // seq_cst: [close]; as the acquire in lock() otherwise.
    if (state_.compare_exchange_weak(found, next, seq_cst, relaxed)) return found;
  }
}

bool shared_mutex::try_lock_once() {
  std::uint32_t found = state_.load(relaxed);  // relaxed: the exchange decides
  while ((found & ~k_on_way) == 0) {
    // acquire: as in lock().
    if (state_.compare_exchange_weak(found, found | k_writer, acquire, relaxed)) return true;
  }
  if (found != k_slots) return false;
  // seq_cst: [close]. Somebody else may be faster.
  if (!state_.compare_exchange_strong(found, k_gathering, seq_cst, relaxed)) return false;
  entry inside;
  gather_readers(inside.m());
  found = 0;
  return state_.compare_exchange_strong(found, k_writer, acquire, relaxed);  // as above
}

// Readers who waited for this writer come before the next one.
void shared_mutex::unlock_slow() {
  entry inside;
  for (;;) {
    std::uint32_t found = state_.load(relaxed);  // relaxed: the exchange decides
    if ((found & k_writer) == 0) fatal("unlock of unlocked shared_mutex");
    if ((found & k_queued) == 0) {
      // release: as in unlock(), and the last touch.
      if (state_.compare_exchange_strong(found, found & ~k_writer, release, relaxed)) return;
      continue;
    }
    settlement now;
    {
      const object_guard held(lock_);
      pass_on(now);
    }
    if (now.woken.empty()) continue;
    return now.woken.wake_all(inside.m());
  }
}

// From the writer who leaves to those on the lists. Under the lock; while there is a writer nobody
// changes the state but under it.
void shared_mutex::pass_on(settlement& now) {
  std::uint32_t next = 0;
  while (wait_node* const reader = pop_front(readers_)) {
    now.let_in(*reader);
    next += k_reader;
  }
  bool is_free = false;
  if (next == 0) {
    next = k_writer;  // also if nobody is left: it is unlocked in one step in the next round
    if (wait_node* const writer = pop_front(writers_)) {
      const waiting& first = waiting::of(*writer);
      is_free = !first.in_vain && os::ticks() - first.since < os::ticks_per_second() / 1000;
      if (is_free) {
        now.woken.add(*writer->who);
      } else {
        now.let_in(*writer);
      }
    }
  }
  const std::uint32_t queued = writers_.first != nullptr ? k_queued : 0;
  const std::uint32_t on_way = state_.load(relaxed) & k_on_way;  // relaxed: under the lock
  // release: as in unlock().
  state_.store(is_free ? k_on_way : next | queued | on_way, release);
}

// ---- Readers ----------------------------------------------------------------------------------

bool shared_mutex::try_lock_shared_slow() {
  std::uint32_t found = state_.load(relaxed);  // relaxed: the exchange decides
  if ((found & k_slots) != 0) {
    if (enter_slot()) return true;
    found = state_.load(relaxed);  // as above
  }
  bool crowded = false;
  while ((found & (k_writer | k_queued | k_gathering)) == 0) {
    crowded = crowded || found >= k_reader;
    const bool open = crowded && (found & (k_slots | k_on_way)) == 0 && may_use_slots();
    // acquire: as in lock().
    if (state_.compare_exchange_weak(found, (found + k_reader) | (open ? k_slots : 0), acquire,
                                     relaxed)) {
      return true;
    }
    crowded = true;
  }
  return false;
}

bool shared_mutex::lock_shared_slow(time_point deadline) {
  entry inside;
  if (spin(inside.m(), state_, [this] { return try_lock_shared_slow(); })) return true;
  object_guard held(lock_);
  std::uint32_t found = state_.load(relaxed);  // relaxed: the exchange decides
  for (;;) {
    const bool is_free = (found & (k_writer | k_queued | k_gathering)) == 0;
    // acquire: as in lock().
    if (!state_.compare_exchange_weak(found, is_free ? found + k_reader : found | k_queued, acquire,
                                      relaxed)) {
      continue;
    }
    if (is_free) return true;
    break;
  }
  waiting me;
  return wait_in(readers_, me, &inside, &held, deadline);
}

void shared_mutex::unlock_one_of_many() {
  std::uint32_t found = state_.load(relaxed);  // relaxed: the exchange decides
  // Without k_slots and k_gathering every reader is counted.
  if ((found & (k_slots | k_gathering)) != 0 && leave_slot()) return;
  while (found >= k_reader && (found & (k_writer | k_queued | k_gathering)) == 0) {
    // release: as in unlock(), and the last touch.
    if (state_.compare_exchange_weak(found, found - k_reader, release, relaxed)) return;
  }
  unlock_shared_slow();
}

// Somebody waits, or it is not known yet where the hold is.
void shared_mutex::unlock_shared_slow() {
  entry inside;
  for (;;) {
    object_guard held(lock_);
    std::uint32_t found = state_.load(relaxed);  // relaxed: the exchanges decide
    if ((found & k_gathering) != 0) {
      held.unlock();
      os::yield_thread();  // microseconds; whoever does it may have lost its processor
      continue;
    }
    if (found < k_reader && (found & k_slots) != 0) {
      // seq_cst: [close].
      const bool mine =
          state_.compare_exchange_strong(found, (found & ~k_slots) | k_gathering, seq_cst, relaxed);
      held.unlock();
      if (mine) gather_readers(inside.m());
      continue;
    }
    if (found < k_reader) fatal("unlock_shared of unlocked shared_mutex");
    if ((found & k_queued) == 0) {
      held.unlock();
      // release: as in unlock(), and the last touch.
      if (state_.compare_exchange_strong(found, found - k_reader, release, relaxed)) return;
      continue;
    }
    // While it is queued nobody changes the count but under the lock, and those on the lists are
    // inside. release: as above; settle() goes on.
    state_.fetch_sub(k_reader, release);
    settlement now;
    settle(now);
    held.unlock();
    return now.woken.wake_all(inside.m());
  }
}

}  // namespace magpie
