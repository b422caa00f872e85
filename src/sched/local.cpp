#include "sched/local.h"

#include <atomic>

#include "sched/gate.h"

namespace magpie::rt {

goroutine_extra& extra_of(G& g) {
  if (g.extra == nullptr) {
    auto* const made = new goroutine_extra;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // as in drop_extra()
    g.extra = made;
  }
  return *g.extra;
}

void destroy_locals(G& g) {
  while (local_value* const local = g.extra->locals) {
    g.extra->locals = local->next;
    local->destroy(local->value);
    delete local;
  }
}

void drop_extra(G& g) {
  destroy_locals(g);
  // It may be stopped anywhere here, and dumps read the name.
  goroutine_extra* const dropped = g.extra;
  g.extra = nullptr;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  delete dropped;
}

}  // namespace magpie::rt

namespace magpie::detail {

using namespace rt;

namespace {

// Plain threads have theirs, too.
struct thread_locals {
  G stand_in;
  ~thread_locals() {
    if (stand_in.extra != nullptr) drop_extra(stand_in);
  }
};

G& holder_of_locals() {
  if (G* const g = current_g()) return *g;
  static thread_local thread_locals here;
  return here.stand_in;
}

}  // namespace

// Whoever comes first decides.
local_key draw_local_key(std::atomic<local_key>& of) noexcept {
  static constinit std::atomic<local_key> last{0};
  const local_key fresh = last.fetch_add(1, relaxed) + 1;  // relaxed: only distinct numbers
  local_key drawn = 0;
  // relaxed: nothing is published by a number.
  return of.compare_exchange_strong(drawn, fresh, relaxed) ? fresh : drawn;
}

void* find_local(local_key key) noexcept {
  const G& g = holder_of_locals();
  if (g.extra == nullptr) return nullptr;
  for (const local_value* l = g.extra->locals; l != nullptr; l = l->next) {
    if (l->key == key) return l->value;
  }
  return nullptr;
}

void add_local(local_key key, void* value, void (*destroy)(void*)) {
  goroutine_extra& extra = extra_of(holder_of_locals());
  extra.locals = new local_value{key, value, destroy, extra.locals};
}

}  // namespace magpie::detail
