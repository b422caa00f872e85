#include "symbols/code_names.h"

#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/atomic.h"
#include "os/mapped_file.h"
#include "symbols/elf_file.h"
#include "symbols/inline_table.h"

namespace magpie::rt {

code_names::~code_names() {
  for (const code_name& n : names_) std::free(n.demangled);
  for (const inlined_name& i : inlined_) std::free(i.name.demangled);
  for (const auto file : files_) os::unmap_file(file);
}

void code_names::sort() {
  std::sort(names_.begin(), names_.end(),
            [](const code_name& a, const code_name& b) { return a.address < b.address; });
  code_name* const end =
      std::unique(names_.begin(), names_.end(),
                  [](const code_name& a, const code_name& b) { return a.address == b.address; });
  names_.shrink(static_cast<std::size_t>(end - names_.begin()));
}

void code_names::look_up(style how) {
  sort();
  code_name* const end = names_.end();
  for (code_name* at = names_.begin(); at != end;) {
    const os::loaded_module* const module = modules_.find(at->address);
    code_name* next = at + 1;
    if (module != nullptr) {
      while (next != end && module->contains(next->address)) ++next;
      look_up(*module, at, next);
    }
    at = next;
  }
  if (how == style::demangled) demangle();
}

// [first, last) are all in the module.
void code_names::look_up(const os::loaded_module& module, code_name* first, code_name* last) {
  os::mapped_list<std::uint64_t> addresses;  // as the file has them
  for (code_name* n = first; n != last; ++n) {
    n->module = &module;
    addresses.add(n->address - module.bias);
  }
  const std::span<const std::byte> bytes = os::map_file(module.path);
  if (bytes.empty() || addresses.empty()) return;
  if (!files_.add(bytes)) return os::unmap_file(bytes);
  const elf_file file(bytes);
  file.for_each_function([&](const elf_file::function& f) {
    const std::uint64_t* at = std::lower_bound(addresses.begin(), addresses.end(), f.address);
    for (; at != addresses.end() && *at - f.address < f.size; ++at) {
      code_name& n = first[at - addresses.begin()];
      // Of several that begin at the same place, the first: it is the one from the source, mostly.
      if (n.function != nullptr && n.offset <= *at - f.address) continue;
      n.function = f.name;
      n.offset = *at - f.address;
    }
  });
  const line_table lines(
      {file.section(".debug_line"), file.section(".debug_line_str"), file.section(".debug_str")});
  lines.find(
      addresses.begin(), addresses.size(),
      [](void* names, std::size_t i, const line_table::hit& hit) {
        code_name& n = static_cast<code_name*>(names)[i];
        const std::uint64_t start = n.address - n.module->bias - n.offset;
        const bool called_here = n.function != nullptr && hit.caller_address >= start;
        n.source = called_here ? hit.caller : hit.place;
        n.exact = hit.place;
      },
      first);
  const inline_table inlined({file.section(".debug_info"), file.section(".debug_abbrev"),
                              file.section(".debug_str"), file.section(".debug_line_str"),
                              file.section(".debug_str_offsets"), file.section(".debug_addr"),
                              file.section(".debug_ranges"), file.section(".debug_rnglists")});
  struct search {
    code_names& self;
    code_name* first;
    const line_table& lines;
  } mine{*this, first, lines};
  inlined.find(
      addresses.begin(), addresses.size(), texts_,
      [](void* raw, std::size_t i, const inlined_call& call) {
        const auto& [self, names, all_lines] = *static_cast<search*>(raw);
        code_name& n = names[i];
        inlined_name one;
        one.name = n;
        one.name.function = call.function;
        one.outer = n.inlined;
        one.call = all_lines.file(call.table, call.file);
        one.call.line = call.line;
        if (self.inlined_.add(one)) n.inlined = static_cast<std::uint32_t>(self.inlined_.size());
      },
      &mine);
  for (code_name* n = first; n != last; ++n) {
    if (n->inlined != 0) choose_shown(*n);
  }
}

namespace {

bool begins(const char* text, std::string_view with) {
  return std::strncmp(text, with.data(), with.size()) == 0;
}

// One of ours, or a template of ours around a user's function.
bool is_of_magpie(const char* function) {
  return function != nullptr && (begins(function, "_ZN6magpie") || begins(function, "_ZNK6magpie"));
}

// What calls a function that it was given.
bool only_calls(const char* function) {
  for (const std::string_view with :
       {"_ZN6magpie6detail", "_ZNO6magpie6detail", "_ZNK6magpie6detail", "_ZSt6invoke",
        "_ZSt8__invoke", "_ZSt13__invoke_impl"}) {
    if (begins(function, with)) return true;
  }
  return false;
}

// See essence().
bool begins_a_goroutine(const char* function) {
  return function != nullptr && (begins(function, "_ZN6magpie6detail11call_inline") ||
                                 begins(function, "_ZN6magpie6detail12call_on_heap"));
}

}  // namespace

// Each of them stands where it calls the next inner one.
void code_names::choose_shown(code_name& n) {
  source_place at = n.exact;
  inlined_name* outermost = nullptr;
  for (std::uint32_t i = n.inlined; i != 0; i = inlined_[i - 1].outer) {
    inlined_name& one = inlined_[i - 1];
    one.name.source = std::exchange(at, one.call);
    one.shown = !is_library_header(one.name.source);
    if (one.shown) outermost = &one;
  }
  if (!is_library_header(at)) {
    n.source = at;
    if (!is_of_magpie(n.function)) return;
    for (std::uint32_t i = n.inlined; i != 0; i = inlined_[i - 1].outer) {
      inlined_[i - 1].shown = false;  // how we do it is of no interest
    }
  } else if (outermost != nullptr) {
    n.is_wrapper = true;
    if (begins_a_goroutine(n.function)) outermost->name.function = n.function;
  }
}

namespace {

// The argument of that number of the template whose <...> opens there.
std::string_view template_argument(std::string_view text, std::size_t open, int number) {
  int depth = 0;
  std::size_t begin = open + 1;
  for (std::size_t i = open; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (c == '>' || c == ')' || c == '}') --depth;
    if (depth != 0 && !(depth == 1 && c == ',')) continue;
    if (number-- == 0) {
      std::string_view found = text.substr(begin, i - begin);
      while (found.starts_with(' ')) found.remove_prefix(1);
      while (found.ends_with(' ')) found.remove_suffix(1);
      return found;
    }
    if (depth == 0) break;
    begin = i + 1;
  }
  return {};
}

// A goroutine's function is mostly a lambda, inlined into what calls it: that one goes under the
// name of the lambda, without the layers in between.
std::string_view essence(std::string_view text) {
  const auto strip = [&text](std::string_view prefix, int number = 0) {
    if (!text.starts_with(prefix)) return false;
    const std::string_view inside = template_argument(text, prefix.size() - 1, number);
    if (inside.empty()) return false;
    text = inside;
    return true;
  };
  const std::string_view whole = text;
  if (!strip("void magpie::detail::call_inline<") && !strip("void magpie::detail::call_on_heap<")) {
    return text;
  }
  strip("magpie::detail::async_task<", 1);
  strip("magpie::detail::counted_task<");
  strip("magpie::detail::group_task<");
  strip("magpie::detail::bound_call<");
  // The type of a pointer to a function is no name.
  return text.find("(*)") == std::string_view::npos ? text : whole;
}

void shorten(char* text) {
  const std::string_view kept = essence(text);
  std::memmove(text, kept.data(), kept.size());
  text[kept.size()] = '\0';
}

}  // namespace

void code_names::demangle() {
  const auto demangle = [](code_name& n) {
    if (n.function == nullptr || !begins(n.function, "_Z")) return;
    int status = 0;
    char* const text = abi::__cxa_demangle(n.function, nullptr, nullptr, &status);
    if (text != nullptr) shorten(text);
    std::atomic_ref(n.demangled).store(text, release);  // pairs with print_function()
  };
  for (code_name& n : names_) demangle(n);
  for (inlined_name& i : inlined_) {
    if (i.shown) demangle(i.name);
  }
}

const code_name* code_names::find(std::uintptr_t inside) const {
  const code_name* const at = std::lower_bound(
      names_.begin(), names_.end(), inside,
      [](const code_name& n, std::uintptr_t address) { return n.address < address; });
  return at != names_.end() && at->address == inside ? at : nullptr;
}

bool code_names::is_glue(std::uintptr_t inside) const {
  const code_name* const n = find(inside);
  if (n == nullptr || n->function == nullptr || !only_calls(n->function)) return false;
  if (n->exact.file == nullptr || !is_library_header(n->exact)) return false;
  for (std::uint32_t i = n->inlined; i != 0; i = inlined_[i - 1].outer) {
    if (inlined_[i - 1].shown) return false;
  }
  return true;
}

void print_function(printer& out, const code_name& n) {
  if (n.function == nullptr) {
    out << hex{n.address};
  } else {
    // acquire: pairs with demangle(), which may be under way.
    const char* const text = std::atomic_ref(const_cast<char*&>(n.demangled)).load(acquire);
    out << (text != nullptr ? text : n.function);
  }
}

void source_path::add(std::string_view piece) {
  while (!piece.empty()) {
    const std::size_t slash = piece.find('/');
    const std::string_view name = piece.substr(0, slash);
    if (slash == 0 && size_ == 0) {
      put("/");
    } else if (name == "..") {
      up();
    } else if (!name.empty() && name != ".") {
      if (size_ != 0 && text_[size_ - 1] != '/') put("/");
      put(name);
    }
    if (slash == std::string_view::npos) break;
    piece.remove_prefix(slash + 1);
  }
}

void source_path::put(std::string_view part) {
  const std::size_t fits = std::min(part.size(), sizeof text_ - size_);
  std::memcpy(text_ + size_, part.data(), fits);
  size_ += fits;
}

void source_path::up() {
  const std::size_t slash = text().rfind('/');
  const bool can =
      slash != std::string_view::npos && slash + 1 != size_ && text().substr(slash + 1) != "..";
  if (!can) {
    if (size_ != 0 && text_[size_ - 1] != '/') put("/");
    return put("..");
  }
  size_ = slash == 0 ? 1 : slash;
}

source_path::source_path(const source_place& s) {
  if (*s.file != '/') {
    if (*s.directory != '/' && std::strcmp(s.base, s.directory) != 0) add(s.base);
    add(s.directory);
  }
  add(s.file);
}

void print_place(printer& out, const code_name& n) {
  const source_place& s = n.source;
  if (s.file == nullptr) {
    if (n.module == nullptr) {
      out << "in no file";
    } else {
      out << n.module->path << '+' << hex{n.address - n.module->bias};
    }
    return;
  }
  out << source_path(s).text() << ':' << s.line;
  if (n.function != nullptr) out << " +" << hex{n.offset};
}

}  // namespace magpie::rt
