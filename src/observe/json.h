// As much of JSON as the debug server writes.
#pragma once

#include <string>
#include <string_view>

namespace magpie::rt {

// With its quotes. Bytes that are not UTF-8 become U+FFFD: names come from users.
void append_json_string(std::string& out, std::string_view text);

// Objects and arrays, one value after the other; commas come by themselves.
//
//   json_writer json;
//   json.begin('{').key("procs").number(2).end('}');
class json_writer {
 public:
  json_writer& begin(char bracket);
  json_writer& end(char bracket);
  json_writer& key(std::string_view name);
  json_writer& number(double value);
  json_writer& text(std::string_view value);
  json_writer& boolean(bool value);

  template <class T>
  json_writer& field(std::string_view name, T value) {
    return key(name).number(static_cast<double>(value));
  }

  std::string take() { return std::move(out_); }

 private:
  void separate();

  std::string out_;
  bool first_ = true;  // of the object or array; or the value of a key
};

}  // namespace magpie::rt
