#include "trace/tables.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "base/check.h"
#include "os/memory.h"
#include "trace/format.h"

namespace magpie::rt::trace {
namespace {

constexpr std::uint64_t k_mix = 0x9E3779B97F4A7C15u;

constexpr std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * k_mix;
  return hash ^ (hash >> 29);
}

std::uint64_t hash_of(std::string_view chars) {
  std::uint64_t hash = chars.size();
  while (chars.size() >= 8) {
    std::uint64_t word;
    std::memcpy(&word, chars.data(), 8);
    hash = mixed(hash, word);
    chars.remove_prefix(8);
  }
  std::uint64_t rest = 0;
  if (!chars.empty()) std::memcpy(&rest, chars.data(), chars.size());
  return mixed(mixed(hash, rest), k_mix);
}

// Odd numbers with nothing in common, one for each place in a stack.
constexpr auto k_factors = [] {
  std::array<std::uint64_t, 32> factors{};
  std::uint64_t hash = 0;
  for (std::uint64_t& factor : factors) factor = (hash = mixed(hash + k_mix, k_mix)) | 1;
  return factors;
}();

// A sum of products, so that nothing waits for the frame before it. Two stacks that differ in one
// frame only never share it.
std::uint64_t hash_of(std::span<const std::uintptr_t> frames) {
  std::uint64_t hash = frames.size();
  std::size_t place = 0;
  for (const std::uintptr_t frame : frames) {
    hash += frame * k_factors[place];
    if (++place < k_factors.size()) [[likely]]
      continue;
    hash = mixed(hash, k_mix);
    place = 0;
  }
  return mixed(hash, k_mix);
}

}  // namespace

std::string_view fixed_text(text which) {
  constexpr std::string_view k_texts[] = {
      "",          "forever",      "network", "select",    "sync.(*Cond).Wait", "sync",
      "chan send", "chan receive", "sleep",   "preempted", "runtime.Gosched",   "unspecified",
  };
  static_assert(std::size(k_texts) == static_cast<std::size_t>(text::count_));
  return k_texts[static_cast<std::size_t>(which)];
}

std::uint32_t tables::stack(std::span<const std::uintptr_t> frames) {
  if (frames.empty()) return 0;
  return stacks_.intern(hash_of(frames), frames.size(), [&](std::uint64_t* place) {
    std::copy(frames.begin(), frames.end(), place);
  });
}

std::uint32_t tables::stack_named(std::string_view name) {
  const std::uint64_t id = text_id(name);
  if (id == 0) return 0;
  const std::uint64_t word = frame_word::of_text(static_cast<std::uint32_t>(id));
  return stacks_.intern(mixed(1, word), 1, [&](std::uint64_t* place) { *place = word; });
}

std::uint64_t tables::text_id(std::string_view chars) {
  if (chars.empty()) return 0;
  chars = chars.substr(0, k_max_string);
  const std::uint32_t id = texts_.intern(hash_of(chars), chars.size(), [&](char* place) {
    std::memcpy(place, chars.data(), chars.size());
  });
  return id != 0 ? k_last_fixed + id : 0;
}

void tables::clear() {
  stacks_.clear();
  texts_.clear();
}

tables* tables::make() {
  const auto memory = os::allocate_records(sizeof(tables));
  if (!memory) fatal("no memory for the trace");
  return ::new (*memory) tables;
}

}  // namespace magpie::rt::trace
