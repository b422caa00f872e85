// A barrier in two halves of very different price.
//
// The pattern: one side stores A and loads B, the other stores B and loads A, and at least one
// must see the other's store. Each side needs a full barrier in between. Where one side runs a
// million times as often as the other, the kernel can pay for both: heavy_fence() makes every
// running thread of the process execute a barrier, so light_fence() only has to keep the
// compiler from moving the two accesses.
#pragma once

#include <atomic>

#include "base/atomic.h"

namespace magpie::rt::os {

namespace detail {
struct fence_support {
  fence_support();
  bool heavy_is_enough;
};
extern const fence_support g_fences;
}  // namespace detail

// The frequent side. Pairs with heavy_fence() only, never with another light_fence().
inline void light_fence() {
  if (detail::g_fences.heavy_is_enough) [[likely]] {
    std::atomic_signal_fence(seq_cst);
  } else {
    std::atomic_thread_fence(seq_cst);  // a kernel without membarrier
  }
}

// The rare side: about a microsecond, and an interruption for the other threads. Signal-safe.
void heavy_fence();

}  // namespace magpie::rt::os
