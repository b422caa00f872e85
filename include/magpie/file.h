// Files.
//
//   auto log = magpie::file::open("log.txt", open_mode::write | open_mode::create);
//   log.write("hello\n", 6);
//
// Whatever the disk does, other goroutines go on. Errors are std::system_error, whose text names
// the operation and the path, as in "open /etc/shadow: Permission denied". Every call that may
// fail has an overload with a trailing std::error_code& that does not throw; it returns 0 or an
// empty object then. An operation on a file that is closed, or closed meanwhile, gives
// std::errc::operation_canceled; what runs in the kernel already is not interrupted by that.
//
// A file is move-only and closed when destroyed. A default-constructed or moved-from one is as a
// closed one. Members may be called from several goroutines at a time, but for the destructor and
// moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include <magpie/export.h>

namespace magpie {

// A set, combined by |.
enum class open_mode : unsigned {
  read = 1,
  write = 2,
  create = 4,      // unless it is there
  truncate = 8,    // what was in it is gone
  append = 16,     // every write goes to the end; implies write
  exclusive = 32,  // with create: std::errc::file_exists if it is there
};

constexpr open_mode operator|(open_mode a, open_mode b) noexcept {
  return open_mode{static_cast<unsigned>(a) | static_cast<unsigned>(b)};
}
constexpr open_mode operator&(open_mode a, open_mode b) noexcept {
  return open_mode{static_cast<unsigned>(a) & static_cast<unsigned>(b)};
}

namespace detail {
struct file_state;  // src/fs/file.cpp
}  // namespace detail

class MAGPIE_API file {
 public:
  file() noexcept = default;
  file(file&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  file& operator=(file&& other) noexcept {
    file taken(std::move(other));
    std::swap(state_, taken.state_);
    return *this;
  }
  ~file();

  // The permissions are for a new file, cut by the process's umask.
  static file open(const std::filesystem::path&, open_mode = open_mode::read,
                   unsigned permissions = 0666);
  static file open(const std::filesystem::path&, open_mode, unsigned permissions, std::error_code&);
  static file open(const std::filesystem::path& path, open_mode mode, std::error_code& ec) {
    return open(path, mode, 0666, ec);
  }
  static file open(const std::filesystem::path& path, std::error_code& ec) {
    return open(path, open_mode::read, 0666, ec);
  }

  // At the file's own position, which moves on. Returns how much was read: 0 is the end.
  std::size_t read(std::span<std::byte> into);
  std::size_t read(std::span<std::byte> into, std::error_code&);
  std::size_t read(void* into, std::size_t size) { return read(bytes_at(into, size)); }
  std::size_t read(void* into, std::size_t size, std::error_code& ec) {
    return read(bytes_at(into, size), ec);
  }

  // All of it, and returns how much that is, or an error, when some of it may have been written.
  std::size_t write(std::span<const std::byte> bytes);
  std::size_t write(std::span<const std::byte> bytes, std::error_code&);
  std::size_t write(const void* bytes, std::size_t size) { return write(bytes_at(bytes, size)); }
  std::size_t write(const void* bytes, std::size_t size, std::error_code& ec) {
    return write(bytes_at(bytes, size), ec);
  }
  std::size_t write(std::string_view text) { return write(text.data(), text.size()); }
  std::size_t write(std::string_view text, std::error_code& ec) {
    return write(text.data(), text.size(), ec);
  }

  // At a position of the caller's; the file's own stays. Less than asked for: the file ends there.
  std::size_t read_at(std::span<std::byte> into, std::uint64_t offset);
  std::size_t read_at(std::span<std::byte> into, std::uint64_t offset, std::error_code&);
  std::size_t read_at(void* into, std::size_t size, std::uint64_t offset) {
    return read_at(bytes_at(into, size), offset);
  }
  std::size_t read_at(void* into, std::size_t size, std::uint64_t offset, std::error_code& ec) {
    return read_at(bytes_at(into, size), offset, ec);
  }

  // As write().
  std::size_t write_at(std::span<const std::byte> bytes, std::uint64_t offset);
  std::size_t write_at(std::span<const std::byte> bytes, std::uint64_t offset, std::error_code&);
  std::size_t write_at(const void* bytes, std::size_t size, std::uint64_t offset) {
    return write_at(bytes_at(bytes, size), offset);
  }
  std::size_t write_at(const void* bytes, std::size_t size, std::uint64_t offset,
                       std::error_code& ec) {
    return write_at(bytes_at(bytes, size), offset, ec);
  }

  std::uint64_t size() const;
  std::uint64_t size(std::error_code&) const;

  // Cuts it, or makes it longer with zeros.
  void truncate(std::uint64_t size);
  void truncate(std::uint64_t size, std::error_code&);

  // Until what was written is on the disk.
  void sync();
  void sync(std::error_code&);

  // A second time is harmless. What a disk has to complain about late comes from sync().
  void close() noexcept;

  int native_handle() const noexcept;       // -1 when there is none
  explicit operator bool() const noexcept;  // not closed

 private:
  explicit file(detail::file_state* state) noexcept : state_(state) {}
  static std::span<std::byte> bytes_at(void* at, std::size_t size) {
    return {static_cast<std::byte*>(at), size};
  }
  static std::span<const std::byte> bytes_at(const void* at, std::size_t size) {
    return {static_cast<const std::byte*>(at), size};
  }

  detail::file_state* state_ = nullptr;
};

}  // namespace magpie
