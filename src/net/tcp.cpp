#include <magpie/net/tcp.h>

#include "net/host_port.h"
#include "net/socket_state.h"

namespace magpie::net {

using namespace rt;

namespace {

void set_option(socket_state* socket, os::socket_option option, bool on, std::error_code& ec) {
  const question asked(io_of(socket));
  ec = asked.error();
  if (!ec) ec = from_kernel(os::set_option(asked.fd(), option, on ? 1 : 0));
}

}  // namespace

// ---- tcp_stream -------------------------------------------------------------------------------

tcp_stream tcp_stream::connect(std::string_view host_port, duration timeout, std::error_code& ec) {
  const os::nanos deadline = deadline_in(timeout);
  const std::vector<address> places = places_of(host_port, purpose::connect, deadline, ec);
  if (ec) return {};
  return tcp_stream(connect_first(places, deadline, ec).release());
}

tcp_stream tcp_stream::connect(std::string_view host_port, duration timeout) {
  std::error_code ec;
  tcp_stream made = connect(host_port, timeout, ec);
  throw_if(ec, "connect", host_port);
  return made;
}

tcp_stream tcp_stream::connect(const address& to, duration timeout, std::error_code& ec) {
  return tcp_stream(connect_stream(to, deadline_in(timeout), ec).release());
}

tcp_stream tcp_stream::connect(const address& to, duration timeout) {
  std::error_code ec;
  tcp_stream made = connect(to, timeout, ec);
  throw_if(ec, "connect", to.to_string());
  return made;
}

void tcp_stream::set_no_delay(bool on, std::error_code& ec) {
  set_option(state_, os::socket_option::no_delay, on, ec);
}

void tcp_stream::set_no_delay(bool on) {
  std::error_code ec;
  set_no_delay(on, ec);
  throw_if(ec, "set no delay", peer_of(state_));
}

void tcp_stream::set_keep_alive(bool on, std::error_code& ec) {
  set_option(state_, os::socket_option::keep_alive, on, ec);
}

void tcp_stream::set_keep_alive(bool on) {
  std::error_code ec;
  set_keep_alive(on, ec);
  throw_if(ec, "set keep alive", peer_of(state_));
}

// ---- tcp_listener -----------------------------------------------------------------------------

tcp_listener tcp_listener::listen(std::string_view host_port, listen_options options,
                                  std::error_code& ec) {
  const std::vector<address> places =
      places_of(host_port, purpose::listen, never.time_since_epoch().count(), ec);
  if (ec) return {};
  for (const address& place : places) {
    tcp_listener made = listen(place, options, ec);
    // No host was named, and there is no IPv6 here.
    const bool other_kind = ec.value() == EAFNOSUPPORT || ec.value() == EADDRNOTAVAIL;
    if (!ec || !other_kind) return made;
  }
  return {};
}

tcp_listener tcp_listener::listen(std::string_view host_port, listen_options options) {
  std::error_code ec;
  tcp_listener made = listen(host_port, options, ec);
  throw_if(ec, "listen", host_port);
  return made;
}

tcp_listener tcp_listener::listen(const address& at, listen_options options, std::error_code& ec) {
  if (!at.is_ipv4() && !at.is_ipv6()) {
    ec = make_error_code(std::errc::address_family_not_supported);
    return {};
  }
  return tcp_listener(
      listen_at(at, {options.backlog, options.reuse_port, options.owner_only}, ec).release());
}

tcp_listener tcp_listener::listen(const address& at, listen_options options) {
  std::error_code ec;
  tcp_listener made = listen(at, options, ec);
  throw_if(ec, "listen", at.to_string());
  return made;
}

tcp_stream tcp_listener::accept(std::error_code& ec) {
  std::unique_ptr<socket_state> accepted = accept_from(state_, ec);
  if (accepted != nullptr) set_up_tcp(*accepted);
  return tcp_stream(accepted.release());
}

tcp_stream tcp_listener::accept() {
  std::error_code ec;
  tcp_stream accepted = accept(ec);
  throw_if(ec, "accept", ec && *this ? name_of(state_) : std::string());
  return accepted;
}

}  // namespace magpie::net
