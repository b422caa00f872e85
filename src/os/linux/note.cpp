#include "os/note.h"

#include "base/check.h"

namespace magpie::rt::os {

bool note::wait_until(nanos deadline) {
  // acquire pairs with the release in wake(): what the waker wrote before is visible.
  while (word_.load(acquire) == 0) {
    if (futex_wait(word_, 0, deadline) == futex_outcome::timed_out) {
      return word_.load(acquire) != 0;  // as above: woken in the last moment is woken
    }
  }
  return true;
}

void note::wait() { wait_until(k_never); }

void note::wake() {
  futex_word* const word = &word_;
  // release pairs with the acquire in wait_until().
  MAGPIE_CHECK(word_.exchange(1, release) == 0, "a note woken twice");
  futex_wake(word, 1);
}

void note::clear() { word_.store(0, relaxed); }  // relaxed: nobody else looks, see the contract

bool note::woken() const { return word_.load(acquire) != 0; }  // pairs with the release in wake()

}  // namespace magpie::rt::os
