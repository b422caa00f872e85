// The program and its shared libraries, as they are in memory now: whose code an address is, and
// where the tables are that say how to leave it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace magpie::rt::os {

struct loaded_module {
  static constexpr std::size_t k_longest_path = 255;
  char path[k_longest_path + 1];  // to open it by
  std::uintptr_t bias;            // address in memory minus address in the file
  std::uintptr_t low, high;       // all of it
  // .eh_frame_hdr, and the end of the readable memory it is in; 0: there is none.
  std::uintptr_t unwind_table, unwind_end;

  bool contains(std::uintptr_t address) const { return address >= low && address < high; }
};

// A list made once. Takes a lock of the dynamic linker while it is made, and none afterwards; no
// heap. A library that is unloaded later leaves a hole that must not be looked into.
class module_table {
 public:
  module_table();
  ~module_table();
  module_table(const module_table&) = delete;
  module_table& operator=(const module_table&) = delete;

  // Null: no module's.
  const loaded_module* find(std::uintptr_t address) const;

  const loaded_module* begin() const { return modules_; }
  const loaded_module* end() const { return modules_ + count_; }

  static constexpr std::size_t k_most = 1024;

 private:
  loaded_module* modules_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace magpie::rt::os
