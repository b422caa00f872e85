#include "sched/run_queue.h"

#include <algorithm>

#include "os/thread.h"

namespace magpie::rt {

void run_queue::push_slow(G* g, goroutine_queue& overflow) {
  G* batch[k_half];
  std::uint64_t seen = head_.load(acquire);  // pairs with the release of consume(), by thieves
  const std::uint32_t head = head_in(seen);
  if (tail_.load(relaxed) - head < k_size) return push(g, overflow);  // thieves made room
  for (std::uint32_t i = 0; i < k_half; ++i) {
    batch[i] = slots_[(head + i) % k_size].load(relaxed);  // relaxed: the owner wrote them
  }
  if (!consume(seen, k_half)) return push(g, overflow);  // a thief was faster: there is room
  for (G* moved : batch) overflow.push_back(moved);
  overflow.push_back(g);
}

G* run_queue::pop_newest() {
  const std::uint32_t tail = tail_.load(relaxed);  // relaxed: only the owner writes it
  // relaxed: the addition below decides; an empty queue stays empty.
  if (tail == head_in(head_.load(relaxed))) return nullptr;
  const std::uint32_t newest = tail - 1;
  tail_.store(newest, release);  // as in push(): for those that were pushed before
  // release: a thief that sees the count sees the new tail_; pairs with the acquires in
  // grab_half(). acquire: pairs with the release of consume(), as in push().
  const std::uint32_t head = head_in(head_.fetch_add(k_taken_back, acq_rel));
  if (static_cast<std::int32_t>(newest - head) >= 0) {
    return slots_[newest % k_size].load(relaxed);  // relaxed: the owner wrote it
  }
  tail_.store(tail, release);  // as above; thieves were faster
  return nullptr;
}

void run_queue::turn_thief_away() {
  thief seen = thief::wants;
  // acquire: for when it fails; pairs with the release of a thief that leaves.
  if (thief_.compare_exchange_strong(seen, thief::refused, acquire)) return;
  constexpr int k_patience = 100;  // two instructions, unless it has lost its processor
  for (int looks = 0; thief_.load(acquire) == thief::inside; ++looks) {  // as above
    looks < k_patience ? cpu_relax() : os::yield_thread();
  }
}

G* run_queue::steal_next() {
  thief seen = thief::none;
  // relaxed: the fence orders it. acquire: pairs with the release of the thief before. [announce]
  if (!thief_.compare_exchange_strong(seen, thief::wants, acquire, relaxed)) return nullptr;
  os::heavy_fence();  // [fence]
  G* taken = nullptr;
  seen = thief::wants;
  // acquire: the owner's last swap is seen. [look] relaxed: what is decided is who goes first.
  if (!owner_inside_.load(acquire) &&
      thief_.compare_exchange_strong(seen, thief::inside, relaxed, relaxed)) {
    taken = run_next_.load(acquire);  // pairs with push_next(): what its maker wrote
    if (taken != nullptr) run_next_.store(nullptr, release);  // as in swap_next()
  }
  thief_.store(thief::none, release);  // pairs with turn_thief_away() and the next thief
  return taken;
}

std::size_t run_queue::push_all(G* const* from, std::size_t count) {
  const std::uint32_t tail = tail_.load(relaxed);           // relaxed: only the owner writes it
  const std::uint32_t head = head_in(head_.load(acquire));  // pairs with consume()'s release
  const std::size_t room = k_size - (tail - head);
  const auto pushed = static_cast<std::uint32_t>(std::min(room, count));
  for (std::uint32_t i = 0; i < pushed; ++i) {
    slots_[(tail + i) % k_size].store(from[i], relaxed);  // published below
  }
  tail_.store(tail + pushed, release);  // pairs with the acquire in grab_half()
  return pushed;
}

void run_queue::drain_into(goroutine_queue& to) {
  if (G* const next = take_next()) to.push_back(next);
  while (G* const g = pop_ring()) to.push_back(g);
}

// Copies half of the ring's goroutines, but at most `most`, to `out` and takes them off. Any
// thread.
std::uint32_t run_queue::grab_half(G** out, std::uint32_t most) {
  std::uint64_t seen = head_.load(acquire);  // pairs with consume() by others, and pop_newest()
  for (;;) {
    const std::uint32_t head = head_in(seen);
    const std::uint32_t tail = tail_.load(acquire);  // pairs with the releases of the owner
    const std::uint32_t length = tail - head;
    const std::uint32_t half = length - length / 2;
    if (half == 0) return 0;
    if (half > k_half) {           // head and tail are of different moments
      seen = head_.load(acquire);  // as above
      continue;
    }
    const std::uint32_t count = std::min(half, most);
    for (std::uint32_t i = 0; i < count; ++i) {
      out[i] = slots_[(head + i) % k_size].load(relaxed);  // checked by the exchange below
    }
    if (consume(seen, count)) return count;
  }
}

G* run_queue::steal_half_from(run_queue& victim, std::uint32_t most) {
  G* stolen[k_half];
  const std::uint32_t count = victim.grab_half(stolen, most);
  if (count == 0) return nullptr;
  const std::uint32_t tail = tail_.load(relaxed);  // relaxed: we are the owner of this queue
  MAGPIE_DCHECK(tail == head_in(head_.load(relaxed)), "stealing with work at home");
  for (std::uint32_t i = 0; i + 1 < count; ++i) {
    slots_[(tail + i) % k_size].store(stolen[i], relaxed);  // published below
  }
  if (count > 1) tail_.store(tail + count - 1, release);  // pairs with the acquire in grab_half()
  return stolen[count - 1];
}

bool run_queue::empty() const {
  // A goroutine kicked from run_next into the ring may be seen in neither place by two plain
  // looks; tail_ moves when that happens.
  for (;;) {
    const std::uint32_t tail = tail_.load(acquire);           // orders the loads below after it
    const std::uint32_t head = head_in(head_.load(acquire));  // as above
    const G* const next = run_next_.load(acquire);            // as above
    if (tail == tail_.load(relaxed)) return head == tail && next == nullptr;  // relaxed: last look
  }
}

}  // namespace magpie::rt
