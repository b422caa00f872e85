// Text that is put together without the heap, for a printer.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/print.h"
#include "os/mapped_list.h"

namespace magpie::rt::os {

// What does not fit into memory is left out.
class mapped_text {
 public:
  // Of a printer, which must be flushed before the text is read.
  text_sink sink() {
    return {[](void* to, const char* part, std::size_t size) {
              static_cast<mapped_text*>(to)->chars_.add(part, size);
            },
            this};
  }
  void reserve(std::size_t size) { chars_.reserve(size); }
  std::string_view text() const { return {chars_.begin(), chars_.size()}; }

 private:
  mapped_list<char> chars_;
};

}  // namespace magpie::rt::os
