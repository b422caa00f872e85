// A growing list that does without the heap: for dumps, which must work where the heap does not.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "os/memory.h"

namespace magpie::rt::os {

// One thread at a time. When there is no more memory it stops growing: add() says so.
template <class T>
class mapped_list {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  mapped_list() = default;
  ~mapped_list() {
    if (items_ != nullptr) (void)unmap({items_, room_ * sizeof(T)});
  }
  mapped_list(const mapped_list&) = delete;
  mapped_list& operator=(const mapped_list&) = delete;

  bool add(const T& item) { return add(&item, 1); }
  bool add(const T* items, std::size_t count) {
    if (count > room_ - size_ && !grow(count)) return false;
    if (count != 0) std::memcpy(static_cast<void*>(items_ + size_), items, count * sizeof(T));
    size_ += count;
    return true;
  }

  // Room for so many in all, so that add() need not ask for memory.
  bool reserve(std::size_t count) { return count <= room_ || grow(count - size_); }

  void swap(mapped_list& other) {
    std::swap(items_, other.items_);
    std::swap(size_, other.size_);
    std::swap(room_, other.room_);
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void shrink(std::size_t size) { size_ = size; }
  T& operator[](std::size_t i) { return items_[i]; }
  const T& operator[](std::size_t i) const { return items_[i]; }
  T* begin() { return items_; }
  T* end() { return items_ + size_; }
  const T* begin() const { return items_; }
  const T* end() const { return items_ + size_; }

 private:
  bool grow(std::size_t more) {
    constexpr std::size_t k_first = (64 << 10) / sizeof(T) + 1;
    std::size_t wanted = room_ == 0 ? k_first : 2 * room_;
    while (wanted - size_ < more) wanted *= 2;
    const auto memory = allocate_records(wanted * sizeof(T));
    if (!memory) return false;
    auto* const moved = static_cast<T*>(*memory);
    if (size_ != 0) std::memcpy(static_cast<void*>(moved), items_, size_ * sizeof(T));
    if (items_ != nullptr) (void)unmap({items_, room_ * sizeof(T)});
    items_ = moved;
    room_ = wanted;
    return true;
  }

  T* items_ = nullptr;
  std::size_t size_ = 0, room_ = 0;
};

}  // namespace magpie::rt::os
