// inline_table.cpp: .debug_info is a tree for each file that was compiled, written in preorder.
// Each node names an abbreviation, which says what attributes follow and in which form. The nodes
// of inlined functions lie in each other as the functions do; so all nodes are read one after the
// other, and those whose code has a wanted address come in the right order by themselves.
//
// What a function is declared in is said by nothing but the tree. Functions that the linker never
// hears of, as in an unnamed namespace, have no other name; where some were found, the nodes are
// read once more for what lies around their declarations.

#include "symbols/inline_table.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "os/mapped_list.h"
#include "symbols/byte_reader.h"

namespace magpie::rt {
namespace {

// The names are DWARF's.
enum tag : std::uint64_t {
  DW_TAG_class_type = 0x02,
  DW_TAG_structure_type = 0x13,
  DW_TAG_union_type = 0x17,
  DW_TAG_inlined_subroutine = 0x1d,
  DW_TAG_subprogram = 0x2e,
  DW_TAG_namespace = 0x39,
};

enum attribute : std::uint64_t {
  DW_AT_name = 0x03,
  DW_AT_stmt_list = 0x10,
  DW_AT_low_pc = 0x11,
  DW_AT_high_pc = 0x12,
  DW_AT_abstract_origin = 0x31,
  DW_AT_specification = 0x47,
  DW_AT_ranges = 0x55,
  DW_AT_call_file = 0x58,
  DW_AT_call_line = 0x59,
  DW_AT_linkage_name = 0x6e,
  DW_AT_str_offsets_base = 0x72,
  DW_AT_addr_base = 0x73,
  DW_AT_rnglists_base = 0x74,
};

enum form : std::uint64_t {
  DW_FORM_addr = 0x01,
  DW_FORM_block2 = 0x03,
  DW_FORM_block4 = 0x04,
  DW_FORM_data2 = 0x05,
  DW_FORM_data4 = 0x06,
  DW_FORM_data8 = 0x07,
  DW_FORM_string = 0x08,
  DW_FORM_block = 0x09,
  DW_FORM_block1 = 0x0a,
  DW_FORM_data1 = 0x0b,
  DW_FORM_flag = 0x0c,
  DW_FORM_sdata = 0x0d,
  DW_FORM_strp = 0x0e,
  DW_FORM_udata = 0x0f,
  DW_FORM_ref_addr = 0x10,
  DW_FORM_ref1 = 0x11,
  DW_FORM_ref2 = 0x12,
  DW_FORM_ref4 = 0x13,
  DW_FORM_ref8 = 0x14,
  DW_FORM_ref_udata = 0x15,
  DW_FORM_sec_offset = 0x17,
  DW_FORM_exprloc = 0x18,
  DW_FORM_flag_present = 0x19,
  DW_FORM_strx = 0x1a,
  DW_FORM_addrx = 0x1b,
  DW_FORM_ref_sup4 = 0x1c,
  DW_FORM_strp_sup = 0x1d,
  DW_FORM_data16 = 0x1e,
  DW_FORM_line_strp = 0x1f,
  DW_FORM_ref_sig8 = 0x20,
  DW_FORM_implicit_const = 0x21,
  DW_FORM_loclistx = 0x22,
  DW_FORM_rnglistx = 0x23,
  DW_FORM_ref_sup8 = 0x24,
  DW_FORM_strx1 = 0x25,
  DW_FORM_strx2 = 0x26,
  DW_FORM_strx3 = 0x27,
  DW_FORM_strx4 = 0x28,
  DW_FORM_addrx1 = 0x29,
  DW_FORM_addrx2 = 0x2a,
  DW_FORM_addrx3 = 0x2b,
  DW_FORM_addrx4 = 0x2c,
  DW_FORM_GNU_ref_alt = 0x1f20,
  DW_FORM_GNU_strp_alt = 0x1f21,
};

// An attribute as it is written: what the number means is a matter of the form.
struct value {
  std::uint64_t form = 0;  // 0: there is none
  std::uint64_t number = 0;
  const char* text = nullptr;  // of a string that stands right there

  explicit operator bool() const { return form != 0; }
};

// What is asked of a node.
struct node {
  std::uint64_t tag = 0;
  bool has_children = false;
  value name, linkage_name, origin, specification, low, high, ranges, call_file, call_line;
  value table, string_offsets, addresses, range_lists;  // of the first one of a unit

  value* place_of(std::uint64_t attribute) {
    switch (attribute) {
      case DW_AT_name:
        return &name;
      case DW_AT_linkage_name:
        return &linkage_name;
      case DW_AT_abstract_origin:
        return &origin;
      case DW_AT_specification:
        return &specification;
      case DW_AT_low_pc:
        return &low;
      case DW_AT_high_pc:
        return &high;
      case DW_AT_ranges:
        return &ranges;
      case DW_AT_call_file:
        return &call_file;
      case DW_AT_call_line:
        return &call_line;
      case DW_AT_stmt_list:
        return &table;
      case DW_AT_str_offsets_base:
        return &string_offsets;
      case DW_AT_addr_base:
        return &addresses;
      case DW_AT_rnglists_base:
        return &range_lists;
      default:
        return nullptr;
    }
  }
};

byte_reader reader_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  byte_reader in(bytes);
  in.skip(offset);
  return in;
}

class unit_reader {
 public:
  unit_reader(const inline_sections& sections, const std::uint64_t* addresses, std::size_t count,
              text_store& texts, inline_table::on_found found, void* context)
      : sections_(sections),
        begin_(addresses),
        end_(addresses + count),
        texts_(texts),
        found_(found),
        context_(context) {}

  // The next unit of `all`. False: there is none.
  bool run(byte_reader& all) {
    std::uint64_t size = all.get<std::uint32_t>();
    wide_ = size == 0xffffffff;
    if (wide_) size = all.get<std::uint64_t>();
    const std::size_t head = wide_ ? 12 : 4;
    bytes_ = sections_.info.subspan(all.failed() ? 0 : all.position() - head);
    all.skip(size);
    if (all.failed()) return false;
    bytes_ = bytes_.first(head + static_cast<std::size_t>(size));
    byte_reader in = reader_at(bytes_, head);
    if (!read_head(in) || !read_root(in)) return true;
    calls_.shrink(0);
    unnamed_.shrink(0);
    const byte_reader first = in;
    read_nodes(in);
    if (!unnamed_.empty()) read_scopes(first);
    for (const call_of_node& c : calls_) {
      for_each_wanted(c.of, [&](std::size_t i) { found_(context_, i, c.call); });
    }
    return true;
  }

 private:
  static constexpr std::uint8_t k_compile_unit = 1;
  static constexpr int k_most_hops = 4;

  bool read_head(byte_reader& in) {
    version_ = in.get<std::uint16_t>();
    if (version_ != 4 && version_ != 5) return false;
    std::uint64_t abbreviations = 0;
    std::uint8_t address_size = 0;
    if (version_ == 5) {
      if (in.byte() != k_compile_unit) return false;
      address_size = in.byte();
      abbreviations = in.offset(wide_);
    } else {
      abbreviations = in.offset(wide_);
      address_size = in.byte();
    }
    abbreviations_ = reader_at(sections_.abbreviations, abbreviations);
    places_.shrink(0);
    return !in.failed() && address_size == 8;
  }

  // False: there is no code of any wanted address in it.
  bool read_root(byte_reader& in) {
    root_ = {};
    low_ = 0;
    if (!read_node(in, root_)) return false;
    if (root_.low) low_ = address(root_.low);
    return has_wanted(root_);
  }

  void read_nodes(byte_reader& in) {
    while (!in.at_end()) {
      node n;
      if (!read_node(in, n)) return;
      if (n.tag != DW_TAG_inlined_subroutine || !has_wanted(n)) continue;
      inlined_call call;
      std::size_t declared_at = 0;
      call.function = name_of(n, declared_at);
      call.table = root_.table.number;
      call.file = n.call_file.number;
      call.line = static_cast<std::uint32_t>(n.call_line.number);
      if (call.function == nullptr || !calls_.add({n, call})) continue;
      if (declared_at != 0) unnamed_.add({declared_at, calls_.size() - 1});
    }
  }

  // ---- What lies around a declaration ----

  void read_scopes(byte_reader in) {
    std::sort(unnamed_.begin(), unnamed_.end(), [](const declaration& a, const declaration& b) {
      return a.at != b.at ? a.at < b.at : a.call < b.call;
    });
    const declaration* next = unnamed_.begin();
    const char* full = nullptr;
    scopes_.shrink(0);
    while (!in.at_end() && next != unnamed_.end()) {
      const std::size_t at = in.position();
      node n;
      if (!read_node(in, n)) return;
      while (next != unnamed_.end() && next->at < at) ++next;  // not where a node begins
      for (full = nullptr; next != unnamed_.end() && next->at == at; ++next) {
        const char*& name = calls_[next->call].call.function;
        if (full == nullptr) full = with_scopes(name);
        if (full != nullptr) name = full;
      }
      if (n.tag == 0) {
        if (!scopes_.empty()) scopes_.shrink(scopes_.size() - 1);
      } else if (n.has_children && !scopes_.add({n})) {
        return;
      }
    }
  }

  const char* with_scopes(const char* name) {
    char text[1024];
    std::size_t size = 0;
    const auto put = [&](std::string_view piece) {
      const std::size_t fits = std::min(piece.size(), sizeof text - size);
      std::memcpy(text + size, piece.data(), fits);
      size += fits;
    };
    for (const node& scope : scopes_) {
      const std::string_view piece = scope_name(scope);
      if (piece.empty()) continue;
      put(piece);
      if (scope.tag == DW_TAG_subprogram) put("()");
      put("::");
    }
    if (size == 0) return name;
    put(name);
    return texts_.add({text, size});
  }

  // Empty: it is no part of names.
  std::string_view scope_name(const node& n) {
    node last = n;
    std::size_t ignored = 0;
    const char* const name = follow(last, ignored);
    switch (n.tag) {
      case DW_TAG_namespace:
        return name != nullptr ? name : "(anonymous namespace)";
      case DW_TAG_class_type:
      case DW_TAG_structure_type:
      case DW_TAG_union_type:
        return name != nullptr ? name : "{unnamed}";
      case DW_TAG_subprogram:
        return name != nullptr ? name : "";
      default:
        return "";
    }
  }

  // One of the marks that end a list of children is a node without a tag.
  bool read_node(byte_reader& in, node& out) {
    const std::uint64_t code = in.uleb();
    if (in.failed()) return false;
    if (code == 0) return true;
    byte_reader how;
    if (!find_abbreviation(code, how)) return false;
    out.tag = how.uleb();
    out.has_children = how.byte() != 0;  // they follow
    for (;;) {
      const std::uint64_t attribute = how.uleb(), form = how.uleb();
      if (how.failed()) return false;
      if (attribute == 0 && form == 0) return true;
      value v;
      v.form = form;
      if (form == DW_FORM_implicit_const) {
        v.number = static_cast<std::uint64_t>(how.sleb());
      } else if (!read_value(in, v)) {
        return false;
      }
      if (value* const to = out.place_of(attribute)) *to = v;
    }
  }

  // They are numbered from 1 on, mostly without gaps; so where each one begins is noted as far as
  // they have been read.
  bool find_abbreviation(std::uint64_t code, byte_reader& out) {
    while (places_.size() < code) {
      byte_reader& in = abbreviations_;
      const std::uint64_t next = in.uleb();
      if (in.failed() || next != places_.size() + 1) return false;
      if (!places_.add(in)) return false;
      in.uleb();
      in.skip(1);
      for (bool more = true; more && !in.failed();) {
        const std::uint64_t attribute = in.uleb(), form = in.uleb();
        if (form == DW_FORM_implicit_const) in.sleb();
        more = attribute != 0 || form != 0;
      }
    }
    out = places_[static_cast<std::size_t>(code) - 1];
    return true;
  }

  bool read_value(byte_reader& in, value& v) const {
    switch (v.form) {
      case DW_FORM_data1:
      case DW_FORM_flag:
      case DW_FORM_ref1:
      case DW_FORM_strx1:
      case DW_FORM_addrx1:
        v.number = in.byte();
        break;
      case DW_FORM_data2:
      case DW_FORM_ref2:
      case DW_FORM_strx2:
      case DW_FORM_addrx2:
        v.number = in.get<std::uint16_t>();
        break;
      case DW_FORM_strx3:
      case DW_FORM_addrx3:
        v.number = in.get<std::uint16_t>();
        v.number |= std::uint64_t{in.byte()} << 16;
        break;
      case DW_FORM_data4:
      case DW_FORM_ref4:
      case DW_FORM_ref_sup4:
      case DW_FORM_strx4:
      case DW_FORM_addrx4:
        v.number = in.get<std::uint32_t>();
        break;
      case DW_FORM_addr:
      case DW_FORM_data8:
      case DW_FORM_ref8:
      case DW_FORM_ref_sig8:
      case DW_FORM_ref_sup8:
        v.number = in.get<std::uint64_t>();
        break;
      case DW_FORM_data16:
        in.skip(16);
        break;
      case DW_FORM_sdata:
        v.number = static_cast<std::uint64_t>(in.sleb());
        break;
      case DW_FORM_udata:
      case DW_FORM_ref_udata:
      case DW_FORM_strx:
      case DW_FORM_addrx:
      case DW_FORM_loclistx:
      case DW_FORM_rnglistx:
        v.number = in.uleb();
        break;
      case DW_FORM_strp:
      case DW_FORM_line_strp:
      case DW_FORM_strp_sup:
      case DW_FORM_ref_addr:
      case DW_FORM_sec_offset:
      case DW_FORM_GNU_ref_alt:
      case DW_FORM_GNU_strp_alt:
        v.number = in.offset(wide_);
        break;
      case DW_FORM_string:
        v.text = in.string();
        break;
      case DW_FORM_block1:
        in.skip(in.byte());
        break;
      case DW_FORM_block2:
        in.skip(in.get<std::uint16_t>());
        break;
      case DW_FORM_block4:
        in.skip(in.get<std::uint32_t>());
        break;
      case DW_FORM_block:
      case DW_FORM_exprloc:
        in.skip(in.uleb());
        break;
      case DW_FORM_flag_present:
        v.number = 1;
        break;
      default:
        return false;  // who knows how long it is
    }
    return !in.failed();
  }

  // ---- What the values mean ----

  const char* text(const value& v) const {
    switch (v.form) {
      case DW_FORM_string:
        return v.text;
      case DW_FORM_strp:
        return string_at(sections_.strings, v.number);
      case DW_FORM_line_strp:
        return string_at(sections_.line_strings, v.number);
      case DW_FORM_strx:
      case DW_FORM_strx1:
      case DW_FORM_strx2:
      case DW_FORM_strx3:
      case DW_FORM_strx4: {
        const std::uint64_t width = wide_ ? 8 : 4;
        byte_reader in =
            reader_at(sections_.string_offsets, root_.string_offsets.number + v.number * width);
        const std::uint64_t offset = in.offset(wide_);
        return in.failed() ? nullptr : string_at(sections_.strings, offset);
      }
      default:
        return nullptr;
    }
  }

  std::uint64_t indexed_address(std::uint64_t index) const {
    return reader_at(sections_.addresses, root_.addresses.number + index * 8).get<std::uint64_t>();
  }
  std::uint64_t address(const value& v) const {
    return v.form == DW_FORM_addr ? v.number : indexed_address(v.number);
  }

  // Through the declarations and the abstract function that it is an instance of. Without a name
  // of the linker's the last of them is where it is declared.
  const char* name_of(const node& n, std::size_t& declared_at) {
    node last = n;
    const char* const plain = follow(last, declared_at);
    if (!last.linkage_name) return plain;
    declared_at = 0;
    return text(last.linkage_name);
  }

  // Up to the first with a name of the linker's, or to the last one. Returns the name in the
  // source.
  const char* follow(node& n, std::size_t& at) {
    const char* plain = nullptr;
    for (int hops = 0; hops < k_most_hops; ++hops) {
      if (n.name && plain == nullptr) plain = text(n.name);
      const value next = n.origin ? n.origin : n.specification;
      const bool here = next.form >= DW_FORM_ref1 && next.form <= DW_FORM_ref_udata;
      if (n.linkage_name || !here) break;
      byte_reader in = reader_at(bytes_, next.number);
      node found;
      if (!read_node(in, found)) break;
      n = found;
      at = static_cast<std::size_t>(next.number);
    }
    return plain;
  }

  // visit(begin, end) for each stretch of code of the node, until one says that it has seen enough.
  template <class Visit>
  void for_each_stretch(const node& n, Visit visit) const {
    if (n.ranges) return version_ == 5 ? visit_list(n.ranges, visit) : visit_old_list(n, visit);
    if (!n.low || !n.high) return;
    const std::uint64_t begin = address(n.low);
    const bool is_address = n.high.form == DW_FORM_addr || n.high.form == DW_FORM_addrx ||
                            (n.high.form >= DW_FORM_addrx1 && n.high.form <= DW_FORM_addrx4);
    visit(begin, is_address ? address(n.high) : begin + n.high.number);
  }

  template <class Visit>
  void visit_old_list(const node& n, Visit visit) const {
    std::uint64_t base = low_;
    for (byte_reader in = reader_at(sections_.ranges, n.ranges.number); !in.at_end();) {
      const auto begin = in.get<std::uint64_t>(), end = in.get<std::uint64_t>();
      if (begin == 0 && end == 0) return;
      if (begin == ~std::uint64_t{0}) {
        base = end;
      } else if (!visit(base + begin, base + end)) {
        return;
      }
    }
  }

  template <class Visit>
  void visit_list(const value& list, Visit visit) const {
    std::uint64_t at = list.number;
    if (list.form == DW_FORM_rnglistx) {
      const std::uint64_t table = root_.range_lists.number;
      at = table + reader_at(sections_.range_lists, table + at * (wide_ ? 8 : 4)).offset(wide_);
    }
    std::uint64_t base = low_;
    for (byte_reader in = reader_at(sections_.range_lists, at); !in.at_end();) {
      std::uint64_t begin = 0, end = 0;
      switch (in.byte()) {
        case 1:  // another base
          base = indexed_address(in.uleb());
          continue;
        case 2:
          begin = indexed_address(in.uleb());
          end = indexed_address(in.uleb());
          break;
        case 3:
          begin = indexed_address(in.uleb());
          end = begin + in.uleb();
          break;
        case 4:
          begin = base + in.uleb();
          end = base + in.uleb();
          break;
        case 5:  // another base
          base = in.get<std::uint64_t>();
          continue;
        case 6:
          begin = in.get<std::uint64_t>();
          end = in.get<std::uint64_t>();
          break;
        case 7:
          begin = in.get<std::uint64_t>();
          end = begin + in.uleb();
          break;
        default:
          return;
      }
      if (in.failed() || !visit(begin, end)) return;
    }
  }

  // Functions that the linker threw away stand at 0.
  template <class Visit>
  void for_each_wanted(const node& n, Visit visit) const {
    for_each_stretch(n, [&](std::uint64_t begin, std::uint64_t end) {
      if (begin == 0) return true;
      const std::uint64_t* at = std::lower_bound(begin_, end_, begin);
      for (; at != end_ && *at < end; ++at) visit(static_cast<std::size_t>(at - begin_));
      return true;
    });
  }

  bool has_wanted(const node& n) const {
    bool found = false;
    for_each_stretch(n, [&](std::uint64_t begin, std::uint64_t end) {
      const std::uint64_t* const at = std::lower_bound(begin_, end_, begin);
      found = begin != 0 && at != end_ && *at < end;
      return !found;
    });
    return found;
  }

  const inline_sections& sections_;
  const std::uint64_t* const begin_;
  const std::uint64_t* const end_;
  text_store& texts_;
  const inline_table::on_found found_;
  void* const context_;

  struct call_of_node {
    node of;
    inlined_call call;
  };
  os::mapped_list<call_of_node> calls_;  // of the unit
  struct declaration {
    std::size_t at;    // in the unit
    std::size_t call;  // in calls_
  };
  os::mapped_list<declaration> unnamed_;  // where those are declared that want more of a name
  os::mapped_list<node> scopes_;          // around the node that is read

  std::span<const std::byte>
      bytes_;          // of the unit, from its length on: references count from there
  bool wide_ = false;  // offsets of 8 bytes
  std::uint16_t version_ = 0;
  byte_reader abbreviations_;            // those that have not been read yet
  os::mapped_list<byte_reader> places_;  // of those that have, behind their numbers
  node root_;
  std::uint64_t low_ = 0;  // where its code begins
};

}  // namespace

void inline_table::find(const std::uint64_t* addresses, std::size_t count, text_store& texts,
                        on_found found, void* context) const {
  byte_reader all(sections_.info);
  unit_reader unit(sections_, addresses, count, texts, found, context);
  while (!all.at_end() && unit.run(all)) continue;
}

}  // namespace magpie::rt
