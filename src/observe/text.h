// Text from elsewhere: bytes that somebody claims to be UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace magpie::rt {

// Of the valid character that the text begins with; 0: there is none. Not for an empty text.
std::size_t character_length(std::string_view text);

// For a terminal: what could steer it, and what is no character, becomes '?'.
std::string printable(std::string_view line);
std::string printable_lines(std::string_view text);  // ends of lines and tabs stay

}  // namespace magpie::rt
