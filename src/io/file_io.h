// Reads, writes and syncs of files, which the kernel cannot be waited for in as for a socket.
//
// Three ways, the cheapest first. What is in the page cache is read at once, and the caller may
// have to give way to others as if it had waited. What is not is left to the kernel through the P's
// io_uring, and the goroutine parks. Where there is no io_uring, the call is made inside
// blocking(): the thread may block, its P goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "os/error.h"

namespace magpie::rt {

// As os::pread() and os::pwrite(): part of it may be done. An offset of -1 is the file's own
// position. Any thread.
os::result<std::size_t> read_file(int fd, std::span<std::byte> into, std::int64_t offset);
os::result<std::size_t> write_file(int fd, std::span<const std::byte> bytes, std::int64_t offset);
os::error sync_file(int fd);

// Of the caller's P, which may change at any time, or 0: where to keep what Ps should not share.
std::size_t number_of_p();

}  // namespace magpie::rt
