// Text from elsewhere: bytes that somebody claims to be UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/print.h"

namespace magpie::rt {

// Of the valid character that the text begins with; 0: there is none. Not for an empty text.
std::size_t character_length(std::string_view text);

// Whether the character does something to a terminal instead of being shown.
bool steers_terminals(std::string_view character);

// What could steer a terminal, ends of lines too, and what is no character, becomes '?'.
void print_safely(printer&, std::string_view text);

}  // namespace magpie::rt
