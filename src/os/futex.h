// The kernel's wait queue behind a 32-bit word: what every sleeping thread of the runtime
// sleeps on.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "os/clock.h"

namespace magpie::rt::os {

using futex_word = atomic<std::uint32_t>;

enum class futex_outcome {
  woken,      // by futex_wake, or for no reason: look at the word again
  changed,    // the word was not `expected` any more
  timed_out,  // the deadline passed
};

// Blocks the thread while the word is `expected`, at most until `deadline` on now()'s clock.
// The compare and the falling asleep are one step for a futex_wake that comes after a store to
// the word. Interruption by a signal is reported as woken.
futex_outcome futex_wait(futex_word&, std::uint32_t expected, nanos deadline = k_never);

// Wakes up to `count` threads that wait on the word; returns how many. Signal-safe. The word may
// already be gone (a waiter woke by itself and freed it): the address is only a name here.
int futex_wake(futex_word*, int count);

}  // namespace magpie::rt::os
