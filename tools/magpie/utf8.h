// Texts in a trace are bytes that somebody claims to be UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace magpie_tool {

// `text`, with U+FFFD for every byte that is not part of a valid character.
std::string valid_utf8(std::string_view text);

}  // namespace magpie_tool
