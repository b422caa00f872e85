#include "sched/waiting.h"

#include <iterator>

#include "os/thread.h"
#include "sched/outside.h"
#include "sched/timers.h"
#include "sched/turn.h"

namespace magpie::rt {

// The waits between two looks get longer, so that a processor which uses the object again and
// again keeps its cache line meanwhile: two that snatch it from each other at every operation are
// slower together than one alone. The holder may have lost its processor: in the end it is given
// ours.
void lock_object_slow(detail::lock_word& word) {
  constexpr int k_longest_wait = 256;
  const os::nanos give_up = os::in_forked_child() ? os::now() + os::k_lost_lock : os::k_never;
  for (;;) {
    for (int wait = 8; wait <= k_longest_wait; wait *= 2) {
      for (int i = 0; i < wait; ++i) cpu_relax();
      // relaxed: only worth a try? acquire: as in lock_object().
      if (word.value.load(relaxed) == 0 && word.value.exchange(1, acquire) == 0) return;
    }
    os::yield_thread();
    if (give_up != os::k_never && os::now() >= give_up) os::fail_in_forked_child();
  }
}

bool may_lock_objects() {
  const M* const m = current_m();
  return m == nullptr || m->depth.load(relaxed) != 0;  // relaxed: its own
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

namespace {

template <class List>
wait_node* pop_first_undecided(List& list) {
  while (wait_node* const node = list.first) {
    remove(list, *node);
    if (node->who->decide(node)) return node;
  }
  return nullptr;
}

// As far ahead as the fetching of one takes, in turns of the loop that wakes them.
constexpr std::uint32_t k_ahead = 12;

}  // namespace

wait_node* pop_front(detail::wait_list& list) { return pop_first_undecided(list); }
wait_node* pop_front(long_wait_list& list) { return pop_first_undecided(list); }

// trailing_ is in the list whenever anybody is: so it may be written to.
void push_back(long_wait_list& list, wait_node& node) noexcept {
  wait_node* const last = list.last;
  push_back(static_cast<detail::wait_list&>(list), node);
  if (last == nullptr) {
    list.trailing_ = &node;
    return;
  }
  node.position = last->position + 1;
  if (node.position - list.trailing_->position < k_ahead) return;
  list.trailing_->ahead = &node;
  list.trailing_ = list.trailing_->next;
}

void push_front(long_wait_list& list, wait_node& node) {
  wait_node* const first = list.first;
  push_front(static_cast<detail::wait_list&>(list), node);
  if (first == nullptr) {
    list.trailing_ = &node;
  } else {
    node.position = first->position - 1;
  }
}

void remove(long_wait_list& list, wait_node& node) {
  if (list.trailing_ == &node) {
    list.trailing_ = node.next != nullptr ? node.next : node.previous;
  }
  remove(static_cast<detail::wait_list&>(list), node);
}

// ---- Blocking ---------------------------------------------------------------------------------

namespace {

struct blocked_call {
  waiter& me;
  entry::enlist_function enlist;
  void* argument;
};

// Afterwards the caller may be running again: nothing of its stack may be touched.
bool commit_block(M&, void* raw) {
  const auto call = *static_cast<const blocked_call*>(raw);
  return call.enlist(call.argument);
}

// The deadline of a goroutine that waits.
struct wait_timer : timer {
  explicit wait_timer(const blocked_call& c) : timer(time_is_up), call(c) {}

  static os::nanos time_is_up(timer& t, os::nanos, harvest& out) {
    waiter& me = static_cast<wait_timer&>(t).call.me;
    if (me.decide(&t)) out.woken.add(me);
    return 0;
  }

  // Once enlisted, the caller may go on, and this with it; once the timer is set, the same. So
  // the timer is set first, and cannot fire until enlist() has returned.
  static bool commit(M& m, void* raw) {
    auto& t = *static_cast<wait_timer*>(raw);
    return m.scheduler_.add_timer(&m, t, t.call.enlist, t.call.argument);
  }

  const blocked_call call;
};

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

// Not counted as waiting: it wakes up by itself.
bool sleep_as_thread_until(const blocked_call& call, os::nanos deadline) {
  check_not_forked();
  if (current_m() == nullptr) note_outside_thread();
  waiter& me = call.me;
  if (!call.enlist(call.argument) || me.note.wait_until(deadline)) return true;
  if (me.decide(&me)) return false;
  me.note.wait();  // somebody is on the way to wake it
  return true;
}

}  // namespace

void entry::begin_block(M* m, waiter& me, wait_reason why, detail::lock_word& word) noexcept {
  me.g = m->current;
  me.g->waits_as = &me;
  me.since = m->scheduler_.coarse_now();
  const auto unlock = [](M& left) {
    unlock_object(*static_cast<detail::lock_word*>(left.leaving.argument));
  };
  m->scheduler_.begin_wait(m, why, unlock, &word);
}

void entry::block_thread(waiter& me, detail::lock_word& word) noexcept {
  sleep_as_thread({me, release_held, &word});
}

void entry::block(waiter& me, wait_reason why, enlist_function enlist, void* argument) {
  blocked_call call{me, enlist, argument};
  if (m_ == nullptr) return sleep_as_thread(call);
  me.g = m_->current;
  me.g->waits_as = &me;
  me.since = m_->scheduler_.coarse_now();
  m_ = m_->scheduler_.park(m_, why, commit_block, &call);
  me.g->waits_as = nullptr;
}

bool entry::block_until(waiter& me, wait_reason why, enlist_function enlist, void* argument,
                        os::nanos deadline) {
  MAGPIE_DCHECK(me.contested, "a wait with a deadline has two ways to end");
  const blocked_call call{me, enlist, argument};
  if (deadline == os::k_never) {
    block(me, why, enlist, argument);
    return true;
  }
  if (m_ == nullptr) return sleep_as_thread_until(call, deadline);
  me.g = m_->current;
  me.g->waits_as = &me;
  me.since = m_->scheduler_.coarse_now();
  wait_timer timer(call);
  timer.when = deadline;
  m_ = m_->scheduler_.park(m_, why, wait_timer::commit, &timer);
  me.g->waits_as = nullptr;
  timer.cancel();
  return me.decided.load(relaxed) != &timer;  // relaxed: the wake brought it
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

void wake_list::wake_all(M* m, scheduler::wake_policy policy) {
  waiter* w = std::exchange(first_, nullptr);
  last_ = nullptr;
  const bool alone = w != nullptr && w->next_woken == nullptr;
  if (alone && policy == scheduler::wake_policy::wake_others) return w->wake(m);
  G* batch[run_queue::k_half];
  std::size_t count = 0;
  scheduler* home = nullptr;  // of those in the batch
  const auto send_off = [&] {
    if (count == 0) return;
    trace_end_moment(m);
    home->ready_all(m != nullptr && &m->scheduler_ == home ? m : nullptr, batch, count, policy);
    count = 0;
  };
  while (w != nullptr) {
    waiter* const next = w->next_woken;  // before the wake: it may be gone then
    if (w->g == nullptr) {
      w->wake(m);
    } else {
      scheduler& its = scheduler::home_of(w->g);
      if (&its != home || count == std::size(batch)) {
        send_off();
        home = &its;
      }
      w->g->transition(goroutine_state::waiting, goroutine_state::runnable);
      if (count == 0) trace_begin_moment(m);
      trace_unblock(m, *w->g);
      batch[count++] = w->g;
    }
    w = next;
  }
  send_off();
}

}  // namespace magpie::rt
