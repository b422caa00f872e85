// Who owns a pending timer is decided by its node's `who`: cancel() takes the timer out by
// compare-exchange, run_expired() by exchange, and whoever got it may go on. A timer that loses
// against run_expired() waits until fire() has returned, which is soon: `pending` is cleared last.

#include "timer/timer_heap.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/cacheline.h"
#include "base/check.h"
#include "os/memory.h"
#include "os/thread.h"

namespace magpie::rt {
namespace {

constexpr std::uint32_t k_children = 4;
constexpr std::uint32_t k_first_capacity = 256;
constexpr std::uint32_t k_nodes_at_once = 2048;

// Fewer cancelled ones are not worth a sweep.
constexpr std::int32_t k_least_sweep = 64;

// Heaps are cleared under it. One who cancels from afar holds it, and so has either a heap that is
// still there or a timer that is in none.
constinit os::lock g_end{os::lock_rank::timers_end};

}  // namespace

struct timer_heap::node_chunk {
  node_chunk* next;
  timer_node nodes[k_nodes_at_once];
};

bool timer::cancel() {
  for (;;) {
    if (!pending.load(acquire)) return false;  // pairs with run_expired(): fire() has returned
    // relaxed: the node is ours while the timer is in it; only a count depends on this.
    timer_heap* const in = node->heap.load(relaxed);
    timer* me = this;
    // acq_rel: whoever drops the node afterwards has nothing of the timer to see; and what
    // run_expired() did before it re-armed is seen here.
    if (node->who.compare_exchange_strong(me, nullptr, acq_rel, relaxed)) {
      in->cancelled_.fetch_add(1, relaxed);  // relaxed: a hint
      pending.store(false, relaxed);         // relaxed: the owner reads it
      return true;
    }
    os::yield_thread();  // it is being fired
  }
}

bool timer::cancel_from_afar() {
  const os::lock_guard hold(g_end);
  return cancel();
}

timer_heap::~timer_heap() {
  clear();
  if (entries_ != nullptr) (void)os::unmap({entries_, capacity_ * sizeof(entry)});
  while (node_chunk* const chunk = chunks_) {
    chunks_ = chunk->next;
    (void)os::unmap({chunk, sizeof(node_chunk)});
  }
}

timer_heap::addition timer_heap::add(timer& t, agreement agree, void* argument) {
  const os::lock_guard hold(lock_);
  // relaxed: a hint.
  if (const std::int32_t gone = cancelled_.load(relaxed);
      gone >= k_least_sweep && static_cast<std::uint32_t>(gone) > size_locked() / 4) {
    drop_cancelled_locked();
  }
  timer_node* const node = new_node_locked();
  t.node = node;
  t.pending.store(true, relaxed);   // relaxed: the owner reads it, and who got it from the node
  node->heap.store(this, relaxed);  // as above
  node->who.store(&t, release);     // pairs with the exchange in run_expired()
  push_locked({t.when, node});
  publish_next_locked();
  const addition outcome = entries_[0].node == node ? addition::earliest : addition::later;
  if (agree == nullptr || agree(argument)) return outcome;
  t.cancel();
  return addition::refused;
}

// A handful at a time: what leads from an entry to the timer, and often from there to the stack of
// who sleeps, is in nobody's cache. While one is waited for the others are on their way.
std::size_t timer_heap::run_expired(os::nanos now, harvest& out) {
  constexpr std::size_t k_handful = 16;
  timer_node* due[k_handful];
  std::size_t fired = 0;
  const os::lock_guard hold(lock_);
  if (paused_) return 0;
  for (;;) {
    std::size_t count = 0;
    while (count < k_handful && size_locked() != 0 && entries_[0].when <= now) {
      due[count++] = entries_[0].node;
      __builtin_prefetch(entries_[0].node);
      pop_locked();
    }
    if (count == 0) break;
    for (std::size_t i = 0; i < count; ++i) {
      // relaxed: only to fetch it. One on a stack has the waiter it wakes behind it.
      const auto* const t = reinterpret_cast<const char*>(due[i]->who.load(relaxed));
      for (std::size_t line = 0; line < 4; ++line) __builtin_prefetch(t + line * k_cache_line, 1);
    }
    for (std::size_t i = 0; i < count; ++i) fired += fire_locked(due[i], now, out);
  }
  publish_next_locked();
  return fired;
}

// The node is in the heap no more. True: its timer was still there, and has fired.
bool timer_heap::fire_locked(timer_node* node, os::nanos now, harvest& out) {
  // acquire: the timer as add() left it; release: cancel() that fails sees that it is ours.
  timer* const t = node->who.exchange(nullptr, acq_rel);
  if (t == nullptr) {
    cancelled_.fetch_sub(1, relaxed);  // relaxed: a hint
    free_node_locked(node);
    return false;
  }
  if (const os::nanos again = t->fire(*t, now, out); again != 0) {
    t->when = again;
    push_locked({again, node});
    node->who.store(t, release);  // pairs with the compare-exchange in cancel()
    return true;
  }
  free_node_locked(node);
  t->pending.store(false, release);  // last: its owner may free it
  return true;
}

// Between the two locks its timers are in no heap. They can be cancelled all the same, and are
// late at most by the time this takes.
void timer_heap::absorb(timer_heap& other) {
  entry* moved = nullptr;
  std::uint32_t count = 0, capacity = 0;
  node_chunk* chunks = nullptr;
  timer_node* free_nodes = nullptr;
  {
    const os::lock_guard hold(other.lock_);
    moved = std::exchange(other.entries_, nullptr);
    capacity = std::exchange(other.capacity_, 0);
    count = other.size_locked();
    chunks = std::exchange(other.chunks_, nullptr);
    free_nodes = std::exchange(other.free_nodes_, nullptr);
    other.size_.store(0, relaxed);       // relaxed: under the lock
    other.cancelled_.store(0, relaxed);  // relaxed: a hint
    other.publish_next_locked();
  }
  if (moved == nullptr) return;
  {
    const os::lock_guard hold(lock_);
    for (std::uint32_t i = 0; i < count; ++i) {
      moved[i].node->heap.store(this, relaxed);  // relaxed: a hint for cancel()
      push_locked(moved[i]);
    }
    while (timer_node* const node = free_nodes) {
      free_nodes = node->next_free;
      free_node_locked(node);
    }
    while (node_chunk* const chunk = chunks) {
      chunks = chunk->next;
      chunk->next = std::exchange(chunks_, chunk);
    }
    publish_next_locked();
  }
  (void)os::unmap({moved, capacity * sizeof(entry)});
}

void timer_heap::pause() {
  const os::lock_guard hold(lock_);
  paused_ = true;
  publish_next_locked();
}

void timer_heap::resume() {
  const os::lock_guard hold(lock_);
  paused_ = false;
  publish_next_locked();
}

// Farewells may run the code of users: one at a time, and no lock is held meanwhile.
void timer_heap::clear() {
  while (timer* const t = take_any()) {
    if (t->abandoned != nullptr) t->abandoned(*t);
  }
}

// A pending timer with a farewell, made idle like those found on the way; null: no more.
timer* timer_heap::take_any() {
  const os::lock_guard no_end(g_end);
  const os::lock_guard hold(lock_);
  timer* found = nullptr;
  while (found == nullptr && size_locked() != 0) {
    const std::uint32_t last = size_locked() - 1;
    timer_node* const node = entries_[last].node;
    size_.store(last, relaxed);  // relaxed: under the lock
    // As in run_expired().
    timer* const t = node->who.exchange(nullptr, acq_rel);
    if (t != nullptr) {
      if (t->abandoned != nullptr) found = t;
      t->pending.store(false, release);  // as in run_expired(): without a farewell it may be gone
    }
    free_node_locked(node);
  }
  if (size_locked() == 0) cancelled_.store(0, relaxed);  // relaxed: a hint
  publish_next_locked();
  return found;
}

// ---- The heap ---------------------------------------------------------------------------------

void timer_heap::push_locked(entry e) {
  const std::uint32_t size = size_locked();
  if (size == capacity_) grow_locked();
  size_.store(size + 1, relaxed);  // relaxed: under the lock
  sift_up_locked(size, e);
}

void timer_heap::pop_locked() {
  const std::uint32_t size = size_locked() - 1;
  size_.store(size, release);  // pairs with pending()
  if (size != 0) sift_down_locked(0, entries_[size]);
}

void timer_heap::sift_up_locked(std::uint32_t at, entry e) {
  while (at != 0) {
    const std::uint32_t parent = (at - 1) / k_children;
    if (entries_[parent].when <= e.when) break;
    entries_[at] = entries_[parent];
    at = parent;
  }
  entries_[at] = e;
}

void timer_heap::sift_down_locked(std::uint32_t at, entry e) {
  const std::uint32_t size = size_locked();
  for (;;) {
    const std::uint32_t first = at * k_children + 1;
    if (first >= size) break;
    std::uint32_t least = first;
    const std::uint32_t end = std::min(first + k_children, size);
    for (std::uint32_t i = first + 1; i < end; ++i) {
      if (entries_[i].when < entries_[least].when) least = i;
    }
    if (entries_[least].when >= e.when) break;
    entries_[at] = entries_[least];
    at = least;
  }
  entries_[at] = e;
}

void timer_heap::drop_cancelled_locked() {
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < size_locked(); ++i) {
    const entry e = entries_[i];
    // acquire: whoever cancelled is done with the node.
    if (e.node->who.load(acquire) != nullptr) {
      entries_[kept++] = e;
    } else {
      free_node_locked(e.node);
    }
  }
  size_.store(kept, relaxed);    // relaxed: under the lock
  cancelled_.store(0, relaxed);  // relaxed: a hint
  for (std::uint32_t i = kept / k_children + 1; i-- > 0;) {
    if (i < kept) sift_down_locked(i, entries_[i]);
  }
}

// relaxed: whoever adds a timer brings the fence, see sched/timers.cpp.
void timer_heap::publish_next_locked() {
  const bool any = size_locked() != 0 && !paused_;
  next_.store(any ? entries_[0].when : os::k_never, relaxed);
}

// ---- Memory: from the kernel, since malloc may not be called in here ----------------------------

void timer_heap::grow_locked() {
  const std::uint32_t capacity = capacity_ != 0 ? 2 * capacity_ : k_first_capacity;
  const auto memory = os::allocate_records(capacity * sizeof(entry));
  if (!memory) fatal("no memory for another timer");
  auto* const entries = static_cast<entry*>(*memory);
  if (entries_ != nullptr) {
    std::memcpy(entries, entries_, size_locked() * sizeof(entry));
    (void)os::unmap({entries_, capacity_ * sizeof(entry)});
  }
  entries_ = entries;
  capacity_ = capacity;
}

timer_node* timer_heap::new_node_locked() {
  if (free_nodes_ == nullptr) {
    const auto memory = os::allocate_records(sizeof(node_chunk));
    if (!memory) fatal("no memory for another timer");
    auto* const chunk = new (*memory) node_chunk{chunks_, {}};
    chunks_ = chunk;
    for (std::uint32_t i = k_nodes_at_once; i-- > 0;) free_node_locked(&chunk->nodes[i]);
  }
  timer_node* const node = free_nodes_;
  free_nodes_ = node->next_free;
  return node;
}

void timer_heap::free_node_locked(timer_node* node) {
  node->next_free = free_nodes_;
  free_nodes_ = node;
}

}  // namespace magpie::rt
