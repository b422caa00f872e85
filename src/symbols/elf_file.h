// What a program's or library's file tells about its code: names of functions and the tables of
// lines. ELF, 64 bits, little endian; anything else, and whatever is broken, is as good as empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace magpie::rt {

class elf_file {
 public:
  // The bytes must outlive it.
  explicit elf_file(std::span<const std::byte> bytes);

  bool valid() const { return section_count_ != 0; }

  // Empty when there is none. Compressed ones are not read: then is_compressed() says so.
  std::span<const std::byte> section(std::string_view name) const;
  bool is_compressed(std::string_view name) const;

  struct function {
    std::uint64_t address, size;
    const char* name;
  };
  // Every function of .symtab, or of .dynsym where the file was stripped.
  template <class Visit>
  void for_each_function(Visit visit) const {
    const symbols found = find_symbols();
    for (std::size_t i = 0; i < found.count; ++i) {
      function f{};
      if (read_function(found, i, f)) visit(f);
    }
  }

 private:
  struct header {
    std::uint32_t name, type;
    std::uint64_t flags, offset, size, link;
  };
  struct symbols {
    std::span<const std::byte> table, names;
    std::size_t count = 0;
  };

  header header_at(std::size_t index) const;
  bool find(std::string_view name, header& out) const;
  std::span<const std::byte> bytes_of(const header&) const;
  symbols find_symbols() const;
  static bool read_function(const symbols&, std::size_t index, function& out);

  std::span<const std::byte> bytes_;
  std::span<const std::byte> names_;
  std::uint64_t sections_at_ = 0;
  std::size_t section_count_ = 0;
};

}  // namespace magpie::rt
