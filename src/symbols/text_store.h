// Texts that are put together from pieces, without the heap, and stay where they are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "os/mapped_list.h"
#include "os/memory.h"

namespace magpie::rt {

// One thread at a time.
class text_store {
 public:
  text_store() = default;
  ~text_store() {
    for (const block& b : blocks_) (void)os::unmap({b.memory, b.size});
  }
  text_store(const text_store&) = delete;
  text_store& operator=(const text_store&) = delete;

  // A copy with a zero behind it; null: no memory.
  const char* add(std::string_view text) {
    if (text.size() >= left_ && !take_block(text.size() + 1)) return nullptr;
    char* const copy = next_;
    std::memcpy(copy, text.data(), text.size());
    copy[text.size()] = '\0';
    next_ += text.size() + 1;
    left_ -= text.size() + 1;
    return copy;
  }

 private:
  struct block {
    void* memory;
    std::size_t size;
  };

  bool take_block(std::size_t at_least) {
    const std::size_t size = std::max<std::size_t>(at_least, 64 << 10);
    const auto memory = os::allocate_records(size);
    if (!memory) return false;
    if (!blocks_.add({*memory, size})) {
      (void)os::unmap({*memory, size});
      return false;
    }
    next_ = static_cast<char*>(*memory);
    left_ = size;
    return true;
  }

  os::mapped_list<block> blocks_;
  char* next_ = nullptr;
  std::size_t left_ = 0;
};

}  // namespace magpie::rt
