// What the machine offers to a runtime.
#pragma once

#include <magpie/export.h>

namespace magpie {

// How many CPUs this process may keep busy: those its affinity mask allows, and no more than its
// cgroup quota pays for. The tightest of nested quotas counts (cgroup v1 and v2), rounded up and
// never taken for less than 2. At least 1, because one CPU may be all the mask allows.
//
// The answer is as at the first call: later changes of mask or quota do not show. Any thread.
MAGPIE_API int cpu_count();

}  // namespace magpie
