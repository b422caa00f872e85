// Where the process has code.
#pragma once

#include <cstdint>

namespace magpie::rt::os {

// Takes down which ranges of addresses are code, for is_code(). Again when libraries were loaded
// since. Allocates nothing, but takes the dynamic linker's lock.
void note_code();

// Whether the address is code, as far as note_code() has seen. Signal-safe; a nanosecond or two.
bool is_code(std::uintptr_t address);

}  // namespace magpie::rt::os
