// What the parts of the tool share.
#pragma once

#include <charconv>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace magpie_tool {

inline constexpr int k_failed = 1;
inline constexpr int k_usage = 2;

// The command line makes no sense.
class usage_error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The number that a text is, and nothing else.
template <class Number>
std::optional<Number> number_from(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stopped == end ? std::optional(number) : std::nullopt;
}

// Goes through the words of a command: options, and one word that says what it is about. `take` is
// called with each option and a function that gives its value; it says whether it knows the option.
template <class Take>
std::string read_words(const std::vector<std::string_view>& words, const std::string& what,
                       Take take) {
  std::string about;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const auto value = [&] {
      if (++i == words.size()) throw usage_error(std::string(word) + " needs a value");
      return std::string(words[i]);
    };
    if (word.starts_with("-")) {
      if (!take(word, value)) throw usage_error("unknown option " + std::string(word));
    } else if (about.empty()) {
      about = word;
    } else {
      throw usage_error("one " + what + " at a time, please");
    }
  }
  if (about.empty()) throw usage_error("which " + what + "?");
  return about;
}

// `magpie trace ...`: the words after "trace". Returns the exit code.
int trace_command(const std::vector<std::string_view>& words);

// `magpie dump ...`: the same.
int dump_command(const std::vector<std::string_view>& words);

// `magpie top ...`: the same.
int top_command(const std::vector<std::string_view>& words);

}  // namespace magpie_tool
