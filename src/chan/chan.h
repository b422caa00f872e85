// The inside of a channel, for the files of this folder and for timers.
//
// One object for all element types, behind one lock: a ring of `capacity` slots, a list of those
// who wait to receive and one of those who wait to send.
//
// Invariants, whenever the lock is free:
//   I1  values in the ring: no receiver waits;
//   I2  room in the ring: no sender waits, but one whom a receiver is just about to let in
//   (turn.h); I3  receivers and senders both wait: all of one side belong to one select, which
//   waits on both; I4  closed: nobody waits who could go on; close() is on its way to the rest.
//
// A value goes straight from the sender's stack to the receiver's when one of them waits
// already, and through the ring otherwise. Nothing is allocated after the channel was made.
//
// `count`, `closed`, `receivers_wait` and `senders_wait` are written under the lock and may be
// read without: an operation that must not wait gives up without the lock when they say that
// nothing can be done, and select looks at them to find out where it is worth to try.
#pragma once

#include <magpie/detail/channel_core.h>

#include <cstdint>
#include <cstring>

#include "base/cacheline.h"
#include "sched/waiting.h"

namespace magpie::rt {

// One channel operation that waits.
struct chan_node : wait_node {
  using wait_node::wait_node;

  enum class outcome : std::uint8_t {
    done,      // the value has been moved
    closed,    // the channel was closed
    has_turn,  // the turn was given to this one: there is room now, or nothing happened (turn.h)
  };

  void* slot = nullptr;  // a sender's value; where a receiver wants it
  detail::deliver_function deliver = nullptr;
  outcome end = outcome::done;  // written by the waker, before it wakes
  std::uint32_t index = 0;      // of the case in its select
};

}  // namespace magpie::rt

namespace magpie::detail {

struct alignas(rt::k_cache_line) channel_core {
  // All that an operation which does not wait needs: one line.
  lock_word lock;
  element_kind kind;
  rt::atomic<bool> closed{false};
  rt::atomic<bool> receivers_wait{false};  // hint: the list may hold some who are gone already
  rt::atomic<bool> senders_wait{false};
  std::uint32_t element_size;
  std::uint32_t capacity;
  rt::atomic<std::uint32_t> count{0};  // values in the ring
  std::uint32_t head = 0;              // where the oldest is
  std::uint32_t tail = 0;              // where the next goes
  rt::long_wait_list receivers;
  rt::long_wait_list senders;

  // The rest: for the making and the end, for elements whose move may throw, for timers.
  const element_type* type;
  rt::atomic<std::uint32_t> references{1};
  bool turn_taken = false;  // see turn.h
  bool is_timers = false;   // reports size and capacity 0
  wait_list turn_waiters;
  std::uint64_t sequence = 0;  // of a timer; see post_locked()
  void (*last_handle_gone)(channel_core*, void* argument) = nullptr;
  void* last_handle_argument = nullptr;

  channel_core(const element_type& t, std::uint32_t n)
      : kind(t.kind), element_size(static_cast<std::uint32_t>(t.size)), capacity(n), type(&t) {}

  // The ring follows right behind; the memory in front of the channel is padded where the
  // elements need more than a cache line's alignment.
  std::byte* slot(std::uint32_t index) {
    return reinterpret_cast<std::byte*>(this + 1) + std::size_t{element_size} * index;
  }
};

}  // namespace magpie::detail

namespace magpie::rt {

using detail::channel_core;

// ---- Steps; all under the lock ----------------------------------------------------------------

inline bool has_values(const channel_core& c) {
  return c.count.load(relaxed) != 0;  // relaxed: the lock orders it, or it is a hint
}
inline bool has_room(const channel_core& c) {
  return c.count.load(relaxed) != c.capacity;  // relaxed: as above
}
inline bool is_closed(const channel_core& c) {
  return c.closed.load(relaxed);  // relaxed: as above
}

inline void enlist_receiver(channel_core& c, chan_node& node) {
  push_back(c.receivers, node);
  c.receivers_wait.store(true, relaxed);  // relaxed: a hint
}
inline void enlist_sender(channel_core& c, chan_node& node) {
  push_back(c.senders, node);
  c.senders_wait.store(true, relaxed);  // relaxed: a hint
}

// After somebody has left the lists.
inline void update_hints(channel_core& c) {
  c.receivers_wait.store(c.receivers.first != nullptr, relaxed);  // relaxed: hints
  c.senders_wait.store(c.senders.first != nullptr, relaxed);
}

// The first who waits, who is then the caller's to wake. Null: nobody.
inline chan_node* take_receiver(channel_core& c) {
  if (c.receivers.first == nullptr) return nullptr;
  auto* const node = static_cast<chan_node*>(pop_front(c.receivers));
  c.receivers_wait.store(c.receivers.first != nullptr, relaxed);  // relaxed: a hint
  return node;
}
inline chan_node* take_sender(channel_core& c) {
  if (c.senders.first == nullptr) return nullptr;
  auto* const node = static_cast<chan_node*>(pop_front(c.senders));
  c.senders_wait.store(c.senders.first != nullptr, relaxed);  // relaxed: a hint
  return node;
}

inline void advance(const channel_core& c, std::uint32_t& index) {
  index = index + 1 == c.capacity ? 0 : index + 1;
}

// Trivial and quiet elements only.
inline void move_element(channel_core& c, void* to, void* from) {
  if (c.kind != detail::element_kind::trivial) return c.type->move(to, from);
  switch (c.element_size) {
    case 8:
      std::memcpy(to, from, 8);
      return;
    case 4:
      std::memcpy(to, from, 4);
      return;
    default:
      std::memcpy(to, from, c.element_size);
  }
}

inline void put_in_ring(channel_core& c, void* value) {
  move_element(c, c.slot(c.tail), value);
  advance(c, c.tail);
  c.count.store(c.count.load(relaxed) + 1, relaxed);  // relaxed: under the lock
}

inline void take_from_ring(channel_core& c, void* slot) {
  std::byte* const oldest = c.slot(c.head);
  move_element(c, slot, oldest);
  if (c.kind == detail::element_kind::quiet) c.type->destroy(oldest);
  advance(c, c.head);
  c.count.store(c.count.load(relaxed) - 1, relaxed);  // relaxed: under the lock
}

enum class step {
  done,
  closed,
  must_wait,
};

// `partner`: whom to wake when the lock has been released.
inline step send_locked(channel_core& c, void* value, waiter*& partner) {
  if (is_closed(c)) [[unlikely]]
    return step::closed;
  if (chan_node* const receiver = take_receiver(c)) {
    move_element(c, receiver->slot, value);
    receiver->end = chan_node::outcome::done;
    partner = receiver->who;
    return step::done;
  }
  if (!has_room(c)) return step::must_wait;
  put_in_ring(c, value);
  return step::done;
}

inline step receive_locked(channel_core& c, void* slot, waiter*& partner) {
  if (has_values(c)) {
    take_from_ring(c, slot);
    if (chan_node* const sender = take_sender(c)) {
      put_in_ring(c, sender->slot);
      sender->end = chan_node::outcome::done;
      partner = sender->who;
    }
    return step::done;
  }
  if (is_closed(c)) return step::closed;
  if (chan_node* const sender = take_sender(c)) {
    move_element(c, slot, sender->slot);
    sender->end = chan_node::outcome::done;
    partner = sender->who;
    return step::done;
  }
  return step::must_wait;
}

// ---- Without the lock -------------------------------------------------------------------------

// Whether an operation had to wait at some moment of the call. A channel that is closed never
// opens again, one that was seen neither closed nor ready was so at the moment of the first look.
inline bool looks_unsendable(const channel_core& c) {
  if (c.closed.load(acquire)) return false;  // acquire: the looks below come after it
  return c.capacity == 0 ? !c.receivers_wait.load(relaxed)                   // relaxed: see above
                         : !has_room(c) && !c.receivers_wait.load(relaxed);  // as above
}
inline bool looks_unreceivable(const channel_core& c) {
  // relaxed: see above. The acquire of `closed` comes after them.
  return !has_values(c) && !c.senders_wait.load(relaxed);
}

[[noreturn]] void wait_for_ever(wait_reason);
void wait_until(os::nanos deadline, wait_reason);  // for nothing but that

[[noreturn]] void throw_closed_send();

// ---- Timers -----------------------------------------------------------------------------------
//
// A timer's channel holds one value and reports none. The timer sends from inside the scheduler,
// so it never waits and never moves anything but bytes. What it sends carries the number of the
// timer's setting: stop and reset draw a new number in the same moment in which they empty the
// channel, and a value that is on its way with an old number is dropped.

// `last_handle_gone` is called outside of the gate when no user's handle is left. The channel is
// its own then: it ends the timer and calls destroy_channel() when nothing can post any more.
channel_core* make_timer_channel(const detail::element_type&,
                                 void (*last_handle_gone)(channel_core*, void*), void* argument);
void destroy_channel(channel_core*);

// Under the channel's lock, which is the timer's, too. Sends unless the number is old or a value is
// there already. Whoever waited for it is added to the list, which the caller wakes when it holds
// no lock.
bool post_locked(channel_core&, const void* value, std::uint64_t sequence, wake_list& woken);

// Under the lock. Draws a new number and empties the channel.
struct renumbered {
  std::uint64_t sequence;
  bool discarded;  // a value was there that nobody had received
};
renumbered renumber_locked(channel_core&);

// ---- Lifetime ---------------------------------------------------------------------------------

// For a call that touches the channel after others may know how it ended: they may drop the handle
// by which it was called.
inline detail::channel_handle another_handle(channel_core& c) {
  detail::retain_channel(&c);
  return detail::channel_handle(&c);
}

// ---- Contexts ---------------------------------------------------------------------------------

// Closes it, unless it is closed; false: it was. Not for channels whose elements may throw.
bool close_if_open(channel_core&);

}  // namespace magpie::rt
