// Names for addresses of code: the function, the file and the line.
//
// Addresses are collected first and looked up together, in one pass over the tables of each
// module: for a dump of a million goroutines as for a single stack no index is needed.
//
// An address may belong to several functions, of which all but one were inlined. Those that come
// from a header of ours or of the standard library, which is most often so, are not shown: the line
// is the one where the user's code calls them. By .debug_info; without it, inlined functions go
// under the name of the one they are inlined in, and the line is the last one before in the address
// order that is not of such a header.
//
// No heap and no lock but the dynamic linker's, unless names are to be demangled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/print.h"
#include "os/mapped_list.h"
#include "os/modules.h"
#include "symbols/line_table.h"
#include "symbols/text_store.h"

namespace magpie::rt {

struct code_name {
  std::uintptr_t address = 0;
  const char* function = nullptr;  // null: not known
  std::uint64_t offset = 0;        // of the address in it
  source_place source;
  const os::loaded_module* module = nullptr;  // null: in none
  char* demangled = nullptr;                  // of `function`; null: as it is

  source_place exact;         // of the instruction itself, in whatever header it is
  std::uint32_t inlined = 0;  // the innermost one, counted from 1; 0: none
  // Nothing in it comes from a user's file but what was inlined.
  bool is_wrapper = false;
};

class code_names {
 public:
  code_names() = default;
  ~code_names();
  code_names(const code_names&) = delete;
  code_names& operator=(const code_names&) = delete;

  // An address inside an instruction: for a call, before the one it returns to.
  void want(std::uintptr_t inside) {
    code_name n;
    n.address = inside;
    names_.add(n);
  }
  void want_call(const void* return_address) {
    want(reinterpret_cast<std::uintptr_t>(return_address) - 1);
  }

  // As the compiler wrote them, which needs nothing; or as they stand in the source, which takes
  // the heap.
  enum class style {
    mangled,
    demangled,
  };
  void look_up(style);
  // Later, by any one thread at a time, while others print.
  void demangle();

  // Null: it was not asked for.
  const code_name* find(std::uintptr_t inside) const;

  // The innermost function that the address belongs to and that is to be shown. Null: as find().
  const code_name* find_shown(std::uintptr_t inside) const {
    const code_name* first = nullptr;
    for_each(inside, [&first](const code_name& n) { first = first != nullptr ? first : &n; });
    return first;
  }

  // Whether it is code of our headers, or of the standard library's, between the scheduler and the
  // function that it calls for a user.
  bool is_glue(std::uintptr_t inside) const;

  // visit(name) for each function that the address belongs to and that is to be shown, innermost
  // first.
  template <class Visit>
  void for_each(std::uintptr_t inside, Visit visit) const {
    const code_name* const n = find(inside);
    if (n == nullptr) return;
    for (std::uint32_t i = n->inlined; i != 0; i = inlined_[i - 1].outer) {
      if (inlined_[i - 1].shown) visit(inlined_[i - 1].name);
    }
    if (!n->is_wrapper) visit(*n);
  }

 private:
  void sort();
  void look_up(const os::loaded_module&, code_name* first, code_name* last);
  void choose_shown(code_name&);

  struct inlined_name {
    code_name name;
    std::uint32_t outer = 0;  // as code_name::inlined
    source_place call;        // where it is called
    bool shown = false;
  };

  os::module_table modules_;
  os::mapped_list<inlined_name> inlined_;
  os::mapped_list<code_name> names_;
  os::mapped_list<std::span<const std::byte>> files_;
  text_store texts_;
};

// Of a source file that is known, without the "x/.." that builds in folders of their own leave in
// it.
class source_path {
 public:
  explicit source_path(const source_place&);
  std::string_view text() const { return {text_, size_}; }

 private:
  void add(std::string_view piece);
  void put(std::string_view part);
  void up();

  char text_[1024];
  std::size_t size_ = 0;
};

// "serve(connection&)", or the address.
void print_function(printer&, const code_name&);
// "/src/server.cpp:41 +0x1b", or "/usr/lib/libz.so.1+0x3f20".
void print_place(printer&, const code_name&);

}  // namespace magpie::rt
