// File descriptors: one owner each, and thin system calls whose errors are values.
//
// Everything made here is close-on-exec. The calls retry EINTR, because a signal that interrupts
// them is the runtime's own business (preemption), never the caller's. They may block: above
// sched/ they are used on non-blocking descriptors only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "os/clock.h"
#include "os/error.h"

namespace magpie::rt::os {

// Owns a descriptor, closes it when destroyed.
class file_descriptor {
 public:
  file_descriptor() = default;
  explicit file_descriptor(int fd) noexcept : fd_(fd) {}
  file_descriptor(file_descriptor&& other) noexcept : fd_(other.release()) {}
  file_descriptor& operator=(file_descriptor&& other) noexcept {
    if (this != &other) {
      (void)close();
      fd_ = other.release();
    }
    return *this;
  }
  ~file_descriptor() { (void)close(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, k_none); }

  // Whatever it returns, the descriptor is gone: Linux frees the number even when close reports
  // EINTR, and closing again could hit a file that another thread has opened since. An error
  // still matters to writers: it may be the only news of a failed delayed write (NFS, quota).
  // Closing nothing is no error.
  error close() noexcept;

 private:
  static constexpr int k_none = -1;

  int fd_ = k_none;
};

enum class fd_mode {
  blocking,
  nonblocking,
};

// `flags` and `permissions` as for open(2).
result<file_descriptor> open_file(const char* path, int flags, unsigned permissions = 0) noexcept;

// May transfer less than the whole buffer; a read of 0 bytes is the end of the file.
// Signal-safe, all four. An offset of -1 is the file's own position.
result<std::size_t> read(int fd, std::span<std::byte> buffer) noexcept;
result<std::size_t> write(int fd, std::span<const std::byte> bytes) noexcept;
result<std::size_t> pread(int fd, std::span<std::byte> buffer, std::int64_t offset) noexcept;
result<std::size_t> pwrite(int fd, std::span<const std::byte> bytes, std::int64_t offset) noexcept;

// The same for what needs no waiting for a disk: EAGAIN when it does, EOPNOTSUPP where the file
// system cannot tell.
result<std::size_t> pread_at_once(int fd, std::span<std::byte> buffer,
                                  std::int64_t offset) noexcept;
result<std::size_t> pwrite_at_once(int fd, std::span<const std::byte> bytes,
                                   std::int64_t offset) noexcept;

struct pipe_ends {
  file_descriptor read_end;
  file_descriptor write_end;
};

result<pipe_ends> make_pipe(fd_mode mode = fd_mode::blocking) noexcept;
result<file_descriptor> make_eventfd(fd_mode mode, unsigned initial_count = 0) noexcept;
error set_nonblocking(int fd) noexcept;

enum class readiness {
  to_read,
  to_write,
};
// Whether the call in question would not block; does not wait. EBADF: no descriptor.
result<bool> is_ready(int fd, readiness) noexcept;
// The same, after waiting until it is so or the deadline (a time of now()) has passed.
result<bool> wait_ready(int fd, readiness, nanos deadline) noexcept;

}  // namespace magpie::rt::os
