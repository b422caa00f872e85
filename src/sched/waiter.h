// Who waits: a goroutine, which is parked, or a plain thread, which sleeps. Lives on the stack of
// the one who waits, so it is gone as soon as that one goes on.
#pragma once

#include "os/note.h"
#include "sched/gate.h"
#include "sched/outside.h"

namespace magpie::rt {

struct waiter {
  G* g = nullptr;  // null: a plain thread, which sleeps on the note
  os::note note;
  bool counted_outside = false;

  // On a plain thread: makes the waiting known by `enlist`, which may say that there is nothing
  // to wait for, and sleeps until wake().
  template <class Enlist>
  void wait_as_thread(Enlist enlist) {
    check_not_forked();
    counted_outside = current_m() == nullptr;  // not inside blocking()
    const bool counted = counted_outside;      // the waker may be there before we count
    if (counted) note_outside_thread();
    if (!enlist()) return;
    // Only now: one that is counted and then finds nothing to wait for would have been taken for
    // one that sleeps. A waker that was quicker has counted it out already.
    if (counted) outside_wait_begins();
    note.wait();
  }

  // Any thread; once. Nothing of the waiter may be used afterwards.
  void wake() {
    if (g == nullptr) {
      if (counted_outside) outside_wait_ends();
      return note.wake();
    }
    G* const woken = g;
    scheduler& home = scheduler::home_of(woken);
    M* const m = enter();
    // A goroutine of another runtime is woken as from outside.
    home.ready(m != nullptr && &m->scheduler_ == &home ? m : nullptr, woken);
    if (m != nullptr) leave(m);
  }
};

}  // namespace magpie::rt
