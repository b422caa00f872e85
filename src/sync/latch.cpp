#include <magpie/latch.h>

#include <magpie/errors.h>

namespace magpie {

using detail::countdown;

std::ptrdiff_t latch::refuse() { throw misuse("latch: expected count out of range"); }

void latch::count_down(std::ptrdiff_t count) {
  if (count < 0 || count > max()) throw misuse("latch: count out of range");
  const countdown::state by = count * countdown::k_one;
  const countdown::state was = number_.change(-by);
  if (was < by) {
    number_.undo(-by);
    if (!number_.take_away(by)) throw misuse("latch: counted below zero");
    return;
  }
  if (was - by == countdown::k_wake && count != 0) number_.wake_all();
}

}  // namespace magpie
