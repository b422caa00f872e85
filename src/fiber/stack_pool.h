// Where stacks come from and where they go when nobody runs on them.
//
//   slab    a large reservation of address space for stacks of one size. Grows the pool.
//   chunk   a run of slots in a slab, made usable and guarded at one go, given back at one go.
//   slot    guard pages and, above them, one stack.
//
// A goroutine's stack is not memory until it is touched, page by page, and touching a page for
// the first time costs a microsecond or two in the kernel. So a stack that was used is worth
// keeping: it goes back to the cache of its owner (a P), last in first out, and only trim(),
// called off every hot path, gives memory back to the kernel.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/intrusive.h"
#include "fiber/stack.h"
#include "os/lock.h"
#include "os/memory.h"

namespace magpie::rt {

// How the pages below a stack are made to fault; see os/memory.h.
enum class guard_kind : std::uint8_t {
  markers,
  mappings,
};

// What this kernel can do; MAGPIE_STACK_GUARDS=madvise|mprotect chooses otherwise.
guard_kind default_guard_kind();

// Stacks come in a few sizes, so that a returned one fits the next who asks. A size is the
// address space of a slot, guard included.
using size_class = std::uint8_t;
inline constexpr std::array<std::size_t, 6> k_slot_sizes = {128 << 10, 256 << 10, 1 << 20,
                                                            8 << 20,   64 << 20,  512 << 20};
inline constexpr std::size_t k_size_classes = k_slot_sizes.size();
inline constexpr size_class k_no_class = 0xff;

// The smallest class whose slots have `size` bytes; k_no_class when none has.
constexpr size_class class_for(std::size_t size) {
  for (size_class c = 0; c < k_size_classes; ++c) {
    if (size <= k_slot_sizes[c]) return c;
  }
  return k_no_class;
}

struct stack_slab;

struct stack_pool_stats {
  std::size_t in_use = 0;    // handed out, to caches or fibers
  std::size_t free = 0;      // in the pool, ready to be handed out
  std::size_t reserved = 0;  // bytes of address space
};

class stack_pool {
 public:
  explicit stack_pool(guard_kind = default_guard_kind());
  ~stack_pool();  // every stack must have come back
  stack_pool(const stack_pool&) = delete;
  stack_pool& operator=(const stack_pool&) = delete;

  // Moves up to `wanted` stacks into `out`, warm ones first. Fewer than wanted only when there
  // are no more; none: explain_shortage() says why. Any thread.
  std::size_t take(size_class, std::size_t wanted, stack** out);

  // Any thread, but never the stack the caller runs on.
  void give(stack* const* stacks, std::size_t count);

  // Gives memory back to the kernel until about `keep` free stacks of each size are left ready.
  // Takes long, and holds no lock while it waits for the kernel. Any thread, one at a time.
  void trim(std::size_t keep);

  // Why the last take() came back empty, in words for the user.
  void explain_shortage(printer&) const;

  stack_pool_stats stats() const;

 private:
  struct shelf;  // everything of one size class
  enum class shortage : std::uint8_t {
    none,
    address_space,
    memory,
    mappings
  };

  bool stock_locked(shelf&);
  stack_chunk* take_blank_locked(shelf&);
  bool add_slab_locked(shelf&);
  bool commit_more_locked(stack_slab&, std::size_t chunk_size);
  bool carve(stack_chunk&);
  static void warm_up(stack_chunk&);
  bool install_guards(stack_chunk&);
  void blank_whole_chunks(shelf&, std::size_t keep);
  void return_records_locked(shelf&, stack_slab&);
  void cool_free_slots(shelf&, std::size_t keep);
  std::size_t guard_mappings_allowed() const;

  mutable os::member_lock lock_{os::lock_rank::stack_pool};
  // All below is guarded by lock_.
  const guard_kind guards_;
  const std::size_t mapping_limit_;
  std::size_t guard_mappings_ = 0;
  shortage last_shortage_ = shortage::none;
  os::error last_error_;
  stack_pool_stats stats_;
  shelf* shelves_ = nullptr;  // k_size_classes of them
};

// The stacks one owner keeps at hand. Not thread-safe: the owner's alone.
class stack_cache {
 public:
  explicit stack_cache(stack_pool& pool) : pool_(pool) {}
  ~stack_cache() { drain(); }
  stack_cache(const stack_cache&) = delete;
  stack_cache& operator=(const stack_cache&) = delete;

  // Null when the pool has no more either: see stack_pool::explain_shortage().
  stack* take(size_class c) {
    stack* const s = hot_[c].pop();
    return s != nullptr ? s : take_slow(c);
  }

  // Whether take() needs nothing of the pool.
  bool has(size_class c) const { return !hot_[c].empty(); }

  // The most recently given stack is the next one taken. Never the stack the caller runs on.
  void give(stack* s) {
    hot_[s->size_class].push(s);
    if (hot_[s->size_class].size() > limit(s->size_class)) give_slow(s->size_class);
  }

  // Everything back to the pool.
  void drain();

 private:
  using hot_stacks = intrusive_stack<stack, &stack::next>;

  // A few megabytes of touched pages per owner, and never much address space held back.
  static constexpr std::size_t limit(size_class c) {
    return k_slot_sizes[c] <= (256 << 10) ? 256 : k_slot_sizes[c] <= (8 << 20) ? 16 : 1;
  }

  stack* take_slow(size_class);
  void give_slow(size_class);
  void move_to_pool(size_class, std::size_t keep);

  stack_pool& pool_;
  std::array<hot_stacks, k_size_classes> hot_;
};

// The stack whose slot, guard included, contains `address`; null when none does. Looks through
// the slabs of all pools. Signal-safe.
const stack* find_stack(const void* address);

}  // namespace magpie::rt
