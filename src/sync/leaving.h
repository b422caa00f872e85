// How one whose time is up leaves an object that may go away.
//
// Its node is still on the object's list, so it has to come for the object's lock. But whoever
// releases everybody who waits, by notify_all() or set(), allows the object to be destroyed, and
// does not know of one that is just about to come. So the two agree in the record of the waiter,
// which either says first that it comes, and then the other waits until it has been there; or
// learns that it is off the list, and does not touch the object any more.
//
// For objects whose waiters can be released all at once: condition_variable and event.
#pragma once

#include "os/thread.h"
#include "sched/waiting.h"

namespace magpie::rt {

struct leaving_waiter : waiter {
  enum class place : std::uint8_t {
    listed,
    taken_off,
    leaving,  // comes for the object's lock
  };

  wait_node node{*this};
  atomic<place> at{place::listed};

  static leaving_waiter& of(const wait_node& n) { return *static_cast<leaving_waiter*>(n.who); }

  // By the waiter, after its time was up. Takes it off the list if it is still there.
  void leave(detail::lock_word& lock, detail::wait_list& list) {
    // acq_rel: of this and the exchange in take_off() one is first for both.
    if (at.exchange(place::leaving, acq_rel) != place::listed) return;
    const object_guard held(lock);
    remove(list, node);
  }
};

// Takes one off the list. True: it is the caller's to wake. Otherwise its time is up, and it may be
// gone, or is still listed until it has come by itself. Under the object's lock.
inline bool take_off(detail::wait_list& list, leaving_waiter& w) {
  remove(list, w.node);
  if (w.decide(&w.node)) return true;
  // acq_rel: as in leave().
  if (w.at.exchange(leaving_waiter::place::taken_off, acq_rel) == leaving_waiter::place::leaving)
    push_front(list, w.node);
  return false;
}

// Until nobody on the list is about to come for the lock: a few dozen instructions of others.
inline void wait_for_leavers(detail::lock_word& lock, const detail::wait_list& list) {
  const auto somebody_leaves = [&] {
    const object_guard held(lock);
    for (const wait_node* node = list.first; node != nullptr; node = node->next) {
      // relaxed: one that is listed all the same has come across take_off(), under the lock.
      if (leaving_waiter::of(*node).at.load(relaxed) == leaving_waiter::place::taken_off)
        return true;
    }
    return false;
  };
  while (somebody_leaves()) os::yield_thread();
}

}  // namespace magpie::rt
