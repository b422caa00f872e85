// One alias for atomics, so that a model checker can be compiled under the shipped queue and
// parking sources: define MAGPIE_ATOMIC to the checker's template.
#pragma once

#include <atomic>

#ifndef MAGPIE_ATOMIC
#define MAGPIE_ATOMIC std::atomic
#endif

namespace magpie::rt {

template <class T>
using atomic = MAGPIE_ATOMIC<T>;

inline constexpr std::memory_order relaxed = std::memory_order_relaxed;
inline constexpr std::memory_order acquire = std::memory_order_acquire;
inline constexpr std::memory_order release = std::memory_order_release;
inline constexpr std::memory_order acq_rel = std::memory_order_acq_rel;
inline constexpr std::memory_order seq_cst = std::memory_order_seq_cst;

// Tells the processor that this is a wait loop.
inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // `yield` does nothing on most cores; isb waits as pause does
#endif
}

}  // namespace magpie::rt
