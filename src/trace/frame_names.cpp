#include "trace/frame_names.h"

#include <cstdio>
#include <functional>

#include "os/code.h"
#include "trace/tables.h"

namespace magpie::rt::trace {
namespace {

constexpr std::string_view k_ours = "magpie::rt::";

// What stands between `open` and the bracket that closes it; empty: not there.
std::string_view inside_brackets(std::string_view text, std::string_view open) {
  const std::size_t start = text.find(open);
  if (start == std::string_view::npos) return {};
  text.remove_prefix(start + open.size());
  int depth = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<' || c == '(') ++depth;
    if ((c == '>' && (i == 0 || text[i - 1] != '-')) || c == ')') --depth;
    if (depth == 0 || (depth == 1 && c == ',')) return text.substr(0, i);
  }
  return {};
}

// Where no code is: readers know frames by their addresses.
std::uint64_t address_for(std::string_view name) {
  return (std::uint64_t{0x4000} << 48) | (std::hash<std::string_view>()(name) >> 16);
}

}  // namespace

std::string without_wrappers(const std::string& function) {
  std::string_view inner = function;
  for (const std::string_view wrapper :
       {"magpie::detail::call_inline<", "magpie::detail::call_on_heap<"}) {
    if (const auto found = inside_brackets(inner, wrapper); !found.empty()) inner = found;
  }
  if (inner.size() == function.size()) return function;
  // A function that takes the user's as its template argument, and makes a closure of it.
  for (const std::string_view wrapper :
       {"magpie::detail::bind_decayed<", "magpie::async<", "magpie::detail::async_task<",
        "magpie::run<", "magpie::runtime::run<", "magpie::wait_group::go<", "magpie::group::go<"}) {
    if (const auto found = inside_brackets(inner, wrapper); !found.empty()) inner = found;
  }
  while (inner.ends_with('&')) inner.remove_suffix(1);
  return std::string(inner);
}

generation_texts::generation_texts() {
  texts_.emplace_back();
  for (std::size_t i = 1; i < static_cast<std::size_t>(text::count_); ++i) {
    texts_.emplace_back(fixed_text(static_cast<text>(i)));
  }
}

void generation_texts::note(std::uint64_t id, std::string_view chars) {
  if (id >= texts_.size()) texts_.resize(id + 1);
  texts_[id] = chars;
}

std::uint64_t generation_texts::add(const std::string& chars) {
  if (chars.empty()) return 0;
  const auto [place, fresh] = added_.try_emplace(chars, texts_.size());
  if (fresh) texts_.push_back(chars);
  return place->second;
}

std::string_view generation_texts::at(std::uint64_t id) const {
  return id < texts_.size() ? std::string_view(texts_[id]) : std::string_view();
}

const frame_names::place& frame_names::place_of(std::uint64_t pc) {
  const auto [found, fresh] = places_.try_emplace(pc);
  place& it = found->second;
  if (!fresh) return it;
  const os::function_name name = os::name_of_code(pc - 1);  // inside the call
  it.file = name.file;
  it.function = without_wrappers(name.function);
  it.is_ours = name.function.starts_with(k_ours);
  if (it.function.empty() && !name.file.empty()) {
    char offset[32];
    std::snprintf(offset, sizeof offset, "+0x%llx", static_cast<unsigned long long>(name.offset));
    it.function = name.file.substr(name.file.rfind('/') + 1) + offset;
  }
  if (it.function.empty()) it.function = "unknown";
  return it;
}

std::vector<frame> frame_names::resolve(std::span<const std::uint64_t> words,
                                        generation_texts& texts) {
  const auto is_ours = [&](std::uint64_t word) {
    return !frame_word::is_text(word) && place_of(word).is_ours;
  };
  while (words.size() > 1 && is_ours(words.front())) words = words.subspan(1);
  while (words.size() > 1 && is_ours(words.back())) words = words.first(words.size() - 1);
  std::vector<frame> frames;
  for (const std::uint64_t word : words) {
    if (frame_word::is_text(word)) {
      const std::uint32_t id = frame_word::text_id(word);
      frames.push_back({address_for(texts.at(id)), id, 0, 0});
    } else {
      const place& it = place_of(word);
      frames.push_back({word, texts.add(it.function), texts.add(it.file), 0});
    }
  }
  return frames;
}

}  // namespace magpie::rt::trace
