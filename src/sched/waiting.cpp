#include "sched/waiting.h"

#include "os/thread.h"
#include "sched/outside.h"

namespace magpie::rt {

// The holder may have lost its processor: after a while of spinning it is given ours.
void lock_object_slow(detail::lock_word& word) {
  constexpr int k_spins = 100;
  for (;;) {
    for (int i = 0; i < k_spins; ++i) {
      // relaxed: only worth a try? acquire: as in lock_object().
      if (word.value.load(relaxed) == 0 && word.value.exchange(1, acquire) == 0) return;
      cpu_relax();
    }
    os::yield_thread();
  }
}

// ---- Lists ------------------------------------------------------------------------------------

void push_back(detail::wait_list& list, wait_node& node) {
  node.previous = list.last;
  node.next = nullptr;
  (list.last != nullptr ? list.last->next : list.first) = &node;
  list.last = &node;
  node.listed = true;
}

void push_front(detail::wait_list& list, wait_node& node) {
  node.previous = nullptr;
  node.next = list.first;
  (list.first != nullptr ? list.first->previous : list.last) = &node;
  list.first = &node;
  node.listed = true;
}

void remove(detail::wait_list& list, wait_node& node) {
  if (!node.listed) return;
  (node.previous != nullptr ? node.previous->next : list.first) = node.next;
  (node.next != nullptr ? node.next->previous : list.last) = node.previous;
  node.listed = false;
}

wait_node* pop_front(detail::wait_list& list) {
  while (wait_node* const node = list.first) {
    remove(list, *node);
    if (node->who->decide(node)) return node;
  }
  return nullptr;
}

// ---- Blocking ---------------------------------------------------------------------------------

namespace {

struct blocked_call {
  waiter& me;
  entry::enlist_function enlist;
  void* argument;
};

bool commit_block(M&, void* raw) {
  const auto call = *static_cast<const blocked_call*>(raw);
  return call.enlist(call.argument);
}

// A plain thread that waits for a goroutine, which only another one can end: it counts.
void sleep_as_thread(const blocked_call& call) {
  check_not_forked();
  const bool counted = current_m() == nullptr;  // not inside blocking()
  call.me.counted_outside = counted;            // the waker may be there before we count
  if (counted) note_outside_thread();
  if (!call.enlist(call.argument)) return;
  // Only now: one that is counted and then finds nothing to wait for would have been taken for
  // one that sleeps. A waker that was quicker has counted it out already.
  if (counted) outside_wait_begins();
  call.me.note.wait();
}

}  // namespace

void entry::block(waiter& me, wait_reason why, enlist_function enlist, void* argument) {
  blocked_call call{me, enlist, argument};
  if (m_ == nullptr) return sleep_as_thread(call);
  me.g = m_->current;
  m_ = m_->scheduler_.park(m_, why, commit_block, &call);
}

// ---- Waking -----------------------------------------------------------------------------------

void waiter::wake(M* m) {
  if (g == nullptr) {
    if (counted_outside) outside_wait_ends();
    return note.wake();
  }
  G* const woken = g;
  scheduler& home = scheduler::home_of(woken);
  // A goroutine of another runtime is woken as from outside.
  home.ready(m != nullptr && &m->scheduler_ == &home ? m : nullptr, woken);
}

void wake_list::wake_all(M* m) {
  waiter* w = std::exchange(first_, nullptr);
  last_ = nullptr;
  while (w != nullptr) {
    waiter* const next = w->next_woken;  // before wake(): it may be gone then
    w->wake(m);
    w = next;
  }
}

}  // namespace magpie::rt
