// A file as bytes in memory, to be read.
#pragma once

#include <cstddef>
#include <span>

namespace magpie::rt::os {

// Empty when it cannot be opened, or is no file. No heap, no lock. Signal-safe.
std::span<const std::byte> map_file(const char* path);
void unmap_file(std::span<const std::byte>);

}  // namespace magpie::rt::os
