// wait.cpp: a goroutine waits for the kernel.
//
// Comes from: a read or write that found nothing (descriptor.cpp), or a wait for a descriptor of
//             another library (guest.cpp).
// Goes to:    sched/polling.cpp, where whoever asks the poller wakes it.

#include "io/wait.h"

#include <cerrno>

#include "sched/defaults.h"

namespace magpie::rt {

scheduler& home_of_wait(M* m) {
  if (m != nullptr) return m->scheduler_;
  M* const in_call = current_m();  // inside blocking()
  return in_call != nullptr ? in_call->scheduler_ : default_scheduler();
}

int wait_for_event(entry& inside, poll_desc& d, direction way, object_guard& held,
                   os::nanos deadline) {
  scheduler& home = home_of_wait(inside.m());
  waiter me;
  wait_node node{me};
  me.contested = deadline != os::k_never;
  me.object = &d;
  detail::wait_list& list = d.of(way).waiting;
  push_back(list, node);
  if (d.guest) {
    if (const os::error failed = home.arm_guest_locked(d)) {
      remove(list, node);
      held.unlock();
      return failed.code;
    }
  }
  home.io_wait_begins(inside.m());
  int outcome = 0;
  if (deadline == os::k_never) {
    inside.block(me, wait_reason::io_wait, held);
  } else if (!inside.block_until(me, wait_reason::io_wait, held, deadline)) {
    outcome = ETIMEDOUT;
    const object_guard again(d.lock);
    remove(list, node);
  }
  home.io_wait_ends(inside.m());
  return outcome;
}

}  // namespace magpie::rt
