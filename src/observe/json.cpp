#include "observe/json.h"

#include "observe/metrics.h"
#include "observe/text.h"

namespace magpie::rt {

void append_json_string(std::string& out, std::string_view text) {
  constexpr char k_digits[] = "0123456789abcdef";
  out += '"';
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text[0]);
    const std::size_t size = character_length(text);
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
