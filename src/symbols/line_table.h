// .debug_line: which line of which file an instruction comes from. DWARF 2 to 5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace magpie::rt {

struct line_sections {
  std::span<const std::byte> line, line_strings, strings;
};

// A file's name in the pieces it is stored in. Each is relative to the one before, unless it begins
// with a slash; any may be "".
struct source_place {
  const char* base = "";
  const char* directory = "";
  const char* file = nullptr;  // null: not known
  std::uint32_t line = 0;
};

// Of magpie, or of the standard library; or not known.
bool is_library_header(const source_place&);

// Finds the places of many addresses in one go, for which no index is needed: they are in rising
// order, and found(i, place) is called for those that are in the table. Bytes may be anything.
class line_table {
 public:
  explicit line_table(const line_sections& sections) : sections_(sections) {}

  struct hit {
    source_place place;
    // The last one before it, in the same stretch of code, that is not in a header of magpie's or
    // of the standard library: where that is inlined. The same one if it is not in one itself.
    source_place caller;
    std::uint64_t caller_address = 0;  // 0: there is none
  };
  using on_found = void (*)(void* context, std::size_t index, const hit&);
  void find(const std::uint64_t* addresses, std::size_t count, on_found, void* context) const;

  // The file with that number in the part of the table that begins at `offset`. Without a line.
  source_place file(std::uint64_t offset, std::uint64_t number) const;

 private:
  const line_sections sections_;
};

}  // namespace magpie::rt
