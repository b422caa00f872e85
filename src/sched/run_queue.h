// A P's run queue: run_next, one slot for the goroutine that should run next, and a ring of 256.
// One owner, the M that holds the P; many thieves.
//
// Invariants
//   R1  slots [head, tail) of the ring hold goroutines, each in exactly one slot;
//   R2  only the owner writes tail_ and slots; anybody advances head_, by compare-exchange, and
//       whoever advanced it over a slot owns the goroutine that was there;
//   R3  only the owner puts into run_next_; the owner empties it, and a thief that has said so.
//
// head_ and tail_ run freely over 32 bits; their difference is the length.
//
// Orders. The owner writes a slot and publishes it by storing tail_ with release; a thief reads
// tail_ with acquire before the slot. A thief reads slots that the owner may overwrite at the
// same time, once head_ has moved past them: the slots are atomics for that reason, and the
// thief's compare-exchange of head_ then fails and what it read is thrown away. That
// compare-exchange is a release, because the thief's reads of the slots must not sink below it;
// the owner's acquire load of head_ before it reuses a slot is the other half.
//
// pop_newest() takes from the owner's end, by moving tail_ back. A thief may have read the old
// tail_ and have its eye on any number of those that the owner takes back, one after the other,
// while head_ stands still. So the word with the head also counts the times the owner did that,
// and the count makes the compare-exchange of every thief fail that has read head_ before. A thief
// that reads it afterwards sees the new tail_, too.
//
// run_next. The owner fills and empties it at every turn of goroutines that wake each other, a
// thief once in a long while: only when the owner has stood still for microseconds. So the owner
// pays with two plain stores, and the thief for a barrier on both sides (os/fence.h):
//
//   owner:  [enter]    owner_inside_ = true   [fence]  [look] at thief_,       then swaps run_next_
//   thief:  [announce] thief_ = wants         [fence]  [look] at owner_inside_, then takes
//   run_next_
//
// One of them sees the other, and whoever sees the other first has its way: a thief that sees the
// owner gives up; an owner that sees a thief refuses it, by compare-exchange, unless the thief has
// already gone in by another: then it waits for the thief's two instructions. One thief at a time.
//
// None of these is a full barrier. The wake-up protocol needs one between publishing work and
// looking for sleepers; it is in wake_p(), see idle.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/cacheline.h"
#include "goroutine/g.h"
#include "os/fence.h"

namespace magpie::rt {

#ifndef MAGPIE_RUN_QUEUE_SIZE
#define MAGPIE_RUN_QUEUE_SIZE 256
#endif

class run_queue {
 public:
  static constexpr std::uint32_t k_size = MAGPIE_RUN_QUEUE_SIZE;
  static_assert((k_size & (k_size - 1)) == 0);
  static constexpr std::uint32_t k_half = k_size / 2;  // the most that moves at a time

  // ---- Owner only ----

  // To the end of the ring; false when it is full.
  bool try_push(G* g) {
    const std::uint32_t tail = tail_.load(relaxed);           // relaxed: only the owner writes it
    const std::uint32_t head = head_in(head_.load(acquire));  // pairs with consume()'s release
    if (tail - head >= k_size) [[unlikely]]
      return false;
    slots_[tail % k_size].store(g, relaxed);  // published by the next line
    tail_.store(tail + 1, release);           // pairs with the acquire in grab_half()
    return true;
  }

  // The same; when the ring is full, half of it and `g` move to `overflow`.
  void push(G* g, goroutine_queue& overflow) {
    if (!try_push(g)) push_slow(g, overflow);
  }

  // Into run_next; whoever was there moves to the ring, as with push(). True: somebody was.
  bool push_next(G* g, goroutine_queue& overflow) {
    // An empty slot stays empty until the owner fills it (R3).
    if (run_next_.load(relaxed) == nullptr) {
      run_next_.store(g, release);  // publishes g to steal_next()
      return false;
    }
    G* const old = swap_next(g);
    if (old == nullptr) return false;
    push(old, overflow);
    return true;
  }

  struct popped {
    G* g = nullptr;
    bool inherits_slice = false;  // came from run_next: goes on with the time of who put it there
  };

  popped pop() {
    if (G* const next = take_next()) return {next, true};
    return {pop_ring(), false};
  }

  G* pop_ring() {
    std::uint64_t seen = head_.load(acquire);  // pairs with the release of consume(), by thieves
    for (;;) {
      const std::uint32_t tail = tail_.load(relaxed);  // relaxed: only the owner writes it
      if (head_in(seen) == tail) return nullptr;
      G* const g = slots_[head_in(seen) % k_size].load(relaxed);  // relaxed: the owner wrote it
      if (consume(seen, 1)) return g;
    }
  }

  // The one pushed last, from the wrong end of the ring: for a parent that waits for the child it
  // spawned last. Null when the ring is empty or a thief was faster.
  G* pop_newest();

  // The newest of all, in run_next or in the ring, if it is wanted; otherwise all stays as it is.
  template <class Predicate>
  G* take_newest_if(Predicate is_wanted) {
    goroutine_queue overflow;  // stays empty: what is put back was just taken out
    if (G* const next = take_next()) {
      if (is_wanted(*next)) return next;
      push_next(next, overflow);
      return nullptr;
    }
    G* const newest = pop_newest();
    if (newest == nullptr || is_wanted(*newest)) return newest;
    push(newest, overflow);
    return nullptr;
  }

  // As many of them as fit, in order; returns how many.
  std::size_t push_all(G* const* from, std::size_t count);

  // Everything, run_next first.
  void drain_into(goroutine_queue& to);

  // Takes over half of `victim`, rounded up, or at least 1 and at most `most`; returns one of them
  // to run now. This queue must be empty.
  G* steal_half_from(run_queue& victim, std::uint32_t most = k_half);

  // Empties run_next.
  G* take_next() {
    return run_next_.load(relaxed) != nullptr ? swap_next(nullptr) : nullptr;  // relaxed: as above
  }

  // ---- Any thread ----

  // For a thief: as rare as it is slow. Null: it was gone, or another thief is at it.
  G* steal_next();

  // The one in run_next, to be compared only.
  const G* peek_next() const { return run_next_.load(relaxed); }  // relaxed: a hint

  // Never says empty while a goroutine is in the queue all the time, even one that moves from
  // run_next to the ring in between.
  bool empty() const;

  // Ring only; a moment's view.
  std::uint32_t ring_length() const {
    // relaxed: two words read at different moments are a hint whatever their order.
    const std::uint32_t head = head_in(head_.load(relaxed));
    const std::uint32_t length = tail_.load(relaxed) - head;  // relaxed: as above
    return length <= k_size ? length : 0;
  }

 private:
  static constexpr std::uint64_t k_taken_back = std::uint64_t{1} << 32;

  static std::uint32_t head_in(std::uint64_t word) { return static_cast<std::uint32_t>(word); }

  // Moves the head from where it was `seen`, if nothing has changed; otherwise reads it anew.
  bool consume(std::uint64_t& seen, std::uint32_t count) {
    const std::uint64_t moved = (seen & ~(k_taken_back - 1)) | (head_in(seen) + count);
    // release: the reads of the slots before happen before the owner's reuse of them; pairs with
    // the acquire in push(). acquire on failure: the new head is used like a loaded one.
    return head_.compare_exchange_strong(seen, moved, acq_rel, acquire);
  }

  G* swap_next(G* g) {
    owner_inside_.store(true, relaxed);  // relaxed: the fence orders it. [enter]
    os::light_fence();                   // [fence]
    // relaxed: as above. [look]
    if (thief_.load(relaxed) != thief::none) [[unlikely]]
      turn_thief_away();
    G* const old = run_next_.load(relaxed);  // relaxed: the owner put it there
    // release: publishes g to steal_next(); and who sees the slot empty in empty() also sees what
    // was pushed to the ring before.
    run_next_.store(g, release);
    owner_inside_.store(false, release);  // pairs with the thief's [look]
    return old;
  }
  void turn_thief_away();

  void push_slow(G* g, goroutine_queue& overflow);
  std::uint32_t grab_half(G** out, std::uint32_t most);

  // Below: the head. Above: how often the owner took the newest one back.
  alignas(k_cache_line) atomic<std::uint64_t> head_{0};
  atomic<std::uint32_t> tail_{0};
  atomic<G*> run_next_{nullptr};
  atomic<bool> owner_inside_{false};
  enum class thief : std::uint8_t {
    none,
    wants,
    refused,
    inside,
  };
  atomic<thief> thief_{thief::none};
  alignas(k_cache_line) atomic<G*> slots_[k_size];
};

}  // namespace magpie::rt
