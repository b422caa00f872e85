// Which M the calling thread is.
#pragma once

#include "sched/scheduler.h"

namespace magpie::rt {

// At the start and the end of an M's thread.
void set_current_m(M*);

}  // namespace magpie::rt
