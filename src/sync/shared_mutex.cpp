// shared_mutex.cpp: readers that do not meet, and writers that find them all the same.
//
// The state counts readers and has five bits:
//
//   k_writer     a writer has it;
//   k_queued     somebody is on a list: who comes now waits, too, and who leaves looks there;
//   k_slots      readers may mark themselves in slots instead of being counted;
//   k_gathering  somebody turns readers in slots into counted ones: nobody gets it meanwhile;
//   k_places     some of those counted have not come yet: see below.
//
// Who is next. A writer who leaves lets in the readers who wait, all of them; the last reader who
// leaves lets in the first writer. If one let in had the lock before it runs, whoever comes
// meanwhile would have to wait, the next writer for all of those readers, and everybody else
// behind that writer: with more goroutines than processors, each operation would wait for ever
// after. So nobody has the lock before it runs, but for one who has waited for a millisecond: that
// one is given it.
//   Readers are let in with a number of places. Those are counted, and a writer waits until all
// were taken and left; but who takes them is open. A reader who runs takes the place of one that
// does not run yet; the latter, when it comes, need not care for a writer who waits, and waits
// again only if one has the lock.
//   For a writer the lock is freed. Until the woken one comes, k_queued is not set, though others
// may be on the lists: whoever runs uses the lock as if it were alone. So: while somebody is on a
// list, k_queued is set or a writer is on its way, which sets it as soon as it has come; also if
// its time is up by then.
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
// writer has counted it, or another reader has left with it and without its own: it has the lock
// after all.
//
// While k_gathering is set the count may be too high: a hold is counted before its slot is emptied,
// and taken back if the reader was faster. Nobody decides by the count then; the one who gathers
// settles it afterwards.
//
// Gathering costs a look at the whole table, and nobody gets the lock meanwhile. After it slots
// stay closed for a while, at least eight times as long as it took, and twice as long each time
// that they were needed for a shorter while than that. They are opened when readers meet.
//
// Lifetime: as in mutex.cpp. A reader in a slot does not touch the lock when it leaves.

#include <magpie/shared_mutex.h>

#include <utility>

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
constexpr std::uint32_t k_places = 16;

// How long slots stay closed, in lengths of a gathering: a power of two, between these.
constexpr std::uint8_t k_shortest_rest = 3;
constexpr std::uint8_t k_longest_rest = 10;

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
// less than it costs to wait. Not while one of `vain` is set: those it waits for do not run yet.
template <class Attempt>
bool spin(const M* m, const atomic<std::uint32_t>& state, std::uint32_t vain, Attempt attempt) {
  if (!spinning_pays(m)) return false;
  for (int i = 0; i < k_spins; ++i) {
    if (attempt()) return true;
    if ((state.load(relaxed) & vain) != 0) return false;  // relaxed: a hint
    pause_between_spins(i);
  }
  return attempt();
}

}  // namespace

struct shared_mutex::waiting : waiter {
  wait_node node{*this};
  std::uint64_t since = 0;  // ticks; over all attempts. Once woken: for how long
  bool in_vain = false;     // was woken before, and found it locked
  bool given = false;       // it is ours

  static waiting& of(const wait_node& n) { return *static_cast<waiting*>(n.who); }
};

// Who is let in: to be woken when the lock has been released.
struct shared_mutex::settlement {
  wake_list woken;
  bool writer_starved = false;  // and was given it

  // True: it has waited for too long, and has the lock when it wakes up.
  bool let_in(wait_node& n, std::uint64_t time) {
    waiting& w = waiting::of(n);
    w.since = time - w.since;
    w.given = w.since > patience();
    woken.add(w);
    return w.given;
  }

  // The last thing that one who leaves does.
  void wake_all(entry& inside) {
    woken.wake_all(inside.m());
    // One who starved gets this processor along with the lock.
    if (writer_starved && inside.m() != nullptr) inside.yield();
  }
};

// ---- Slots ------------------------------------------------------------------------------------

// The first slot of a line is most often the right one: there is no look whether it is worth a try.

// False: no slot is free, or they were closed.
bool shared_mutex::enter_slot() {
  slot_line& line = own_line();
  for (auto& slot : line.slots) {
    if (&slot != line.slots && slot.load(relaxed) != nullptr) continue;  // relaxed: a hint
    const void* found = nullptr;
    // seq_cst: [mark], before [look].
    if (!slot.compare_exchange_strong(found, this, seq_cst)) continue;
    if ((state_.load(seq_cst) & k_slots) != 0) return true;  // [look]
    found = this;
    // Gone: a writer has counted it, or another reader has left in its place. acquire: what those
    // have seen of writers in the meantime. Otherwise nothing was done under the lock.
    return !slot.compare_exchange_strong(found, nullptr, acquire);
  }
  return false;
}

bool shared_mutex::leave_slot() {
  slot_line& line = own_line();
  for (auto& slot : line.slots) {
    if (&slot != line.slots && slot.load(relaxed) != this) continue;  // relaxed: a hint
    const void* found = this;
    // release pairs with [find], and with the end of enter_slot().
    if (slot.compare_exchange_strong(found, nullptr, release, relaxed)) return true;
  }
  return false;
}

bool shared_mutex::may_use_slots() const {
  return os::ticks() > no_slots_until_.load(relaxed);  // relaxed: a hint
}

// Every reader is counted afterwards, and the slots are closed. By the one who set k_gathering;
// not under the lock, because it takes microseconds.
void shared_mutex::gather_readers(M* m) {
  const std::uint64_t start = os::ticks();
  slots_open_.store(false, relaxed);  // relaxed: a hint
  for (slot_line& line : g_lines) {
    for (auto& slot : line.slots) {
      if (slot.load(seq_cst) != this) continue;  // [find]
      state_.fetch_add(k_reader, relaxed);       // relaxed: only the number counts
      const void* found = this;
      // acquire pairs with leave_slot(): what the reader did is over. release: with the end of
      // enter_slot(). relaxed: as above.
      if (!slot.compare_exchange_strong(found, nullptr, acq_rel, acquire))
        state_.fetch_sub(k_reader, relaxed);
    }
  }
  rest_from_slots(start, os::ticks());
  settlement now;
  {
    const object_guard held(lock_);
    state_.fetch_and(~k_gathering, acq_rel);  // the count is right again, for all who see this
    settle(now);
  }
  now.woken.wake_all(m);
}

// After a gathering. By the one who set k_gathering.
void shared_mutex::rest_from_slots(std::uint64_t start, std::uint64_t end) {
  const std::uint64_t rested_until = no_slots_until_.load(relaxed);  // relaxed: a hint
  const std::uint64_t took = end - start;
  if (start - rested_until < took << rest_) {
    if (rest_ < k_longest_rest) ++rest_;
  } else if (rest_ > k_shortest_rest) {
    --rest_;
  }
  no_slots_until_.store(end + (took << rest_), relaxed);  // relaxed: a hint
}

// ---- Who is next ------------------------------------------------------------------------------

// Lets in whoever may come in, after something has changed. Under the lock.
void shared_mutex::settle(settlement& now) {
  // acquire: what those who left did is visible to those who are let in.
  const std::uint32_t found = state_.load(acquire);
  // Nobody waits, or somebody else looks after them: a writer on its way, or who has the lock.
  if ((found & k_queued) == 0 || (found & (k_writer | k_gathering)) != 0) return;
  // While it is queued nobody changes the state but under the lock.
  std::uint32_t next = found & ~(k_queued | k_places);
  if (next == 0) next = call_writer(now);
  if (now.woken.empty() && writers_.first == nullptr) next += call_readers(now);
  // release: as in unlock(). Free: nobody is left, or a writer is on its way.
  state_.store(next == 0 ? 0 : next | marks(), release);
}

// What the state says about the lists. Under the lock.
std::uint32_t shared_mutex::marks() const {
  const bool queued = writers_.first != nullptr || readers_.first != nullptr;
  return (queued ? k_queued : 0) | (places_ != 0 ? k_places : 0);
}

// Everybody on the list of readers may come in. Returns what they add to the state. Under the lock.
std::uint32_t shared_mutex::call_readers(settlement& now) {
  if (readers_.first == nullptr) return 0;
  const std::uint64_t time = os::ticks();
  std::uint32_t all = 0;
  while (wait_node* const reader = pop_front(readers_)) {
    all += k_reader;
    if (!now.let_in(*reader, time)) ++places_;
  }
  return all;
}

// Wakes the first writer on the list, if there is one. Returns what it adds to the state: nothing
// if it is only on its way. Under the lock.
std::uint32_t shared_mutex::call_writer(settlement& now) {
  wait_node* const writer = pop_front(writers_);
  if (writer == nullptr) return 0;
  now.writer_starved = now.let_in(*writer, os::ticks());
  return now.writer_starved ? k_writer : 0;
}

// Puts `me` on the list and waits until it was woken. False: the time is up.
bool shared_mutex::wait_in(detail::wait_list& list, waiting& me, entry& inside, object_guard& held,
                           time_point deadline) {
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
    inside.block(me, why, held);
    return true;
  }
  if (inside.block_until(me, why, held, to_nanos(deadline))) return true;
  inside.note_mutex_wait(os::ticks() - me.since);
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
  constexpr std::uint32_t k_vain = k_queued | k_slots;
  std::uint64_t since = 0;
  for (;;) {
    if (spin(inside.m(), state_, k_vain, [this] { return take_if_free(); })) {
      if (since == 0) return true;
      mark_queue();
      inside.note_mutex_wait(os::ticks() - since);
      return true;
    }
    const bool time_is_up = since != 0 && deadline != never && os::now() >= to_nanos(deadline);
    object_guard held(lock_);
    const std::uint32_t found = take_or_stay(time_is_up ? 0 : k_queued);
    if (found == 0) {
      if (since != 0) inside.note_mutex_wait(os::ticks() - since);
      return true;
    }
    if ((found & k_slots) != 0) {
      held.unlock();
      gather_readers(inside.m());
      continue;
    }
    if (time_is_up) {
      inside.note_mutex_wait(os::ticks() - since);
      return false;
    }
    waiting me;
    me.in_vain = since != 0;
    me.since = since != 0 ? since : os::ticks();
    since = me.since;
    if (!wait_in(writers_, me, inside, held, deadline)) return false;
    if (me.given) {
      inside.note_mutex_wait(me.since);
      return true;
    }
  }
}

// By a writer who was on its way and has taken the lock.
void shared_mutex::mark_queue() {
  const object_guard held(lock_);
  state_.fetch_or(marks(), relaxed);  // relaxed: the lists are under the lock
}

// One step for a writer who is not on a list: takes the lock if it is free, else closes the slots
// if they are open, else sets `mark`, and says that others wait. Returns what was found. Under the
// lock.
std::uint32_t shared_mutex::take_or_stay(std::uint32_t mark) {
  const bool others = writers_.first != nullptr || readers_.first != nullptr;
  std::uint32_t found = state_.load(relaxed);  // relaxed: the exchange decides
  for (;;) {
    std::uint32_t next = found;
    if (found == 0) {
      next = k_writer | (others ? k_queued : 0);
    } else if ((found & k_slots) != 0) {
      next = (found & ~k_slots) | k_gathering;
    } else {
      next |= others ? k_queued : mark;
    }
    // seq_cst: [close]; as the acquire in lock() otherwise.
    if (state_.compare_exchange_weak(found, next, seq_cst, relaxed)) return found;
  }
}

bool shared_mutex::take_if_free() {
  std::uint32_t found = state_.load(relaxed);  // relaxed: only worth a try?
  // acquire: as in lock().
  return found == 0 && state_.compare_exchange_strong(found, k_writer, acquire, relaxed);
}

bool shared_mutex::try_lock_slow() {
  if (take_if_free()) return true;
  std::uint32_t found = k_slots;
  // relaxed: only worth a try? seq_cst: [close]. Somebody else may be faster.
  if (state_.load(relaxed) != found ||
      !state_.compare_exchange_strong(found, k_gathering, seq_cst, relaxed)) {
    return false;
  }
  const entry inside;
  gather_readers(inside.m());
  return take_if_free();
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
    if (!now.woken.empty()) return now.wake_all(inside);
  }
}

// From the writer who leaves to those on the lists. Under the lock; while there is a writer nobody
// changes the state but under it.
void shared_mutex::pass_on(settlement& now) {
  std::uint32_t next = call_readers(now);
  if (next == 0) next = call_writer(now);
  // Nobody is left: then it is unlocked in one step, in the next round.
  if (now.woken.empty()) next = k_writer;
  state_.store(next == 0 ? 0 : next | marks(), release);  // as in settle()
}

// ---- Readers ----------------------------------------------------------------------------------

// Does not look who else waits, and does not wait; but when others come and go faster than it can
// follow, a patient one lets them.
bool shared_mutex::join_readers(manner how) {
  if (slots_open_.load(relaxed) && enter_slot()) [[likely]]  // relaxed: a hint
    return true;
  return join_counted(how);
}

bool shared_mutex::join_counted(manner how) {
  std::uint32_t found = state_.load(relaxed);  // relaxed: the exchange decides
  // relaxed, here and below: a hint. It may be wrong after a race; whoever notices sets it right.
  const bool hint = slots_open_.load(relaxed);
  if (hint != ((found & k_slots) != 0)) slots_open_.store(!hint, relaxed);
  if ((found & k_slots) != 0) {
    if (enter_slot()) return true;
    found = state_.load(relaxed);  // relaxed: the exchange decides
  }
  bool crowded = false;
  bool patient = how == manner::patient;
  while ((found & (k_writer | k_queued | k_gathering | k_places)) == 0) {
    crowded = crowded || found >= k_reader;
    const bool closed = (found & k_slots) == 0;
    const bool opens = crowded && closed && may_use_slots();
    if (crowded && closed && !opens && std::exchange(patient, false) && others_rush(state_)) {
      stay_away();
      found = state_.load(relaxed);  // relaxed: as above
      crowded = false;
      continue;
    }
    // acquire: as in lock().
    if (state_.compare_exchange_weak(found, (found + k_reader) | (opens ? k_slots : 0), acquire,
                                     relaxed)) {
      if (opens) slots_open_.store(true, relaxed);  // relaxed: a hint
      return true;
    }
    crowded = true;
  }
  return false;
}

bool shared_mutex::try_lock_shared_slow() {
  if (join_readers(manner::prompt)) return true;
  if ((state_.load(relaxed) & k_places) == 0) return false;  // relaxed: as if it were earlier
  const entry inside;
  const object_guard held(lock_);
  if ((state_.load(relaxed) & k_queued) != 0) return false;  // relaxed: changes under the lock only
  return take_place() || count_or_stay(k_writer | k_gathering, 0);
}

bool shared_mutex::lock_shared_slow(time_point deadline) {
  entry inside;
  constexpr std::uint32_t k_vain = k_queued | k_places;
  if (spin(inside.m(), state_, k_vain, [this] { return join_readers(manner::patient); }))
    return true;
  std::uint64_t since = 0;
  for (;;) {
    const bool time_is_up = since != 0 && deadline != never && os::now() >= to_nanos(deadline);
    object_guard held(lock_);
    const std::uint32_t bars = k_writer | k_gathering | (since == 0 ? k_queued : 0);
    const bool taken = take_place() || count_or_stay(bars, time_is_up ? 0 : k_queued);
    if (taken || time_is_up) {
      if (since != 0) inside.note_mutex_wait(os::ticks() - since);
      return taken;
    }
    waiting me;
    me.in_vain = since != 0;
    me.since = since != 0 ? since : os::ticks();
    since = me.since;
    if (!wait_in(readers_, me, inside, held, deadline)) return false;
    if (me.given) {
      inside.note_mutex_wait(me.since);
      return true;
    }
  }
}

// For a reader who is not on a list: one of the holds that are counted already. Under the lock.
bool shared_mutex::take_place() {
  if (places_ == 0) return false;
  if (--places_ == 0) state_.fetch_and(~k_places, relaxed);  // relaxed: the lock orders it
  return true;
}

// One step for a reader who is not on a list: is counted unless one of `bars` is set, and sets
// `mark` then. Under the lock.
bool shared_mutex::count_or_stay(std::uint32_t bars, std::uint32_t mark) {
  std::uint32_t found = state_.load(relaxed);  // relaxed: the exchange decides
  for (;;) {
    const bool may_come = (found & bars) == 0;
    const std::uint32_t next = may_come ? found + k_reader : found | mark;
    // acquire: as in lock().
    if (state_.compare_exchange_weak(found, next, acquire, relaxed)) return may_come;
  }
}

void shared_mutex::unlock_one_of_many() {
  if (!slots_open_.load(relaxed) || !leave_slot()) unlock_counted();  // relaxed: a hint
}

void shared_mutex::unlock_counted() {
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
    return now.wake_all(inside);
  }
}

}  // namespace magpie
