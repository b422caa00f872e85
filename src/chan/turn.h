// Channels whose elements may throw when they are moved.
//
// Moving such an element is a call of the user's code: it may throw, allocate, take its time.
// It can be done neither under the channel's lock nor inside the gate. But between the decision
// who gets which value and the end of the move nothing may change, or the value would be lost
// when it throws. So such a channel has a turn: one operation at a time holds it, over all it
// does, the others wait for it in line. The lock still guards the fields, for a moment each; what
// a holder of the turn has seen under the lock stays true, but that those who wait with a
// deadline or in a select may leave.
//
// The partner of an operation is taken off its list first, which makes it the holder's to wake,
// then the value is moved. If that throws, the partner is given the turn, goes back to where it
// was, in front of those who wait, and passes the turn on: who comes next finds everything as it
// was. The exception goes to whoever moved. A select goes back to the end, and later: it may have
// missed what happened elsewhere, and has to look first. A sender that waits for room in the ring
// is given the turn together with the room, and moves its value itself.
#pragma once

#include "chan/chan.h"

namespace magpie::rt {

// A send or a receive.
struct operation {
  bool sends;
  void* slot;
  detail::deliver_function deliver;

  static operation send(void* value) { return {true, value, nullptr}; }
  static operation receive(void* slot, detail::deliver_function deliver) {
    return {false, slot, deliver};
  }
};

// Waiting until a point of time, or one of these.
inline constexpr os::nanos k_endlessly = os::k_never;
inline constexpr os::nanos k_not_at_all = INT64_MIN;

void take_turn(channel_core&);
void pass_turn_on(channel_core&);

// Under the channel's lock, by one who waits until that is released: the turn is passed on.
void pass_turn_on_locked(channel_core&, M*);

// Not in the turn, not in the gate. Throws what the move throws.
channel_result operate_by_turns(channel_core&, const operation&, os::nanos until);

// In the turn, which has been passed on when the operation is over or has thrown; not when it
// would have to wait.
channel_result attempt_in_turn(channel_core&, const operation&);

}  // namespace magpie::rt
