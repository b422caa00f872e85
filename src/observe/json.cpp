#include "observe/json.h"

#include "observe/metrics.h"

namespace magpie::rt {
namespace {

// How many bytes the character at the front has; 0: it is none.
std::size_t character_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t size = lead < 0x80   ? 1
                           : lead < 0xc2 ? 0
                           : lead < 0xe0 ? 2
                           : lead < 0xf0 ? 3
                           : lead < 0xf5 ? 4
                                         : 0;
  if (size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer than needed, half of a pair, beyond the last.
  if (lead == 0xe0 && byte(1) < 0xa0) return 0;
  if (lead == 0xed && byte(1) >= 0xa0) return 0;
  if (lead == 0xf0 && byte(1) < 0x90) return 0;
  if (lead == 0xf4 && byte(1) >= 0x90) return 0;
  return size;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  constexpr char k_digits[] = "0123456789abcdef";
  out += '"';
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text[0]);
    const std::size_t size = character_at(text);
    if (size == 0) {
      out += "\xef\xbf\xbd";
    } else if (first == '"' || first == '\\') {
      out += '\\';
      out += text[0];
    } else if (first < 0x20) {
      out += "\\u00";
      out += k_digits[first >> 4];
      out += k_digits[first & 15];
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  out += '"';
}

void json_writer::separate() {
  if (!first_) out_ += ',';
  first_ = false;
}

json_writer& json_writer::begin(char bracket) {
  separate();
  out_ += bracket;
  first_ = true;
  return *this;
}

json_writer& json_writer::end(char bracket) {
  out_ += bracket;
  first_ = false;
  return *this;
}

json_writer& json_writer::key(std::string_view name) {
  separate();
  append_json_string(out_, name);
  out_ += ':';
  first_ = true;
  return *this;
}

json_writer& json_writer::number(double value) {
  separate();
  out_ += number_text(value);
  return *this;
}

json_writer& json_writer::text(std::string_view value) {
  separate();
  append_json_string(out_, value);
  return *this;
}

json_writer& json_writer::boolean(bool value) {
  separate();
  out_ += value ? "true" : "false";
  return *this;
}

}  // namespace magpie::rt
