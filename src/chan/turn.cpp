#include "chan/turn.h"

namespace magpie::rt {
namespace {

using outcome = chan_node::outcome;

// Passes the turn on at the end of the scope, however that ends.
class turn_holder {
 public:
  explicit turn_holder(channel_core& c) : channel_(&c) {}
  ~turn_holder() {
    if (channel_ != nullptr) pass_turn_on(*channel_);
  }
  turn_holder(const turn_holder&) = delete;
  turn_holder& operator=(const turn_holder&) = delete;
  void keep() { channel_ = nullptr; }  // the turn, beyond the scope

 private:
  channel_core* channel_;
};

// One who was taken off its list: woken at the end of the scope. Unless all went well it gets the
// turn, to go back to its place before anybody sees that it was gone.
class claimed_partner {
 public:
  // `hint`: that there may be somebody on its list.
  claimed_partner(chan_node& node, turn_holder& turn, atomic<bool>& hint)
      : node_(node), turn_(turn), hint_(hint) {
    node_.end = outcome::has_turn;
  }
  ~claimed_partner() {
    if (node_.end == outcome::has_turn) give_turn();
    const entry inside;
    node_.who->wake(inside.m());
  }
  claimed_partner(const claimed_partner&) = delete;
  claimed_partner& operator=(const claimed_partner&) = delete;
  void is_done() { node_.end = outcome::done; }

 private:
  // Whoever must not wait then waits for the turn, and not in vain.
  void give_turn() {
    hint_.store(true, relaxed);  // relaxed: a hint, made true when the turn is passed on
    turn_.keep();
  }

  chan_node& node_;
  turn_holder& turn_;
  atomic<bool>& hint_;
};

// What an operation found under the lock.
struct view {
  bool closed = false;
  bool ring = false;  // room to send into, or a value to receive
  chan_node* partner = nullptr;
};

view look_to_send(channel_core& c) {
  const entry inside;
  const object_guard held(c.lock);
  if (is_closed(c)) return {.closed = true};
  if (chan_node* const receiver = take_receiver(c)) return {.partner = receiver};
  return {.ring = has_room(c)};
}

view look_to_receive(channel_core& c) {
  const entry inside;
  const object_guard held(c.lock);
  if (has_values(c)) return {.ring = true};
  if (is_closed(c)) return {.closed = true};
  return {.partner = take_sender(c)};
}

void note_sent(channel_core& c) {
  const entry inside;
  const object_guard held(c.lock);
  advance(c, c.tail);
  c.count.store(c.count.load(relaxed) + 1, relaxed);  // relaxed: under the lock
}

// The sender that now has room, if one waits: it gets the turn.
chan_node* note_received(channel_core& c) {
  const entry inside;
  const object_guard held(c.lock);
  advance(c, c.head);
  c.count.store(c.count.load(relaxed) - 1, relaxed);  // relaxed: under the lock
  return take_sender(c);
}

channel_result send_in_turn(channel_core& c, void* value) {
  turn_holder turn(c);
  const view found = look_to_send(c);
  if (found.closed) return channel_result::closed;
  if (found.partner != nullptr) {
    claimed_partner receiver(*found.partner, turn, c.receivers_wait);
    found.partner->deliver(found.partner->slot, value);
    receiver.is_done();
    return channel_result::ok;
  }
  if (found.ring) {
    c.type->move(c.slot(c.tail), value);
    note_sent(c);
    return channel_result::ok;
  }
  turn.keep();
  return channel_result::would_block;
}

channel_result receive_in_turn(channel_core& c, const operation& what) {
  turn_holder turn(c);
  const view found = look_to_receive(c);
  if (found.closed) return channel_result::closed;
  if (found.partner != nullptr) {
    claimed_partner sender(*found.partner, turn, c.senders_wait);
    what.deliver(what.slot, found.partner->slot);
    sender.is_done();
    return channel_result::ok;
  }
  if (found.ring) {
    std::byte* const oldest = c.slot(c.head);
    what.deliver(what.slot, oldest);
    c.type->destroy(oldest);
    if (chan_node* const sender = note_received(c)) {
      turn.keep();
      sender->end = outcome::has_turn;
      const entry inside;
      sender->who->wake(inside.m());
    }
    return channel_result::ok;
  }
  turn.keep();
  return channel_result::would_block;
}

enum class wait_end {
  done,
  closed,
  has_turn,
  time_is_up,
};

// In the turn, which is passed on.
wait_end wait_for_partner(channel_core& c, const operation& what, os::nanos until, bool in_front) {
  waiter me;
  me.contested = until != k_endlessly;
  me.object = &c;
  chan_node node{me};
  node.slot = what.slot;
  node.deliver = what.deliver;
  long_wait_list& list = what.sends ? c.senders : c.receivers;
  const wait_reason why = what.sends ? wait_reason::chan_send : wait_reason::chan_receive;

  entry inside;
  object_guard held(c.lock);
  in_front ? push_front(list, node) : push_back(list, node);
  update_hints(c);
  pass_turn_on_locked(c, inside.m());
  if (until == k_endlessly) {
    inside.block(me, why, held);
  } else if (!inside.block_until(me, why, held, until)) {
    const object_guard again(c.lock);
    remove(list, node);
    update_hints(c);
    return wait_end::time_is_up;
  }
  return static_cast<wait_end>(node.end);
}
static_assert(static_cast<int>(wait_end::has_turn) == static_cast<int>(outcome::has_turn));

}  // namespace

void take_turn(channel_core& c) {
  entry inside;
  object_guard held(c.lock);
  if (!c.turn_taken) {
    c.turn_taken = true;
    return;
  }
  waiter me;
  me.object = &c;
  wait_node node{me};
  push_back(c.turn_waiters, node);
  inside.block(me, wait_reason::chan_turn, held);
}

void pass_turn_on(channel_core& c) {
  const entry inside;
  object_guard held(c.lock);
  update_hints(c);  // one who was to go back to its place may have left instead
  wait_node* const next = pop_front(c.turn_waiters);
  c.turn_taken = next != nullptr;
  held.unlock();
  if (next != nullptr) next->who->wake(inside.m());
}

void pass_turn_on_locked(channel_core& c, M* m) {
  wait_node* const next = pop_front(c.turn_waiters);
  c.turn_taken = next != nullptr;
  if (next != nullptr) next->who->wake(m);
}

channel_result attempt_in_turn(channel_core& c, const operation& what) {
  return what.sends ? send_in_turn(c, what.slot) : receive_in_turn(c, what);
}

channel_result operate_by_turns(channel_core& c, const operation& what, os::nanos until) {
  const detail::channel_handle kept = another_handle(c);  // the turn is passed on after the wake
  take_turn(c);
  for (bool again = false;;) {
    const channel_result result = attempt_in_turn(c, what);
    if (result != channel_result::would_block) return result;
    if (until == k_not_at_all) {
      pass_turn_on(c);
      return result;
    }
    switch (wait_for_partner(c, what, until, again)) {
      case wait_end::done:
        return channel_result::ok;
      case wait_end::closed:
        return channel_result::closed;
      case wait_end::time_is_up:
        return channel_result::would_block;
      case wait_end::has_turn:
        break;
    }
    again = true;
  }
}

}  // namespace magpie::rt
