#include "io/shortage.h"

#include "sched/waiting.h"

namespace magpie::rt {

namespace {

constinit detail::lock_word g_lock;
// Under the lock.
constinit detail::wait_list g_waiting;
constinit std::uint64_t g_changes = 0;

std::uint64_t changes() {
  const entry inside;
  const object_guard held(g_lock);
  return g_changes;
}

}  // namespace

constinit atomic<std::uint32_t> shortage::seekers_{0};

shortage::shortage() {
  seekers_.fetch_add(1, std::memory_order_seq_cst);  // see descriptor_closed()
  seen_ = changes();
}

shortage::~shortage() {
  seekers_.fetch_sub(1, relaxed);  // relaxed: one look in vain at worst
}

void shortage::wait_until(os::nanos deadline) {
  entry inside;
  object_guard held(g_lock);
  if (g_changes == seen_) {
    waiter me;
    wait_node node{me};
    me.contested = true;
    me.object = &g_waiting;
    push_back(g_waiting, node);
    (void)inside.block_until(me, wait_reason::io_wait, held, deadline);
    held.lock(g_lock);
    remove(g_waiting, node);
  }
  seen_ = g_changes;
}

// One for each: more would not find any.
void shortage::wake_one() {
  const entry inside;
  object_guard held(g_lock);
  ++g_changes;
  wait_node* const first = pop_front(g_waiting);
  held.unlock();
  if (first != nullptr) first->who->wake(inside.m());
}

void shortage::wake_all() {
  const entry inside;
  wake_list woken;
  {
    const object_guard held(g_lock);
    ++g_changes;
    woken.add_all(g_waiting);
  }
  woken.wake_all(inside.m());
}

}  // namespace magpie::rt
