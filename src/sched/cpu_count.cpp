#include <magpie/runtime.h>

#include "os/cpu.h"

namespace magpie {

int cpu_count() {
  static const int at_start = rt::os::usable_cpus();
  return at_start;
}

}  // namespace magpie
