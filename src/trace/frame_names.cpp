#include "trace/frame_names.h"

#include <algorithm>
#include <cstdio>
#include <functional>

#include "symbols/code_names.h"
#include "trace/tables.h"

namespace magpie::rt::trace {
namespace {

// Whether a function is the runtime's own. Of templates the type of the result stands before the
// name, and both may have spaces within brackets.
bool is_of_runtime(std::string_view function) {
  std::size_t name = 0;
  int depth = 0;
  for (std::size_t i = 0; i < function.size(); ++i) {
    const char c = function[i];
    if (c == '(' && depth == 0 && !function.substr(i).starts_with("(anonymous namespace)")) break;
    if (c == '<' || c == '(') ++depth;
    if (c == '>' || c == ')') --depth;
    if (c == ' ' && depth == 0 && !function.substr(i).starts_with(" [clone")) name = i + 1;
  }
  function.remove_prefix(name);
  return function.starts_with("magpie::rt::") || function.starts_with("magpie_fiber_");
}

// Where no code is: readers know frames by their addresses.
std::uint64_t address_for(std::string_view name) {
  return (std::uint64_t{0x4000} << 48) | (std::hash<std::string_view>()(name) >> 16);
}

// "libz.so.1+0x3f20"
std::string place_in_module(const code_name& n) {
  if (n.module == nullptr) return "unknown";
  const std::string_view path = n.module->path;
  char offset[32];
  std::snprintf(offset, sizeof offset, "+0x%llx",
                static_cast<unsigned long long>(n.address - n.module->bias));
  return std::string(path.substr(path.rfind('/') + 1)) + offset;
}

}  // namespace

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

void frame_names::want(std::span<const std::uint64_t> words) {
  for (const std::uint64_t word : words) {
    if (!frame_word::is_text(word) && places_.try_emplace(word).second) wanted_.push_back(word);
  }
}

void frame_names::look_up() {
  if (wanted_.empty()) return;
  code_names names;
  for (const std::uint64_t pc : wanted_) names.want(pc - 1);  // inside the call
  names.look_up(code_names::style::demangled);
  for (const std::uint64_t pc : wanted_) {
    const code_name& n = *names.find(pc - 1);
    place& it = places_[pc];
    if (n.function != nullptr) it.function = n.demangled != nullptr ? n.demangled : n.function;
    it.is_scheduler = is_of_runtime(it.function);
    it.is_glue = names.is_glue(pc - 1);
    if (n.source.file != nullptr) {
      it.file = source_path(n.source).text();
      it.line = n.source.line;
    } else if (n.module != nullptr) {
      it.file = n.module->path;
    }
    if (it.function.empty()) it.function = place_in_module(n);
  }
  wanted_.clear();
}

std::vector<frame> frame_names::resolve(std::span<const std::uint64_t> words,
                                        generation_texts& texts) {
  bool is_glue_ours = true;
  const auto is_ours = [&](std::uint64_t word) {
    if (frame_word::is_text(word)) return false;
    const place& it = places_.at(word);
    return it.is_scheduler || (it.is_glue && is_glue_ours);
  };
  is_glue_ours = !std::all_of(words.begin(), words.end(), is_ours);
  while (words.size() > 1 && is_ours(words.front())) words = words.subspan(1);
  while (words.size() > 1 && is_ours(words.back())) words = words.first(words.size() - 1);
  std::vector<frame> frames;
  for (const std::uint64_t word : words) {
    if (frame_word::is_text(word)) {
      const std::uint32_t id = frame_word::text_id(word);
      frames.push_back({address_for(texts.at(id)), id, 0, 0});
    } else {
      const place& it = places_.at(word);
      frames.push_back({word, texts.add(it.function), texts.add(it.file), it.line});
    }
  }
  return frames;
}

}  // namespace magpie::rt::trace
