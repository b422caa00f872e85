// .debug_info: which functions the compiler has put into which others, and where they were called.
// DWARF 4 and 5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "symbols/text_store.h"

namespace magpie::rt {

struct inline_sections {
  std::span<const std::byte> info, abbreviations, strings, line_strings, string_offsets, addresses,
      ranges, range_lists;
};

// A function that has no frame of its own.
struct inlined_call {
  // As the linker would know it, if possible; else with the names of what it is declared in.
  const char* function = nullptr;
  // Where it is called: a line, and the number of a file in the table of lines that begins there.
  std::uint64_t table = 0, file = 0;
  std::uint32_t line = 0;
};

// For many addresses in one go, in rising order, like line_table. found() is called for each
// function that an address was inlined with, the outer ones first; names that stand nowhere as they
// are go into the store. Bytes may be anything.
class inline_table {
 public:
  explicit inline_table(const inline_sections& sections) : sections_(sections) {}

  using on_found = void (*)(void* context, std::size_t index, const inlined_call&);
  void find(const std::uint64_t* addresses, std::size_t count, text_store&, on_found,
            void* context) const;

 private:
  const inline_sections sections_;
};

}  // namespace magpie::rt
