// What all sockets have in common, and what all streams have. Programs use tcp_stream, unix_stream
// and the others; functions that serve both may take a stream&.
//
// Whoever waits in a socket blocks only its goroutine, which costs no thread meanwhile; on a plain
// thread it blocks that.
//
// Errors are std::system_error, whose text names the operation and the peer, as in
// "read 10.0.0.7:80: Connection reset by peer". Every call that may fail has an overload with a
// trailing std::error_code& that does not throw; it returns 0 or an empty object then. Two errors
// are the library's own and of std::generic_category:
//
//   std::errc::timed_out            the deadline has passed
//   std::errc::operation_canceled   the socket is closed, or was closed meanwhile
//
// Sockets are move-only and closed when destroyed. A default-constructed or moved-from one is as a
// closed one. Members may be called from several goroutines at a time, but for the destructor and
// moves: a read and a write run side by side, several reads (or writes, or accepts) one after the
// other.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include <magpie/detail/duration.h>
#include <magpie/export.h>
#include <magpie/net/address.h>

namespace magpie::detail {
struct socket_state;  // src/net/socket_state.h
}  // namespace magpie::detail

namespace magpie::net {

class MAGPIE_API socket {
 public:
  // Whoever waits in it gets operation_canceled. When it returns they have left the socket, and its
  // address is free. A second time is harmless, and does not wait for the first.
  void close() noexcept;

  // Operations that have not ended by then fail with timed_out, those that wait already and those
  // that begin later; even if there is something to read. A later deadline, or `never`, makes the
  // socket usable again.
  void set_deadline(time_point) noexcept;

  address local_address() const;
  address local_address(std::error_code&) const;

  // The descriptor, -1 when there is none; it stays the socket's.
  int native_handle() const noexcept;

  // Not closed.
  explicit operator bool() const noexcept;

 protected:
  socket() noexcept = default;
  explicit socket(detail::socket_state* state) noexcept : state_(state) {}
  socket(socket&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  socket& operator=(socket&& other) noexcept {
    socket taken(std::move(other));
    std::swap(state_, taken.state_);
    return *this;
  }
  ~socket();

  detail::socket_state* state_ = nullptr;
};

// Bytes in order, in both directions.
class MAGPIE_API stream : public socket {
 public:
  stream() noexcept = default;
  stream(stream&&) noexcept = default;
  stream& operator=(stream&&) noexcept = default;

  // Waits until there is something and returns how much: at least 1 byte. 0: the peer has ended,
  // or there is no room in `into`.
  std::size_t read(std::span<std::byte> into);
  std::size_t read(std::span<std::byte> into, std::error_code&);
  std::size_t read(void* into, std::size_t size) { return read(bytes_at(into, size)); }
  std::size_t read(void* into, std::size_t size, std::error_code& ec) {
    return read(bytes_at(into, size), ec);
  }

  // All of it, and returns how much that is, or an error, when some of it may have been sent.
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

  // Gathered: the pieces one behind the other, as if they were one, without copying them together.
  void write(std::span<const std::span<const std::byte>> pieces);
  void write(std::span<const std::span<const std::byte>> pieces, std::error_code&);

  void set_read_deadline(time_point) noexcept;
  void set_write_deadline(time_point) noexcept;

  // The peer reads the end, when it has read everything before. Reading goes on.
  void shutdown_write();
  void shutdown_write(std::error_code&);

  // As it was when the connection was made, also after close().
  address remote_address() const;

 protected:
  explicit stream(detail::socket_state* state) noexcept : socket(state) {}

 private:
  static std::span<std::byte> bytes_at(void* at, std::size_t size) {
    return {static_cast<std::byte*>(at), size};
  }
  static std::span<const std::byte> bytes_at(const void* at, std::size_t size) {
    return {static_cast<const std::byte*>(at), size};
  }
};

struct listen_options {
  int backlog = 4096;       // connections that wait for accept(); SOMAXCONN, the kernel may cut it
  bool reuse_port = false;  // several listeners, of several processes too, share the connections
  bool owner_only = false;  // unix sockets: nobody but this user (and root) may connect
};

}  // namespace magpie::net
