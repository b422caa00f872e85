#include "tools/magpie/json.h"

#include <charconv>
#include <stdexcept>

namespace magpie_tool {

namespace {

class parser {
 public:
  explicit parser(std::string_view text) : rest_(text) {}

  json_value all() {
    json_value value = any(0);
    skip_blanks();
    if (!rest_.empty()) fail();
    return value;
  }

 private:
  static constexpr int k_deepest = 64;

  [[noreturn]] static void fail() { throw std::runtime_error("broken JSON"); }

  void skip_blanks() {
    while (!rest_.empty() && std::string_view(" \t\r\n").find(rest_[0]) != std::string_view::npos) {
      rest_.remove_prefix(1);
    }
  }

  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  json_value any(int depth) {
    if (depth > k_deepest) fail();
    skip_blanks();
    if (rest_.empty()) fail();
    if (rest_[0] == '{') return json_value(members(depth));
    if (rest_[0] == '[') return json_value(items(depth));
    if (rest_[0] == '"') return json_value(string());
    if (take("true")) return json_value(true);
    if (take("false")) return json_value(false);
    if (take("null")) return {};
    return json_value(number());
  }

  json_value::object members(int depth) {
    json_value::object all;
    take("{");
    skip_blanks();
    if (take("}")) return all;
    do {
      skip_blanks();
      std::string key = string();
      skip_blanks();
      if (!take(":")) fail();
      all.insert_or_assign(std::move(key), any(depth + 1));
      skip_blanks();
    } while (take(","));
    if (!take("}")) fail();
    return all;
  }

  json_value::array items(int depth) {
    json_value::array all;
    take("[");
    skip_blanks();
    if (take("]")) return all;
    do {
      all.push_back(any(depth + 1));
      skip_blanks();
    } while (take(","));
    if (!take("]")) fail();
    return all;
  }

  double number() {
    double value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) fail();
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  std::string string() {
    if (!take("\"")) fail();
    std::string text;
    while (!rest_.empty() && rest_[0] != '"') {
      if (rest_[0] != '\\') {
        text += rest_[0];
        rest_.remove_prefix(1);
        continue;
      }
      rest_.remove_prefix(1);
      escaped(text);
    }
    if (!take("\"")) fail();
    return text;
  }

  // Of those with numbers the server writes control characters only.
  void escaped(std::string& text) {
    if (rest_.empty()) fail();
    const char kind = rest_[0];
    rest_.remove_prefix(1);
    constexpr std::string_view k_letters = "bfnrt", k_meanings = "\b\f\n\r\t";
    if (const std::size_t at = k_letters.find(kind); at != k_letters.npos) {
      text += k_meanings[at];
    } else if (kind == 'u') {
      unsigned code = 0;
      if (rest_.size() < 4) fail();
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + 4, code, 16);
      if (error != std::errc() || end != rest_.data() + 4) fail();
      rest_.remove_prefix(4);
      text += code < 0x80 ? static_cast<char>(code) : '?';
    } else if (kind == '"' || kind == '\\' || kind == '/') {
      text += kind;
    } else {
      fail();
    }
  }

  std::string_view rest_;
};

}  // namespace

json_value json_value::parse(std::string_view text) { return parser(text).all(); }

double json_value::number() const {
  const double* const value = std::get_if<double>(&value_);
  return value != nullptr ? *value : 0;
}

const std::string& json_value::text() const {
  static const std::string k_none;
  const std::string* const value = std::get_if<std::string>(&value_);
  return value != nullptr ? *value : k_none;
}

const json_value::array& json_value::items() const {
  static const array k_none;
  const array* const value = std::get_if<array>(&value_);
  return value != nullptr ? *value : k_none;
}

const json_value& json_value::operator[](std::string_view key) const {
  static const json_value k_none;
  const object* const all = std::get_if<object>(&value_);
  if (all == nullptr) return k_none;
  const auto at = all->find(key);
  return at != all->end() ? at->second : k_none;
}

}  // namespace magpie_tool
