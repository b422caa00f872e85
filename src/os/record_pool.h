// Records that are recycled but never freed: a stale pointer to one always leads to a record of
// the same type, whose owner can be asked. Not from the heap, so also inside the gate.
#pragma once

#include <cstddef>
#include <new>

#include "os/lock.h"
#include "os/memory.h"

namespace magpie::rt::os {

// `Next` is a member that the pool uses while nobody has the record. Everything else in it stays
// as it was given back.
template <class T, T* T::*Next>
class record_pool {
 public:
  constexpr record_pool() = default;

  // Null: no memory. Any thread.
  T* take() {
    const lock_guard hold(lock_);
    if (free_ == nullptr) carve_block_locked();
    T* const record = free_;
    if (record != nullptr) free_ = record->*Next;
    return record;
  }

  // Any thread.
  void give_back(T* record) {
    const lock_guard hold(lock_);
    record->*Next = free_;
    free_ = record;
  }

 private:
  static constexpr std::size_t k_block = 64 * 1024;

  void carve_block_locked() {
    const auto memory = allocate_records(k_block);
    if (!memory) return;
    T* const place = static_cast<T*>(*memory);
    for (std::size_t i = k_block / sizeof(T); i-- > 0;) {
      T* const record = ::new (static_cast<void*>(place + i)) T;
      record->*Next = free_;
      free_ = record;
    }
  }

  lock lock_{lock_rank::leaf};
  T* free_ = nullptr;
};

}  // namespace magpie::rt::os
