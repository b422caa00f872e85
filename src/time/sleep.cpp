// A goroutine that sleeps: a wait that only its deadline ends.

#include <magpie/async.h>
#include <magpie/go.h>

#include "sched/waiting.h"

namespace magpie::this_goroutine {

using namespace rt;

namespace {

void sleep(os::nanos deadline) {
  waiter me;
  me.contested = true;
  entry inside;
  inside.block_until(
      me, wait_reason::sleep, [](void*) { return true; }, nullptr, deadline);
}

}  // namespace

void sleep_until(time_point when) {
  if (to_nanos(when) > os::now()) sleep(to_nanos(when));
}

void sleep_for(duration d) {
  if (d > duration::zero()) sleep(deadline_after(d));
}

}  // namespace magpie::this_goroutine
