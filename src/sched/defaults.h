// The default runtime, and what settings become of those left open.
#pragma once

#include <magpie/runtime.h>

#include "sched/scheduler.h"

namespace magpie::rt {

// Fills in what was left open, from the environment and the machine.
config with_defaults(config);

// Started by the first who asks, with default settings; never ended.
runtime& default_runtime();
scheduler& default_scheduler();

// Started with these settings; misuse when it runs with others already.
scheduler& start_default_scheduler(const config&);

// Where a goroutine or a timer goes, and the caller's M when it is of that runtime.
struct destination {
  scheduler& home;
  M* m;
};

// `where` null: the caller's runtime, or the default one. `m`: as enter() gave it.
destination find_destination(scheduler* where, M* m);

}  // namespace magpie::rt
