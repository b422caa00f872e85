#include "os/fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"

namespace magpie::rt::os {
namespace {

// Registering tells the kernel to be ready for the quick kind.
bool register_membarrier() {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 &&
         syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

}  // namespace

namespace detail {

fence_support::fence_support() : heavy_is_enough(register_membarrier()) {}

// Before the constructors of other globals: goroutines that these start must not see it change,
// since a light fence of the one kind does not go with a heavy one of the other.
[[gnu::init_priority(101)]] const fence_support g_fences;

}  // namespace detail

void heavy_fence() {
  if (detail::g_fences.heavy_is_enough) {
    const long failed = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    MAGPIE_CHECK(failed == 0, "membarrier worked at start and fails now");
  } else {
    std::atomic_thread_fence(seq_cst);  // pairs with the full fence in light_fence()
  }
}

}  // namespace magpie::rt::os
