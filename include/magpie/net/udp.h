// UDP: datagrams, each for itself; they may be lost, doubled or come in another order.
//
// Errors, deadlines and what may be done at the same time: <magpie/net/socket.h>.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <system_error>

#include <magpie/detail/duration.h>
#include <magpie/export.h>
#include <magpie/net/address.h>
#include <magpie/net/socket.h>

namespace magpie::net {

class MAGPIE_API udp_socket : public socket {
 public:
  udp_socket() noexcept = default;

  // Receives what is sent to "host:port": as for tcp_listener::listen().
  static udp_socket bind(std::string_view host_port);
  static udp_socket bind(std::string_view host_port, std::error_code&);
  static udp_socket bind(const address&);
  static udp_socket bind(const address&, std::error_code&);

  // For one peer: send() and receive(). Nothing is sent by that; whether there is somebody shows
  // later, as std::errc::connection_refused of either.
  static udp_socket connect(std::string_view host_port);
  static udp_socket connect(std::string_view host_port, std::error_code&);
  static udp_socket connect(const address&);
  static udp_socket connect(const address&, std::error_code&);

  std::size_t send_to(std::span<const std::byte> datagram, const address& to);
  std::size_t send_to(std::span<const std::byte> datagram, const address& to, std::error_code&);
  std::size_t send_to(const void* datagram, std::size_t size, const address& to) {
    return send_to(bytes_at(datagram, size), to);
  }
  std::size_t send_to(const void* datagram, std::size_t size, const address& to,
                      std::error_code& ec) {
    return send_to(bytes_at(datagram, size), to, ec);
  }

  // Waits for a datagram and returns its size, which may be 0. What does not fit is lost.
  std::size_t receive_from(std::span<std::byte> into, address& from);
  std::size_t receive_from(std::span<std::byte> into, address& from, std::error_code&);
  std::size_t receive_from(void* into, std::size_t size, address& from) {
    return receive_from(bytes_at(into, size), from);
  }
  std::size_t receive_from(void* into, std::size_t size, address& from, std::error_code& ec) {
    return receive_from(bytes_at(into, size), from, ec);
  }

  std::size_t send(std::span<const std::byte> datagram);
  std::size_t send(std::span<const std::byte> datagram, std::error_code&);
  std::size_t send(const void* datagram, std::size_t size) {
    return send(bytes_at(datagram, size));
  }
  std::size_t send(const void* datagram, std::size_t size, std::error_code& ec) {
    return send(bytes_at(datagram, size), ec);
  }

  std::size_t receive(std::span<std::byte> into);
  std::size_t receive(std::span<std::byte> into, std::error_code&);
  std::size_t receive(void* into, std::size_t size) { return receive(bytes_at(into, size)); }
  std::size_t receive(void* into, std::size_t size, std::error_code& ec) {
    return receive(bytes_at(into, size), ec);
  }

  void set_read_deadline(time_point) noexcept;
  void set_write_deadline(time_point) noexcept;

  // That of connect(), otherwise nowhere.
  address remote_address() const;

 private:
  explicit udp_socket(detail::socket_state* state) noexcept : socket(state) {}
  static std::span<std::byte> bytes_at(void* at, std::size_t size) {
    return {static_cast<std::byte*>(at), size};
  }
  static std::span<const std::byte> bytes_at(const void* at, std::size_t size) {
    return {static_cast<const std::byte*>(at), size};
  }
};

}  // namespace magpie::net
