// Text from elsewhere, with the heap at hand. See also base/text.h.
#pragma once

#include <string>
#include <string_view>

#include "base/text.h"

namespace magpie::rt {

// For a terminal: what could steer it, and what is no character, becomes '?'.
std::string printable(std::string_view line);
std::string printable_lines(std::string_view text);  // ends of lines and tabs stay

}  // namespace magpie::rt
