// Any number of goroutines in a row, by address: taking some out touches none of them, which may be
// in nobody's cache. Grows, and never shrinks. Under somebody's lock.
#pragma once

#include <cstddef>

#include "base/check.h"
#include "goroutine/g.h"
#include "os/memory.h"

namespace magpie::rt {

class goroutine_ring {
 public:
  goroutine_ring() = default;
  ~goroutine_ring() {
    if (slots_ != nullptr) (void)os::unmap({slots_, capacity_ * sizeof(G*)});
  }
  goroutine_ring(const goroutine_ring&) = delete;
  goroutine_ring& operator=(const goroutine_ring&) = delete;

  std::size_t size() const { return tail_ - head_; }

  void push_back(G* g) {
    if (size() == capacity_) grow();
    at(tail_++) = g;
  }

  // Null when empty.
  G* pop_front() { return size() != 0 ? at(head_++) : nullptr; }
  G* pop_back() { return size() != 0 ? at(--tail_) : nullptr; }

  // The first that `is_wanted`; the others keep their order. Null: there is none. Looks at all.
  template <class Wanted>
  G* take_first_if(Wanted is_wanted) {
    std::size_t place = head_;
    while (place != tail_ && !is_wanted(*at(place))) ++place;
    if (place == tail_) return nullptr;
    G* const found = at(place);
    for (; place != head_; --place) at(place) = at(place - 1);
    ++head_;
    return found;
  }

 private:
  G*& at(std::size_t place) { return slots_[place & (capacity_ - 1)]; }

  // Not from the heap: its lock may be held by somebody who was stopped.
  void grow() {
    const std::size_t capacity = capacity_ != 0 ? 2 * capacity_ : 1024;
    const auto memory = os::allocate_records(capacity * sizeof(G*));
    if (!memory) fatal("no memory for the queue of goroutines");
    os::prefer_huge_pages({*memory, capacity * sizeof(G*)});  // it is used in full, or nearly so
    auto* const slots = static_cast<G**>(*memory);
    const std::size_t count = size();
    for (std::size_t i = 0; i < count; ++i) slots[i] = at(head_ + i);
    if (slots_ != nullptr) (void)os::unmap({slots_, capacity_ * sizeof(G*)});
    slots_ = slots;
    capacity_ = capacity;
    head_ = 0;
    tail_ = count;
  }

  G** slots_ = nullptr;
  std::size_t capacity_ = 0;  // a power of two
  std::size_t head_ = 0, tail_ = 0;
};

}  // namespace magpie::rt
