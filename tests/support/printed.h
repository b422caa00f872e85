// What a printer was told, as a string.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "base/print.h"

namespace magpie::rt::testing {

// `write_text` gets a printer; returns everything it printed there.
template <class Function>
std::string printed(Function&& write_text) {
  std::string text;
  {
    printer out({[](void* to, const char* part, std::size_t size) {
                   static_cast<std::string*>(to)->append(part, size);
                 },
                 &text});
    std::forward<Function>(write_text)(out);
  }
  return text;
}

}  // namespace magpie::rt::testing
