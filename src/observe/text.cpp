#include "observe/text.h"

namespace magpie::rt {
namespace {

std::string without_control(std::string_view text, std::string_view allowed) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const std::string_view character = text.substr(0, length);
    if (length == 0 || (steers_terminals(character) && allowed.find(character) == allowed.npos)) {
      result += '?';
    } else {
      result += character;
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

}  // namespace

std::string printable(std::string_view line) { return without_control(line, ""); }

std::string printable_lines(std::string_view text) { return without_control(text, "\n\t"); }

}  // namespace magpie::rt
