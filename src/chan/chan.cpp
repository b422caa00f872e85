// chan.cpp: the life of a channel, and the operations on one whose elements move quietly. Those
// whose move may throw are in turn.cpp, waiting for several channels at a time is in select.cpp.

#include "chan/chan.h"

#include <magpie/errors.h>

#include <cstddef>
#include <limits>
#include <new>
#include <stdexcept>
#include <type_traits>

#include "chan/turn.h"
#include "sched/arena.h"

namespace magpie::rt {

[[noreturn]] void wait_for_ever(wait_reason why) {
  waiter me;
  entry inside;
  inside.block(
      me, why, [](void*) { return true; }, nullptr);
  fatal("somebody was woken who waits for ever");
}

void wait_until(os::nanos deadline, wait_reason why) {
  waiter me;
  me.contested = true;
  entry inside;
  inside.block_until(
      me, why, [](void*) { return true; }, nullptr, deadline);
}

void throw_closed_send() { throw closed_channel("send on closed channel"); }

namespace {

using detail::element_kind;
using detail::element_type;

// ---- Life -------------------------------------------------------------------------------------

std::align_val_t alignment_for(const element_type& type) {
  return std::align_val_t{std::max(alignof(channel_core), type.alignment)};
}

// In front of the channel, so that the ring behind it is aligned.
std::size_t padding_for(const element_type& type) {
  return (type.alignment - sizeof(channel_core) % type.alignment) % type.alignment;
}

channel_core* allocate_channel(const element_type& type, std::size_t capacity) {
  constexpr std::size_t k_most_bytes = std::size_t{1} << 47;  // more than can be addressed
  const std::size_t head = padding_for(type) + sizeof(channel_core);
  if (capacity > std::numeric_limits<std::uint32_t>::max() ||
      (type.size != 0 && capacity > (k_most_bytes - head) / type.size)) {
    detail::throw_bad_capacity();
  }
  auto* const memory =
      static_cast<std::byte*>(::operator new(head + capacity * type.size, alignment_for(type)));
  return ::new (memory + padding_for(type))
      channel_core(type, static_cast<std::uint32_t>(capacity));
}

// ---- Waiting ----------------------------------------------------------------------------------

// Of the operations: how long they wait.
enum class patience {
  none,
  limited,
  endless,
};

// What is different for the two sides of a channel.
struct sending {
  static constexpr auto attempt = send_locked;
  static constexpr auto line = &channel_core::senders;
  static constexpr auto somebody_waits = &channel_core::senders_wait;
  static constexpr wait_reason why = wait_reason::chan_send;
};
struct receiving {
  static constexpr auto attempt = receive_locked;
  static constexpr auto line = &channel_core::receivers;
  static constexpr auto somebody_waits = &channel_core::receivers_wait;
  static constexpr wait_reason why = wait_reason::chan_receive;
};

// The record of a wait for one partner.
struct alignas(k_cache_line) one_wait {
  waiter me;
  chan_node node{me};
};
static_assert(sizeof(one_wait) == sizeof(g_arena::wait_room));
static_assert(std::is_trivially_destructible_v<one_wait>);

// The caller could not go on: inside the gate and with the lock held, both of which end here.
template <patience Patience, class Side>
[[gnu::always_inline]] inline channel_result wait_in(one_wait& waiting, channel_core& c, void* slot,
                                                     M* m, os::nanos deadline) {
  entry inside(m);
  object_guard held(c.lock, already_locked);
  waiter& me = waiting.me;
  chan_node& node = waiting.node;
  me.object = &c;
  me.contested = Patience == patience::limited;
  node.slot = slot;
  push_back(c.*Side::line, node);
  (c.*Side::somebody_waits).store(true, relaxed);  // relaxed: a hint
  if constexpr (Patience == patience::endless) {
    inside.block(me, Side::why, held);
  } else if (!inside.block_until(me, Side::why, held, deadline)) {
    const object_guard again(c.lock);
    remove(c.*Side::line, node);
    update_hints(c);
    return channel_result::would_block;
  }
  return node.end == chan_node::outcome::done ? channel_result::ok : channel_result::closed;
}

template <patience Patience, class Side>
[[gnu::noinline]] channel_result wait_as_thread(channel_core& c, void* slot, os::nanos deadline) {
  one_wait waiting;
  return wait_in<Patience, Side>(waiting, c, slot, nullptr, deadline);
}

template <patience Patience, class Side>
[[gnu::noinline]] channel_result wait_for_partner(channel_core& c, void* slot, M* m,
                                                  os::nanos deadline) {
  if (m == nullptr) return wait_as_thread<Patience, Side>(c, slot, deadline);
  one_wait* const waiting = ::new (wait_room_of(*m->current).bytes) one_wait;
  return wait_in<Patience, Side>(*waiting, c, slot, m, deadline);
}

// ---- Operations -------------------------------------------------------------------------------
//
// The usual operation on bytes neither waits nor wakes: one look, one copy, and out, in a
// function that calls nothing else. It is written with the bare gate and lock, because objects for
// them would live in memory. All others go on in a function of their own, inside the gate and with
// the lock held; and those who have to wait in a third, so that the second has left the stack.

template <patience Patience, class Side>
[[gnu::noinline]] channel_result go_on_entered(channel_core& c, void* slot, M* m,
                                               os::nanos deadline) {
  waiter* partner = nullptr;
  const step end = Side::attempt(c, slot, partner);
  if constexpr (Patience != patience::none) {
    if (end == step::must_wait) return wait_for_partner<Patience, Side>(c, slot, m, deadline);
  }
  unlock_object(c.lock);
  if (partner != nullptr) partner->wake(m);
  if (m != nullptr) leave(m);
  switch (end) {
    case step::done:
      return channel_result::ok;
    case step::closed:
      return channel_result::closed;
    case step::must_wait:
      return channel_result::would_block;
  }
  __builtin_unreachable();
}

template <patience Patience>
[[gnu::always_inline]] inline channel_result send_quietly(channel_core& c, void* value,
                                                          os::nanos deadline = 0) {
  M* const m = enter();
  lock_object(c.lock);
  if (c.kind != element_kind::trivial || is_closed(c) || c.receivers.first != nullptr ||
      !has_room(c)) {
    return go_on_entered<Patience, sending>(c, value, m, deadline);
  }
  put_in_ring(c, value);
  unlock_object(c.lock);
  if (m != nullptr) leave(m);
  return channel_result::ok;
}

template <patience Patience>
[[gnu::always_inline]] inline channel_result receive_quietly(channel_core& c, void* slot,
                                                             os::nanos deadline = 0) {
  M* const m = enter();
  lock_object(c.lock);
  if (c.kind != element_kind::trivial || !has_values(c) || c.senders.first != nullptr) {
    return go_on_entered<Patience, receiving>(c, slot, m, deadline);
  }
  take_from_ring(c, slot);
  unlock_object(c.lock);
  if (m != nullptr) leave(m);
  return channel_result::ok;
}

// Those who send must be told by an exception, thrown when nothing of the runtime is held.
bool was_sent(channel_result result) {
  if (result == channel_result::closed) [[unlikely]]
    throw_closed_send();
  return result == channel_result::ok;
}

// ---- Closing ----------------------------------------------------------------------------------

// Some of those who wait, and the lock for a few at a time: there may be a million, and neither the
// lock nor the gate may be held for long. Nobody comes any more, so they get fewer. False: those
// were the last.
bool take_some_of_the_closed(channel_core& c, wake_list& woken) {
  constexpr int k_under_one_lock = 8;
  const object_guard held(c.lock);
  for (int i = 0; i < k_under_one_lock; ++i) {
    fetch_ahead(c.receivers);
    chan_node* node = take_receiver(c);
    if (node == nullptr) node = take_sender(c);
    if (node == nullptr) return false;
    node->end = chan_node::outcome::closed;
    woken.add(*node->who);
  }
  return true;
}

bool wake_some_of_the_closed(channel_core& c) {
  constexpr int k_at_a_time = 16;
  const entry inside;
  wake_list woken;
  bool more = true;
  for (int i = 0; i < k_at_a_time && more; ++i) more = take_some_of_the_closed(c, woken);
  woken.wake_all(inside.m());
  return more;
}

}  // namespace

bool close_if_open(channel_core& c) {
  {
    const entry inside;
    const object_guard held(c.lock);
    if (is_closed(c)) return false;
    c.closed.store(true, release);  // pairs with the acquire of those who look without the lock
  }
  while (wake_some_of_the_closed(c)) {
  }
  return true;
}

// ---- Timers -----------------------------------------------------------------------------------

channel_core* make_timer_channel(const element_type& type,
                                 void (*last_handle_gone)(channel_core*, void*), void* argument) {
  MAGPIE_CHECK(type.kind == element_kind::trivial, "a timer sends bytes");
  channel_core* const c = allocate_channel(type, 1);
  c->is_timers = true;
  c->last_handle_gone = last_handle_gone;
  c->last_handle_argument = argument;
  return c;
}

void destroy_channel(channel_core* c) {
  if (c->kind != element_kind::trivial) {
    for (std::uint32_t left = c->count.load(relaxed); left != 0; --left) {  // relaxed: the last one
      c->type->destroy(c->slot(c->head));
      advance(*c, c->head);
    }
  }
  const element_type& type = *c->type;
  c->~channel_core();
  ::operator delete(reinterpret_cast<std::byte*>(c) - padding_for(type), alignment_for(type));
}

bool post_locked(channel_core& c, const void* value, std::uint64_t sequence, wake_list& woken) {
  if (sequence != c.sequence || has_values(c)) return false;
  waiter* partner = nullptr;
  send_locked(c, const_cast<void*>(value), partner);  // trivial: it is only read
  if (partner != nullptr) woken.add(*partner);
  return true;
}

renumbered renumber_locked(channel_core& c) {
  const bool discarded = has_values(c);
  c.count.store(0, relaxed);  // relaxed: under the lock
  c.head = c.tail;
  return {++c.sequence, discarded};
}

}  // namespace magpie::rt

// ---- What the templates call ------------------------------------------------------------------

namespace magpie::detail {

using namespace rt;

namespace {

bool by_turns(const channel_core& c) { return c.kind == element_kind::throwing; }

}  // namespace

void throw_bad_capacity() { throw std::length_error("channel: capacity out of range"); }

channel_core* make_channel(const element_type& type, std::size_t capacity) {
  return allocate_channel(type, capacity);
}

void retain_channel(channel_core* c) noexcept {
  c->references.fetch_add(1, relaxed);  // relaxed: the caller has a reference
}

void release_channel(channel_core* c) noexcept {
  // acq_rel: the last one sees what all others did before it destroys the channel.
  if (c->references.fetch_sub(1, acq_rel) != 1) return;
  if (c->last_handle_gone != nullptr) return c->last_handle_gone(c, c->last_handle_argument);
  destroy_channel(c);
}

void channel_send(channel_core* c, void* value) {
  if (c == nullptr) [[unlikely]]
    wait_for_ever(wait_reason::chan_send_nil);
  if (by_turns(*c)) [[unlikely]] {
    was_sent(operate_by_turns(*c, operation::send(value), k_endlessly));
    return;
  }
  was_sent(send_quietly<patience::endless>(*c, value));
}

bool channel_try_send(channel_core* c, void* value) {
  if (c == nullptr || looks_unsendable(*c)) return false;
  if (by_turns(*c)) return was_sent(operate_by_turns(*c, operation::send(value), k_not_at_all));
  return was_sent(send_quietly<patience::none>(*c, value));
}

bool channel_send_for(channel_core* c, void* value, duration timeout) {
  if (timeout <= duration::zero()) return channel_try_send(c, value);
  if (timeout == no_timeout) {
    channel_send(c, value);
    return true;
  }
  if (c == nullptr)
    return wait_until(rt::deadline_after(timeout), wait_reason::chan_send_nil), false;
  if (by_turns(*c)) {
    return was_sent(operate_by_turns(*c, operation::send(value), rt::deadline_after(timeout)));
  }
  if (const channel_result now = send_quietly<patience::none>(*c, value);
      now != channel_result::would_block) {
    return was_sent(now);
  }
  return was_sent(send_quietly<patience::limited>(*c, value, rt::deadline_after(timeout)));
}

channel_result channel_receive(channel_core* c, void* slot, deliver_function deliver) {
  if (c == nullptr) [[unlikely]]
    wait_for_ever(wait_reason::chan_receive_nil);
  if (by_turns(*c)) [[unlikely]]
    return operate_by_turns(*c, operation::receive(slot, deliver), k_endlessly);
  return receive_quietly<patience::endless>(*c, slot);
}

channel_result channel_try_receive(channel_core* c, void* slot, deliver_function deliver) {
  if (c == nullptr) return channel_result::would_block;
  if (looks_unreceivable(*c)) {
    // acquire: what was sent before the close is seen by the second look.
    if (!c->closed.load(acquire)) return channel_result::would_block;
    if (!has_values(*c)) return channel_result::closed;
  }
  if (by_turns(*c)) return operate_by_turns(*c, operation::receive(slot, deliver), k_not_at_all);
  return receive_quietly<patience::none>(*c, slot);
}

channel_result channel_receive_for(channel_core* c, void* slot, deliver_function deliver,
                                   duration timeout) {
  if (timeout <= duration::zero()) return channel_try_receive(c, slot, deliver);
  if (timeout == no_timeout) return channel_receive(c, slot, deliver);
  if (c == nullptr) {
    wait_until(rt::deadline_after(timeout), wait_reason::chan_receive_nil);
    return channel_result::would_block;
  }
  if (by_turns(*c)) {
    return operate_by_turns(*c, operation::receive(slot, deliver), rt::deadline_after(timeout));
  }
  if (const channel_result now = receive_quietly<patience::none>(*c, slot);
      now != channel_result::would_block) {
    return now;
  }
  return receive_quietly<patience::limited>(*c, slot, rt::deadline_after(timeout));
}

void channel_close(channel_core* c) {
  if (c == nullptr) throw closed_channel("close of nil channel");
  const channel_handle kept = another_handle(*c);
  const bool in_turn = by_turns(*c);
  if (in_turn) take_turn(*c);
  const bool was_open = close_if_open(*c);
  if (in_turn) pass_turn_on(*c);
  if (!was_open) throw closed_channel("close of closed channel");
}

std::size_t channel_size(const channel_core* c) noexcept {
  return c == nullptr || c->is_timers ? 0 : c->count.load(relaxed);  // relaxed: a moment's view
}

std::size_t channel_capacity(const channel_core* c) noexcept {
  return c == nullptr || c->is_timers ? 0 : c->capacity;
}

}  // namespace magpie::detail
