#include "symbols/elf_file.h"

#include "symbols/byte_reader.h"

namespace magpie::rt {
namespace {

constexpr std::uint64_t k_header_size = 64;  // of a section
constexpr std::uint64_t k_symbol_size = 24;
constexpr std::uint32_t k_no_bytes = 8;
constexpr std::uint64_t k_compressed = 0x800;

}  // namespace

elf_file::elf_file(std::span<const std::byte> bytes) : bytes_(bytes) {
  byte_reader in(bytes);
  constexpr std::uint32_t k_magic = 0x464c457f;
  if (in.get<std::uint32_t>() != k_magic) return;
  if (in.byte() != 2 || in.byte() != 1) return;  // 64 bits, little endian
  in.skip(0x28 - in.position());
  sections_at_ = in.get<std::uint64_t>();
  in.skip(0x3a - in.position());
  const auto size = in.get<std::uint16_t>();
  const auto count = in.get<std::uint16_t>();
  const auto name_section = in.get<std::uint16_t>();
  if (in.failed() || size != k_header_size || sections_at_ > bytes.size()) return;
  if (count > (bytes.size() - sections_at_) / k_header_size || name_section >= count) return;
  section_count_ = count;
  names_ = bytes_of(header_at(name_section));
}

elf_file::header elf_file::header_at(std::size_t index) const {
  byte_reader in(bytes_);
  in.skip(sections_at_ + index * k_header_size);
  header h{};
  h.name = in.get<std::uint32_t>();
  h.type = in.get<std::uint32_t>();
  h.flags = in.get<std::uint64_t>();
  in.skip(8);
  h.offset = in.get<std::uint64_t>();
  h.size = in.get<std::uint64_t>();
  h.link = in.get<std::uint32_t>();
  return h;
}

std::span<const std::byte> elf_file::bytes_of(const header& h) const {
  if (h.type == k_no_bytes || (h.flags & k_compressed) != 0) return {};
  byte_reader in(bytes_);
  in.skip(h.offset);
  return in.part(h.size);
}

bool elf_file::find(std::string_view name, header& out) const {
  for (std::size_t i = 0; i < section_count_; ++i) {
    const header h = header_at(i);
    if (name == string_at(names_, h.name)) {
      out = h;
      return true;
    }
  }
  return false;
}

std::span<const std::byte> elf_file::section(std::string_view name) const {
  header h{};
  return find(name, h) ? bytes_of(h) : std::span<const std::byte>();
}

bool elf_file::is_compressed(std::string_view name) const {
  header h{};
  return find(name, h) && (h.flags & k_compressed) != 0;
}

elf_file::symbols elf_file::find_symbols() const {
  for (const char* const name : {".symtab", ".dynsym"}) {
    header h{};
    if (!find(name, h) || h.link >= section_count_) continue;
    symbols found;
    found.table = bytes_of(h);
    found.names = bytes_of(header_at(static_cast<std::size_t>(h.link)));
    found.count = found.table.size() / k_symbol_size;
    if (found.count != 0) return found;
  }
  return {};
}

bool elf_file::read_function(const symbols& all, std::size_t index, function& out) {
  byte_reader in(all.table.subspan(index * k_symbol_size));
  const auto name = in.get<std::uint32_t>();
  const std::uint8_t kind = in.byte() & 0x0f;
  in.skip(1);
  const auto section = in.get<std::uint16_t>();
  out.address = in.get<std::uint64_t>();
  out.size = in.get<std::uint64_t>();
  constexpr std::uint8_t k_function = 2, k_indirect_function = 10;
  if (in.failed() || section == 0 || (kind != k_function && kind != k_indirect_function)) {
    return false;
  }
  out.name = string_at(all.names, name);
  return *out.name != '\0';
}

}  // namespace magpie::rt
