// Where the process has code, and what it is called.
#pragma once

#include <cstdint>
#include <string>

namespace magpie::rt::os {

// Takes down which ranges of addresses are code, for is_code(). Again when libraries were loaded
// since. Allocates nothing, but takes the dynamic linker's lock.
void note_code();

// Whether the address is code, as far as note_code() has seen. Signal-safe; a nanosecond or two.
bool is_code(std::uintptr_t address);

// The function that the address is in, as C++ writes it; empty: not known. From the tables of
// symbols of the program and its libraries, read from their files when first needed. Slow;
// allocates.
struct function_name {
  std::string function;
  std::string file;          // the program or library
  std::uint64_t offset = 0;  // in there
};
function_name name_of_code(std::uintptr_t address);

}  // namespace magpie::rt::os
