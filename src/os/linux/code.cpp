#include "os/code.h"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "base/atomic.h"
#include "os/fd.h"
#include "os/file.h"

namespace magpie::rt::os {
namespace {

struct range {
  std::uintptr_t low, high;
};

// Only ever added to: is_code() may look at any time.
constexpr std::size_t k_most_ranges = 128;
range g_ranges[k_most_ranges];
constinit atomic<std::size_t> g_range_count{0};
constinit atomic<bool> g_noting{false};

void add_range(range found) {
  const std::size_t count = g_range_count.load(relaxed);  // relaxed: one writer at a time
  for (std::size_t i = 0; i < count; ++i) {
    if (g_ranges[i].low == found.low && g_ranges[i].high == found.high) return;
  }
  if (count == k_most_ranges) return;
  g_ranges[count] = found;
  g_range_count.store(count + 1, release);  // pairs with is_code()
}

int on_module(dl_phdr_info* info, std::size_t, void*) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    const std::uintptr_t low = info->dlpi_addr + part.p_vaddr;
    add_range({low, low + part.p_memsz});
  }
  return 0;
}

// ---- Symbols ----------------------------------------------------------------------------------

struct symbol {
  std::uintptr_t start, size;
  std::uint32_t name;  // where it is in the names
};

// What a file says about its functions.
struct symbol_table {
  std::vector<char> names;
  std::vector<symbol> symbols;  // by their start
};

bool read_at(int fd, std::uint64_t offset, void* to, std::size_t size) {
  auto* at = static_cast<std::byte*>(to);
  while (size != 0) {
    const auto got = pread(fd, {at, size}, static_cast<std::int64_t>(offset));
    if (!got || *got == 0) return false;
    at += *got;
    size -= *got;
    offset += *got;
  }
  return true;
}

void keep_functions(const std::vector<ElfW(Sym)>& all, symbol_table& out) {
  for (const ElfW(Sym) & each : all) {
    if (ELF64_ST_TYPE(each.st_info) != STT_FUNC || each.st_shndx == SHN_UNDEF) continue;
    out.symbols.push_back({each.st_value, each.st_size, each.st_name});
  }
  std::sort(out.symbols.begin(), out.symbols.end(),
            [](const symbol& a, const symbol& b) { return a.start < b.start; });
}

symbol_table read_symbols(const char* path) {
  constexpr std::uint64_t k_most_bytes = 1 << 30;
  symbol_table table;
  const auto file = open_path(path, {.read = true}, 0);
  ElfW(Ehdr) head{};
  if (!file || !read_at(file->get(), 0, &head, sizeof head)) return table;
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_shentsize != sizeof(ElfW(Shdr))) {
    return table;
  }
  std::vector<ElfW(Shdr)> sections(head.e_shnum);
  if (!read_at(file->get(), head.e_shoff, sections.data(), sections.size() * sizeof sections[0])) {
    return table;
  }
  for (const unsigned kind : {SHT_SYMTAB, SHT_DYNSYM}) {
    for (const ElfW(Shdr) & section : sections) {
      if (section.sh_type != kind || section.sh_link >= sections.size()) continue;
      const ElfW(Shdr)& names = sections[section.sh_link];
      if (section.sh_size > k_most_bytes || names.sh_size > k_most_bytes) continue;
      std::vector<ElfW(Sym)> all(section.sh_size / sizeof(ElfW(Sym)));
      table.names.resize(names.sh_size + 1);
      if (!read_at(file->get(), section.sh_offset, all.data(), all.size() * sizeof all[0]) ||
          !read_at(file->get(), names.sh_offset, table.names.data(), names.sh_size)) {
        continue;
      }
      keep_functions(all, table);
      if (!table.symbols.empty()) return table;
    }
  }
  return table;
}

struct module_search {
  std::uintptr_t address;
  std::uintptr_t base = 0;
  std::string path;
  bool found = false;
};

int search_module(dl_phdr_info* info, std::size_t, void* raw) {
  auto& search = *static_cast<module_search*>(raw);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    if (search.address - (info->dlpi_addr + part.p_vaddr) >= part.p_memsz) continue;
    search.base = info->dlpi_addr;
    search.path = info->dlpi_name;
    search.found = true;
    return 1;
  }
  return 0;
}

std::string own_path() {
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  return size > 0 ? std::string(path, static_cast<std::size_t>(size)) : std::string("program");
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return text != nullptr ? text.get() : name;
}

}  // namespace

void note_code() {
  // acquire, release: one at a time; who comes second need not wait.
  if (g_noting.exchange(true, acquire)) return;
  dl_iterate_phdr(on_module, nullptr);
  g_noting.store(false, release);  // pairs with the exchange
}

bool is_code(std::uintptr_t address) {
  const std::size_t count = g_range_count.load(acquire);  // pairs with add_range()
  for (std::size_t i = 0; i < count; ++i) {
    if (address - g_ranges[i].low < g_ranges[i].high - g_ranges[i].low) return true;
  }
  return false;
}

function_name name_of_code(std::uintptr_t address) {
  static auto* const tables = new std::map<std::string, symbol_table>;  // one thread at a time
  function_name result;
  module_search search{address, 0, {}, false};
  dl_iterate_phdr(search_module, &search);
  if (!search.found) return result;
  static const std::string self = own_path();
  result.file = search.path.empty() ? self : search.path;
  result.offset = address - search.base;
  auto [place, fresh] = tables->try_emplace(search.path);
  const symbol_table& table =
      fresh ? place->second =
                  read_symbols(search.path.empty() ? "/proc/self/exe" : search.path.c_str())
            : place->second;
  auto after = std::upper_bound(
      table.symbols.begin(), table.symbols.end(), result.offset,
      [](std::uintptr_t offset, const symbol& each) { return offset < each.start; });
  if (after == table.symbols.begin()) return result;
  const symbol& it = *--after;
  // Assembly may have no size.
  if (it.size != 0 && result.offset - it.start >= it.size) return result;
  if (it.name < table.names.size()) result.function = demangled(table.names.data() + it.name);
  return result;
}

}  // namespace magpie::rt::os
