// Files by their path. Everything here may block for as long as the disk likes.
#pragma once

#include <cstdint>

#include "os/error.h"
#include "os/fd.h"

namespace magpie::rt::os {

struct open_wishes {
  bool read = false;
  bool write = false;
  bool create = false;
  bool truncate = false;
  bool append = false;
  bool exclusive = false;
  bool nonblocking = false;  // also the opening, of a pipe say that nobody reads: it fails
};

result<file_descriptor> open_path(const char* path, open_wishes, unsigned permissions) noexcept;

result<std::uint64_t> size_of(int fd) noexcept;
error truncate(int fd, std::uint64_t size) noexcept;
error sync(int fd) noexcept;
// Of what has permissions that mean something; nothing is done to a device or a pipe.
error set_permissions_of_file(int fd, unsigned permissions) noexcept;

// Whether one can wait for it, as for a pipe or a terminal; files and directories are always ready.
bool is_waitable(int fd) noexcept;

}  // namespace magpie::rt::os
