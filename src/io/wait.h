// Waiting for an event of a descriptor: what owned ones (descriptor.h) and guests (guest.h) share.
#pragma once

#include "poll/poll_desc.h"
#include "sched/waiting.h"

namespace magpie::rt {

// Whose poller a wait uses: the caller's runtime, or outside of one the default runtime, which is
// started if need be. `m` as enter() gave it.
scheduler& home_of_wait(M* m);

// Waits until an event, or whoever else wakes the side, has come. `held` is the lock of `d`,
// released meanwhile and not taken again. ETIMEDOUT when the deadline is over; other errors only
// for guests.
int wait_for_event(entry& inside, poll_desc& d, direction, object_guard& held, os::nanos deadline);

}  // namespace magpie::rt
