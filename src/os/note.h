// A one-shot event between two threads: one sleeps until the other wakes it. A wake before the
// sleep is not lost. What a parked M sleeps on.
#pragma once

#include "os/futex.h"

namespace magpie::rt::os {

class note {
 public:
  // Sleeps until wake() was called. One thread at a time.
  void wait();
  // The same, at most until `deadline`; false when it passed first.
  bool wait_until(nanos deadline);

  // Any thread, once per clear(). Signal-safe. When the sleeper frees the note as soon as wait()
  // returns, that is fine: wake() does not touch it any more.
  void wake();

  // Makes it ready for the next round. Only when nobody waits or wakes.
  void clear();

  // Whether wake() was called. Any thread.
  bool woken() const;

 private:
  futex_word word_{0};
};

}  // namespace magpie::rt::os
