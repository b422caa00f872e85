// line_table.cpp: .debug_line holds a program for each source file that was compiled. Running it
// gives a row for every stretch of instructions: address, file, line. The names are in its head.

#include "symbols/line_table.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "symbols/byte_reader.h"

namespace magpie::rt {
namespace {

struct unit {
  line_sections sections;
  bool wide = false;  // offsets of 8 bytes
  std::uint16_t version = 0;
  std::uint8_t address_size = 8;
  std::uint8_t shortest_instruction = 1;
  std::int8_t line_base = 0;
  std::uint8_t line_range = 1;
  std::uint8_t first_special = 1;
  std::uint8_t operands[256] = {};  // of each standard operation
  byte_reader names;                // the tables of directories and files
  byte_reader program;
};

bool read_unit(byte_reader& all, const line_sections& sections, unit& out) {
  out.sections = sections;
  std::uint64_t size = all.get<std::uint32_t>();
  out.wide = size == 0xffffffff;
  if (out.wide) size = all.get<std::uint64_t>();
  byte_reader in(all.part(size));
  if (all.failed()) return false;
  out.version = in.get<std::uint16_t>();
  if (out.version < 2 || out.version > 5) return true;  // a program that is empty
  if (out.version >= 5) {
    out.address_size = in.byte();
    in.skip(1);
  }
  byte_reader head(in.part(in.offset(out.wide)));
  if (in.failed()) return true;
  out.shortest_instruction = head.byte();
  if (out.version >= 4) head.skip(1);
  head.skip(1);
  out.line_base = head.get<std::int8_t>();
  out.line_range = head.byte();
  out.first_special = head.byte();
  for (unsigned i = 1; i < out.first_special; ++i) out.operands[i] = head.byte();
  if (head.failed() || out.line_range == 0 || out.first_special == 0) return true;
  out.names = head;
  out.program = in;
  return true;
}

// ---- Names ------------------------------------------------------------------------------------

constexpr std::uint64_t k_path = 1, k_directory_index = 2;

struct entry {
  const char* path = "";
  std::uint64_t directory = 0;
};

// One column of DWARF 5's tables.
void read_column(const unit& u, byte_reader& in, std::uint64_t content, std::uint64_t form,
                 entry& out) {
  std::uint64_t number = 0;
  const char* text = "";
  switch (form) {
    case 0x08:  // the string itself
      text = in.string();
      break;
    case 0x1f:
      text = string_at(u.sections.line_strings, in.offset(u.wide));
      break;
    case 0x0e:
      text = string_at(u.sections.strings, in.offset(u.wide));
      break;
    case 0x0b:
      number = in.byte();
      break;
    case 0x05:
      number = in.get<std::uint16_t>();
      break;
    case 0x06:
      number = in.get<std::uint32_t>();
      break;
    case 0x07:
      number = in.get<std::uint64_t>();
      break;
    case 0x0f:
      number = in.uleb();
      break;
    case 0x1e:  // a checksum
      in.skip(16);
      break;
    case 0x09:
      in.skip(in.uleb());
      break;
    default:
      in.fail();
  }
  if (content == k_path) out.path = text;
  if (content == k_directory_index) out.directory = number;
}

// Reads a table, and keeps its entry number `wanted`.
entry find_entry(const unit& u, byte_reader& in, std::uint64_t wanted, entry* first = nullptr) {
  struct column {
    std::uint64_t content, form;
  };
  column columns[8] = {};
  const std::size_t count = in.byte();
  if (count == 0 || count > std::size(columns)) in.fail();
  for (std::size_t i = 0; i < count && !in.failed(); ++i) columns[i] = {in.uleb(), in.uleb()};
  const std::uint64_t rows = in.uleb();
  entry kept;
  for (std::uint64_t i = 0; i < rows && !in.at_end(); ++i) {
    entry now;
    for (std::size_t c = 0; c < count; ++c) {
      read_column(u, in, columns[c].content, columns[c].form, now);
    }
    if (i == wanted) kept = now;
    if (i == 0 && first != nullptr) *first = now;
  }
  return kept;
}

source_place name_file(const unit& u, std::uint64_t number) {
  source_place place;
  if (u.version >= 5) {
    byte_reader in = u.names;
    find_entry(u, in, 0);
    const entry file = find_entry(u, in, number);
    byte_reader again = u.names;
    entry base;
    const entry directory = find_entry(u, again, file.directory, &base);
    place.file = file.path;
    place.directory = directory.path;
    place.base = base.path;
    if (in.failed() || *place.file == '\0') place.file = nullptr;
    return place;
  }
  byte_reader in = u.names;
  while (!in.failed() && *in.string() != '\0') {
  }
  for (std::uint64_t i = 1; !in.failed(); ++i) {
    const char* const name = in.string();
    if (*name == '\0') break;
    std::uint64_t directory = in.uleb();
    in.uleb();
    in.uleb();
    if (i != number) continue;
    place.file = name;
    byte_reader directories = u.names;
    for (; directory > 0 && !directories.failed(); --directory) {
      place.directory = directories.string();
      if (*place.directory == '\0') break;
    }
    break;
  }
  return place;
}

// Whether the path goes through the folders, from wherever it begins.
bool goes_through(const char* path, const char* folders) {
  for (const char* at = path; (at = std::strstr(at, folders)) != nullptr; ++at) {
    if (at == path || at[-1] == '/') return true;
  }
  return false;
}

}  // namespace

bool is_library_header(const source_place& place) {
  if (place.file == nullptr) return true;
  for (const char* const part : {place.directory, place.file}) {
    for (const char* const folders : {"include/magpie", "magpie/detail", "c++/"}) {
      if (goes_through(part, folders)) return true;
    }
  }
  return false;
}

namespace {

// ---- Rows -------------------------------------------------------------------------------------

struct row {
  std::uint64_t address = 0;
  std::uint64_t file = 1;
  std::int64_t line = 1;
};

class row_finder {
 public:
  row_finder(const unit& u, const std::uint64_t* addresses, std::size_t count,
             line_table::on_found found, void* context)
      : unit_(u), begin_(addresses), end_(addresses + count), found_(found), context_(context) {}

  // First without a look at any name: most units have nothing to say about any of the addresses.
  void run() {
    pass();
    if (!hit_) return;
    names_ = true;
    pass();
  }

 private:
  void pass() {
    now_ = {};
    has_previous_ = has_caller_ = false;
    byte_reader in = unit_.program;
    while (!in.at_end()) step(in);
  }

  void step(byte_reader& in) {
    const std::uint8_t code = in.byte();
    if (code >= unit_.first_special) {
      const unsigned adjusted = code - unit_.first_special;
      advance(adjusted / unit_.line_range);
      now_.line += unit_.line_base + static_cast<int>(adjusted % unit_.line_range);
      end_row();
      return;
    }
    switch (code) {
      case 0:
        extended(in);
        break;
      case 1:
        end_row();
        break;
      case 2:
        advance(in.uleb());
        break;
      case 3:
        now_.line += in.sleb();
        break;
      case 4:
        now_.file = in.uleb();
        break;
      case 8:
        advance((255U - unit_.first_special) / unit_.line_range);
        break;
      case 9:
        now_.address += in.get<std::uint16_t>();
        break;
      default:
        for (unsigned i = 0; i < unit_.operands[code]; ++i) in.uleb();
    }
  }

  void extended(byte_reader& all) {
    byte_reader in(all.part(all.uleb()));
    switch (in.byte()) {
      case 1:  // the end of a sequence of instructions
        end_row();
        now_ = {};
        has_previous_ = has_caller_ = false;
        break;
      case 2:
        now_.address = in.left() == 4 ? in.get<std::uint32_t>() : in.get<std::uint64_t>();
        has_previous_ = false;
        break;
      default:
        break;
    }
  }

  void advance(std::uint64_t units) { now_.address += units * unit_.shortest_instruction; }

  // The previous row holds up to here. Functions that the linker threw away stand at 0.
  void end_row() {
    if (has_previous_ && previous_.address != 0 && previous_.address < now_.address) {
      const std::uint64_t* at = std::lower_bound(begin_, end_, previous_.address);
      for (; at != end_ && *at < now_.address; ++at) {
        hit_ = true;
        if (!names_) break;
        line_table::hit hit;
        hit.place = name(previous_);
        if (has_caller_) {
          hit.caller = name(caller_);
          hit.caller_address = caller_.address;
        }
        found_(context_, static_cast<std::size_t>(at - begin_), hit);
      }
    }
    previous_ = now_;
    if (names_ && is_user_file(now_.file)) {
      caller_ = now_;
      has_caller_ = true;
    }
    has_previous_ = true;
  }

  source_place name(const row& r) const {
    source_place place = name_file(unit_, r.file);
    place.line = static_cast<std::uint32_t>(r.line);
    return place;
  }

  bool is_user_file(std::uint64_t number) {
    if (number >= std::size(files_)) return !is_library_header(name_file(unit_, number));
    file_kind& known = files_[number];
    if (known == file_kind::unknown) {
      known = is_library_header(name_file(unit_, number)) ? file_kind::header : file_kind::user;
    }
    return known == file_kind::user;
  }

  enum class file_kind : std::uint8_t {
    unknown,
    header,
    user,
  };

  const unit& unit_;
  const std::uint64_t* const begin_;
  const std::uint64_t* const end_;
  const line_table::on_found found_;
  void* const context_;
  row now_, previous_, caller_;
  bool has_previous_ = false, has_caller_ = false;
  bool hit_ = false, names_ = false;
  file_kind files_[512] = {};
};

}  // namespace

source_place line_table::file(std::uint64_t offset, std::uint64_t number) const {
  byte_reader all(sections_.line);
  all.skip(offset);
  unit u;
  return read_unit(all, sections_, u) ? name_file(u, number) : source_place{};
}

void line_table::find(const std::uint64_t* addresses, std::size_t count, on_found found,
                      void* context) const {
  byte_reader all(sections_.line);
  while (!all.at_end()) {
    unit u;
    if (!read_unit(all, sections_, u)) return;
    row_finder(u, addresses, count, found, context).run();
  }
}

}  // namespace magpie::rt
