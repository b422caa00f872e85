#include "time/timed.h"

#include <algorithm>

namespace magpie::rt {
namespace {

// "Never", with room to add to.
constexpr os::nanos k_latest = os::k_never - 1'000'000'000'000;

}  // namespace

void timed::set(scheduler& where, M* m, os::nanos at) {
  home = &where;
  due = when = std::min(at, k_latest);
  where.add_timer(m, *this);
}

bool timed::unset() {
  if (!pending.load(acquire)) return false;  // as in cancel(): most are stopped when they are over
  // Its own runtime does not end while the caller runs there. About another one the caller knows
  // nothing; the pointer is only compared.
  const M* const here = current_m();
  if (here != nullptr && &here->scheduler_ == home) return cancel();
  return cancel_from_afar();
}

void timed::wait_until_landed() const {
  // pairs with land(). Whoever has it in its harvest is inside the gate, and quick.
  while (in_flight.load(acquire) != flight::none) os::yield_thread();
}

}  // namespace magpie::rt
