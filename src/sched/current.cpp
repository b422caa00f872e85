#include "sched/current.h"

namespace magpie::rt {
namespace {

thread_local M* t_m = nullptr;

}  // namespace

// The empty asm keeps the compiler from computing the address once for two calls, which is what
// goes wrong when a goroutine changes threads in between.
[[gnu::noinline]] M* current_m() {
  asm volatile("" ::: "memory");
  return t_m;
}

[[gnu::noinline]] G* current_g() {
  asm volatile("" ::: "memory");
  return t_m != nullptr ? t_m->current : nullptr;
}

[[gnu::noinline]] void set_current_m(M* m) {
  asm volatile("" ::: "memory");
  t_m = m;
}

}  // namespace magpie::rt
