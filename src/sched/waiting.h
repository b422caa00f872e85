// How goroutines and plain threads wait in an object: what channels and locks stand on.
//
// The object has a lock of one word and lists of those who wait (detail/waiting.h). One who has
// to wait puts a node on such a list, on its own stack or in its wait_room (arena.h), and blocks;
// the lock is released when nobody can miss it any more, which for a goroutine is after its stack
// was left. Whoever makes the wait come true takes the node off under the lock, releases the lock,
// and wakes.
//
//   const entry inside;                             inside the gate
//   object_guard held(lock_);
//   if (there is nothing to wait for) return;
//   waiter me;
//   wait_node node{me};
//   push_back(list_, node);
//   inside.block(me, wait_reason::..., held);       returns once somebody has woken `me`
//
// The one who waits may be gone as soon as it was woken: nothing of a waiter or a node may be
// touched after wake(), and nothing of the object after its lock was released.
//
// Several places to wait in, or a deadline: the waiter is then `contested`. Everybody who wants to
// wake it must win decide() first; those who lose pass it over. One who was woken takes its other
// nodes off their lists itself, each under the lock of its object.
//
// Lock order: an object's lock is taken before any lock of the runtime, and no two objects' locks
// are held together but by select, in the order of their addresses.
#pragma once

#include <magpie/detail/duration.h>
#include <magpie/detail/waiting.h>

#include <cstdint>
#include <utility>

#include "base/atomic.h"
#include "base/cacheline.h"
#include "os/clock.h"
#include "os/note.h"
#include "sched/gate.h"

namespace magpie::rt {

// ---- The lock of an object --------------------------------------------------------------------

void lock_object_slow(detail::lock_word&);
bool may_lock_objects();

// Spins: those who hold it are inside the gate or plain threads, and do not wait for anything.
inline void lock_object(detail::lock_word& word) {
  MAGPIE_DCHECK(may_lock_objects(), "an object locked outside the gate, where it could be stopped");
  // acquire pairs with the release in unlock_object().
  if (word.value.exchange(1, acquire) != 0) [[unlikely]]
    lock_object_slow(word);
}

inline void unlock_object(detail::lock_word& word) {
  word.value.store(0, release);  // pairs with the acquire in lock_object()
}

struct already_locked_t {};
inline constexpr already_locked_t already_locked;

class [[nodiscard]] object_guard {
 public:
  explicit object_guard(detail::lock_word& word) : word_(&word) { lock_object(word); }
  // The caller holds it.
  object_guard(detail::lock_word& word, already_locked_t) : word_(&word) {}
  ~object_guard() {
    if (word_ != nullptr) unlock_object(*word_);
  }
  object_guard(const object_guard&) = delete;
  object_guard& operator=(const object_guard&) = delete;

  void unlock() {
    unlock_object(*word_);
    word_ = nullptr;
  }
  // One that holds nothing.
  void lock(detail::lock_word& word) {
    lock_object(word);
    word_ = &word;
  }
  // The lock stays held; whoever it is given to releases it.
  detail::lock_word& hand_over() { return *std::exchange(word_, nullptr); }

 private:
  detail::lock_word* word_;
};

// ---- Who waits --------------------------------------------------------------------------------

struct waiter {
  G* g = nullptr;  // null: a plain thread, which sleeps on the note
  os::note note{};
  bool counted_outside = false;
  bool contested = false;                // see above; set before the first node is listed
  atomic<const void*> decided{nullptr};  // by whom; null: by nobody yet

  // For reports: what is waited in, and where it keeps a place on the stack of who holds it.
  const void* object = nullptr;
  const std::atomic<const void*>* holder = nullptr;

  os::nanos since = 0;  // it waits; to some milliseconds

  waiter* next_woken = nullptr;  // in a wake_list

  // Whether the caller is the one who wakes it. `by`: anything but null; the woken one reads it.
  bool decide(const void* by) {
    if (!contested) {
      decided.store(by, relaxed);  // relaxed: wake() publishes it
      return true;
    }
    const void* nobody = nullptr;
    // acq_rel: the winner's writes before it, and those of the waiter before it listed itself,
    // also travel through the object's lock and wake(); this orders the race itself.
    return decided.compare_exchange_strong(nobody, by, acq_rel, relaxed);
  }

  // By the one who decided; any thread. `m`: the caller's, as enter() gave it.
  void wake(M* m);
};

// A waiter's place in one list.
struct wait_node {
  explicit wait_node(waiter& w) : who(&w) {}

  wait_node* next = nullptr;
  wait_node* previous = nullptr;
  waiter* const who;

  // A hint for whoever wakes a long_wait_list. Its nodes were left long ago and are in nobody's
  // cache, and the way from one to the next is only known when the one is there. This one comes
  // some places after, or did once; it may be gone: to be fetched, never to be read. Null: not
  // known.
  const wait_node* ahead = nullptr;
  std::uint32_t position = 0;  // counts up along the list
  bool listed = false;
};

// ---- Lists; all under the object's lock -------------------------------------------------------

void push_back(detail::wait_list&, wait_node&);
void push_front(detail::wait_list&, wait_node&);
void remove(detail::wait_list&, wait_node&);

// The first one for whom decide(its node) was won; taken off. Those who are woken from elsewhere
// already are taken off, too. Null: nobody waits.
wait_node* pop_front(detail::wait_list&);

// Where a million may wait, to be woken all at once: keeps up wait_node::ahead. The same functions.
struct long_wait_list : private detail::wait_list {
  using wait_list::first;

 private:
  wait_node* trailing_ = nullptr;  // some places before the last

  friend void push_back(long_wait_list&, wait_node&) noexcept;
  friend void push_front(long_wait_list&, wait_node&);
  friend void remove(long_wait_list&, wait_node&);
  friend wait_node* pop_front(long_wait_list&);
};
void push_back(long_wait_list&, wait_node&) noexcept;
void push_front(long_wait_list&, wait_node&);
void remove(long_wait_list&, wait_node&);
wait_node* pop_front(long_wait_list&);

// Before pop_front() by one who will take many: the lines that a later call needs. Inlined by
// force: g++ finds that it has no effect, and drops calls of such functions.
[[gnu::always_inline]] inline void fetch_ahead(const long_wait_list& list) {
  const auto* const node =
      reinterpret_cast<const char*>(list.first != nullptr ? list.first->ahead : nullptr);
  if (node == nullptr) return;
  // The node, and with it the waiter it belongs to: see one_wait in chan.cpp.
  __builtin_prefetch(node, 1);
  __builtin_prefetch(node + k_cache_line - 1, 1);
}

// Those to wake when the object's lock has been released.
class wake_list {
 public:
  bool empty() const { return first_ == nullptr; }
  void add(waiter& w) {
    w.next_woken = nullptr;
    (last_ != nullptr ? last_->next_woken : first_) = &w;
    last_ = &w;
    if (w.g != nullptr) __builtin_prefetch(&w.g->fiber, 1);  // wake_all() changes its state
  }
  // Everybody in the list for whom decide() was won. Under the object's lock.
  void add_all(detail::wait_list& list) {
    while (wait_node* const node = pop_front(list)) add(*node->who);
  }
  // Not under any lock.
  void wake_all(M* m, scheduler::wake_policy = scheduler::wake_policy::wake_others);

 private:
  waiter* first_ = nullptr;
  waiter* last_ = nullptr;
};

// ---- Blocking ---------------------------------------------------------------------------------

// Inside the gate until the end of the scope.
class [[nodiscard]] entry {
 public:
  entry() : m_(enter()) {}
  // The caller has entered: as enter() returned it.
  explicit entry(M* entered) : m_(entered) {}
  ~entry() {
    if (m_ != nullptr) leave(m_);
  }
  entry(const entry&) = delete;
  entry& operator=(const entry&) = delete;

  // Null on a plain thread. Changes when the caller blocks.
  M* m() const { return m_; }

  // Waits until somebody has decided about `me` and woken it. `held` is released meanwhile.
  // Inlined: a million may wait, and a frame that stays on their stacks is one line or two more
  // to fetch for each that goes on.
  [[gnu::always_inline]] void block(waiter& me, wait_reason why, object_guard& held) {
    detail::lock_word& word = held.hand_over();
    if (m_ == nullptr) return block_thread(me, word);
    begin_block(m_, me, why, word);
    m_ = m_->scheduler_.switch_away(m_, me.g);
    m_->current->waits_as = nullptr;  // not me.g: `me` may be far by now
  }

  // The same, at most until the deadline; `me` is contested. False: the time is up, nobody else
  // wakes `me` any more, and its nodes are still listed.
  bool block_until(waiter& me, wait_reason why, object_guard& held, os::nanos deadline) {
    return block_until(me, why, release_held, &held.hand_over(), deadline);
  }

  // Others on this P get their turn first. Not on a plain thread.
  void yield() { m_ = m_->scheduler_.yield_unasked(m_); }

  // The caller has waited for a mutex of some kind. A difference of ticks: the counters of two
  // processors may be apart, and it be negative.
  void note_mutex_wait(std::uint64_t ticks) {
    if (m_ != nullptr && static_cast<std::int64_t>(ticks) > 0) {
      m_->p->counters.mutex_wait.add(ticks);
    }
  }

  // See there. Not on a plain thread.
  void end_quick_call() { m_ = m_->scheduler_.end_quick_call(m_); }

  // See scheduler::run_inline().
  bool run_inline(const detail::meeting* end) { return m_->scheduler_.run_inline(m_, end); }

  // The general form: enlist(argument) makes the waiting known, or releases the locks under which
  // it was made known; it may say no, and then there is nothing to wait for.
  using enlist_function = bool (*)(void* argument);
  void block(waiter& me, wait_reason why, enlist_function enlist, void* argument);
  bool block_until(waiter& me, wait_reason why, enlist_function enlist, void* argument,
                   os::nanos deadline);

 private:
  static bool release_held(void* word) {
    unlock_object(*static_cast<detail::lock_word*>(word));
    return true;
  }
  // The parts of block().
  static void begin_block(M* m, waiter& me, wait_reason why, detail::lock_word&) noexcept;
  static void block_thread(waiter& me, detail::lock_word&) noexcept;

  M* m_;
};

// A public point of time as the runtime counts it.
inline os::nanos to_nanos(time_point t) { return t.time_since_epoch().count(); }

// When a wait of `timeout` that begins now ends.
inline os::nanos deadline_after(duration timeout) {
  return to_nanos(detail::deadline_after(time_point(duration(os::now())), timeout));
}

}  // namespace magpie::rt
