// A reader of JSON: as much as the debug server writes, and whatever else somebody may send.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace magpie_tool {

class json_value {
 public:
  using array = std::vector<json_value>;
  using object = std::map<std::string, json_value, std::less<>>;

  json_value() = default;
  template <class T>
  explicit json_value(T value) : value_(std::move(value)) {}

  // Throws std::runtime_error where the text is broken.
  static json_value parse(std::string_view text);

  // Nothing, of the kind asked for, where there is none: a server of another version says less.
  double number() const;
  const std::string& text() const;
  const array& items() const;
  const json_value& operator[](std::string_view key) const;

 private:
  std::variant<std::nullptr_t, bool, double, std::string, array, object> value_ = nullptr;
};

}  // namespace magpie_tool
