// Sockets: thin system calls whose errors are values, and the kernel's form of addresses.
//
// Every socket made here is non-blocking and close-on-exec, none of the calls raises SIGPIPE, and
// EINTR is retried as in os/fd.h. What would block says EAGAIN.
#pragma once

#include <magpie/detail/raw_address.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "os/error.h"
#include "os/fd.h"

namespace magpie::rt::os {

using magpie::detail::raw_address;

// ---- Addresses --------------------------------------------------------------------------------

enum class address_family : std::uint8_t {
  none,
  ipv4,
  ipv6,
  local,  // a unix socket
};

address_family family_of(const raw_address&) noexcept;

// "127.0.0.1", "::1" or "fe80::1%eth0", without brackets. EINVAL: it is no such thing.
error parse_ip(std::string_view host, std::uint16_t port, raw_address& out) noexcept;

// All interfaces of this machine; with ipv6, those of IPv4 too.
raw_address any_ip(address_family, std::uint16_t port) noexcept;
raw_address loopback(address_family, std::uint16_t port) noexcept;

// The host alone, without brackets. Empty for other addresses.
std::string print_ip(const raw_address&);
std::uint16_t port_of(const raw_address&) noexcept;  // 0 where there is none

// A path in the file system, or "@name" for one that is in none. ENAMETOOLONG, EINVAL.
error make_local(std::string_view path, raw_address& out) noexcept;
std::string print_local(const raw_address&);

// An IPv4 address as a socket of IPv6 sees it, and back. Others stay as they are.
raw_address mapped_to_ipv6(const raw_address&) noexcept;
raw_address unmapped(const raw_address&) noexcept;

// ---- Making and asking ------------------------------------------------------------------------

enum class socket_kind : std::uint8_t {
  stream,
  datagram,
};

result<file_descriptor> make_socket(address_family, socket_kind) noexcept;

error bind(int fd, const raw_address&) noexcept;
// A local socket that has no name yet: the file that bind() makes has mode 0600.
error keep_to_owner(int fd) noexcept;
error listen(int fd, int backlog) noexcept;

// A largest backlog: the kernel cuts it to what it is set to.
int max_backlog() noexcept;

// `peer` is unmapped().
result<file_descriptor> accept(int fd, raw_address& peer) noexcept;

// EINPROGRESS: it goes on; once the socket is writable pending_error() has the outcome. A socket
// of a unix address says EAGAIN when the listener's queue is full, and nothing tells when it is
// not.
error connect(int fd, const raw_address&) noexcept;

// The error that waits in the socket, taken out of it.
error pending_error(int fd) noexcept;

// Unmapped. ENOTCONN: the socket has no peer (yet).
error name_of_peer(int fd, raw_address& out) noexcept;
error name_of_socket(int fd, raw_address& out) noexcept;

enum class socket_option : std::uint8_t {
  reuse_address,
  reuse_port,
  only_ipv6,
  no_delay,
  keep_alive,
};
error set_option(int fd, socket_option, int value) noexcept;

error shut_down_write(int fd) noexcept;

// Removes a file of the file system, such as that of a unix socket.
error remove_file(const char* path) noexcept;

// ---- Bytes ------------------------------------------------------------------------------------

// May transfer less than all. A stream that receives 0 bytes has ended.
result<std::size_t> receive(int fd, std::span<std::byte> buffer) noexcept;
result<std::size_t> send(int fd, std::span<const std::byte> bytes) noexcept;

// The pieces one behind the other, without the first `skip` bytes of the first piece. Takes the
// first few of the pieces at most.
result<std::size_t> send(int fd, std::span<const std::span<const std::byte>> pieces,
                         std::size_t skip) noexcept;

// Datagrams: what does not fit into the buffer is lost. `from` is unmapped().
result<std::size_t> receive_from(int fd, std::span<std::byte> buffer, raw_address& from) noexcept;
result<std::size_t> send_to(int fd, std::span<const std::byte> bytes, const raw_address&) noexcept;

}  // namespace magpie::rt::os
