#include <magpie/net/udp.h>

#include "net/host_port.h"
#include "net/socket_state.h"

namespace magpie::net {

using namespace rt;

namespace {

bool is_ip(const address& a) { return a.is_ipv4() || a.is_ipv6(); }

// A datagram socket that has been told its own address or that of its peer, by `introduce`.
template <class Introduce>
std::unique_ptr<socket_state> make_datagram_socket(const address& whose, std::error_code& ec,
                                                   Introduce introduce) {
  if (!is_ip(whose)) {
    ec = make_error_code(std::errc::address_family_not_supported);
    return nullptr;
  }
  const os::address_family family = os::family_of(whose.raw());
  os::result<os::file_descriptor> made = os::make_socket(family, os::socket_kind::datagram);
  if (!made) {
    ec = from_kernel(made.error());
    return nullptr;
  }
  if (family == os::address_family::ipv6) {
    (void)os::set_option(made->get(), os::socket_option::only_ipv6, 0);  // best effort
  }
  if (const os::error failure = introduce(made->get(), whose.raw())) {
    ec = from_kernel(failure);
    return nullptr;
  }
  return make_socket_state(std::move(*made), ec);
}

// The first of the places that works.
template <class Make>
udp_socket at_first(std::string_view host_port, purpose why, std::error_code& ec, Make make) {
  const std::vector<address> places =
      places_of(host_port, why, never.time_since_epoch().count(), ec);
  if (ec) return {};
  for (const address& place : places) {
    udp_socket made = make(place, ec);
    if (!ec) return made;
  }
  return {};
}

}  // namespace

udp_socket udp_socket::bind(const address& at, std::error_code& ec) {
  std::unique_ptr<socket_state> made = make_datagram_socket(at, ec, os::bind);
  if (made != nullptr) made->io->claim_address();
  return udp_socket(made.release());
}

udp_socket udp_socket::bind(const address& at) {
  std::error_code ec;
  udp_socket made = bind(at, ec);
  throw_if(ec, "bind", at.to_string());
  return made;
}

udp_socket udp_socket::bind(std::string_view host_port, std::error_code& ec) {
  return at_first(host_port, purpose::listen, ec,
                  [](const address& at, std::error_code& why_not) { return bind(at, why_not); });
}

udp_socket udp_socket::bind(std::string_view host_port) {
  std::error_code ec;
  udp_socket made = bind(host_port, ec);
  throw_if(ec, "bind", host_port);
  return made;
}

udp_socket udp_socket::connect(const address& to, std::error_code& ec) {
  std::unique_ptr<socket_state> made = make_datagram_socket(to, ec, os::connect);
  if (made != nullptr) made->peer = to;
  return udp_socket(made.release());
}

udp_socket udp_socket::connect(const address& to) {
  std::error_code ec;
  udp_socket made = connect(to, ec);
  throw_if(ec, "connect", to.to_string());
  return made;
}

udp_socket udp_socket::connect(std::string_view host_port, std::error_code& ec) {
  return at_first(host_port, purpose::connect, ec,
                  [](const address& to, std::error_code& why_not) { return connect(to, why_not); });
}

udp_socket udp_socket::connect(std::string_view host_port) {
  std::error_code ec;
  udp_socket made = connect(host_port, ec);
  throw_if(ec, "connect", host_port);
  return made;
}

std::size_t udp_socket::send_to(std::span<const std::byte> datagram, const address& to,
                                std::error_code& ec) {
  if (!is_ip(to)) {
    ec = make_error_code(std::errc::address_family_not_supported);
    return 0;
  }
  operation sending(io_of(state_), direction::write);
  return sending.transfer(ec, [&](int fd) {
    const os::result<std::size_t> sent = os::send_to(fd, datagram, to.raw());
    // A socket of IPv6 wants an IPv4 address in its own form.
    const bool maybe_mapped = !sent && to.is_ipv4() &&
                              (sent.error().code == EINVAL || sent.error().code == EAFNOSUPPORT ||
                               sent.error().code == ENETUNREACH);
    return maybe_mapped ? os::send_to(fd, datagram, os::mapped_to_ipv6(to.raw())) : sent;
  });
}

std::size_t udp_socket::send_to(std::span<const std::byte> datagram, const address& to) {
  std::error_code ec;
  const std::size_t sent = send_to(datagram, to, ec);
  throw_if(ec, "send to", ec ? to.to_string() : std::string());
  return sent;
}

std::size_t udp_socket::receive_from(std::span<std::byte> into, address& from,
                                     std::error_code& ec) {
  os::raw_address sender;
  operation receiving(io_of(state_), direction::read);
  const std::size_t got =
      receiving.transfer(ec, [&](int fd) { return os::receive_from(fd, into, sender); });
  if (!ec) from = address(sender);
  return got;
}

std::size_t udp_socket::receive_from(std::span<std::byte> into, address& from) {
  std::error_code ec;
  const std::size_t got = receive_from(into, from, ec);
  throw_if(ec, "receive", ec && *this ? name_of(state_) : std::string());
  return got;
}

std::size_t udp_socket::send(std::span<const std::byte> datagram, std::error_code& ec) {
  operation sending(io_of(state_), direction::write);
  return sending.transfer(ec, [&](int fd) { return os::send(fd, datagram); });
}

std::size_t udp_socket::send(std::span<const std::byte> datagram) {
  std::error_code ec;
  const std::size_t sent = send(datagram, ec);
  throw_if(ec, "send", ec ? peer_of(state_) : std::string());
  return sent;
}

std::size_t udp_socket::receive(std::span<std::byte> into, std::error_code& ec) {
  operation receiving(io_of(state_), direction::read);
  return receiving.transfer(ec, [&](int fd) { return os::receive(fd, into); });
}

std::size_t udp_socket::receive(std::span<std::byte> into) {
  std::error_code ec;
  const std::size_t got = receive(into, ec);
  throw_if(ec, "receive", ec ? peer_of(state_) : std::string());
  return got;
}

void udp_socket::set_read_deadline(time_point deadline) noexcept {
  if (state_ != nullptr) state_->io->set_deadline(direction::read, to_nanos(deadline));
}

void udp_socket::set_write_deadline(time_point deadline) noexcept {
  if (state_ != nullptr) state_->io->set_deadline(direction::write, to_nanos(deadline));
}

address udp_socket::remote_address() const { return state_ != nullptr ? state_->peer : address(); }

}  // namespace magpie::net
