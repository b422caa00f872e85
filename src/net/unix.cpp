#include <magpie/net/unix.h>

#include "net/socket_state.h"

namespace magpie::net {

using namespace rt;

namespace {

address address_of(std::string_view path, std::error_code& ec) {
  constexpr std::string_view k_unix = "unix:";
  if (path.starts_with(k_unix)) path.remove_prefix(k_unix.size());
  os::raw_address at;
  ec = from_kernel(os::make_local(path, at));
  return address(at);
}

}  // namespace

// ---- unix_stream ------------------------------------------------------------------------------

unix_stream unix_stream::connect(const address& to, duration timeout, std::error_code& ec) {
  if (!to.is_unix()) {
    ec = make_error_code(std::errc::address_family_not_supported);
    return {};
  }
  return unix_stream(connect_stream(to, deadline_in(timeout), ec).release());
}

unix_stream unix_stream::connect(const address& to, duration timeout) {
  std::error_code ec;
  unix_stream made = connect(to, timeout, ec);
  throw_if(ec, "connect", to.to_string());
  return made;
}

unix_stream unix_stream::connect(std::string_view path, duration timeout, std::error_code& ec) {
  const address to = address_of(path, ec);
  return ec ? unix_stream() : connect(to, timeout, ec);
}

unix_stream unix_stream::connect(std::string_view path, duration timeout) {
  std::error_code ec;
  unix_stream made = connect(path, timeout, ec);
  throw_if(ec, "connect", path);
  return made;
}

void unix_stream::set_no_delay(bool, std::error_code& ec) {
  const question asked(io_of(state_));
  ec = asked.error();
}

void unix_stream::set_no_delay(bool on) {
  std::error_code ec;
  set_no_delay(on, ec);
  throw_if(ec, "set no delay", peer_of(state_));
}

// ---- unix_listener ----------------------------------------------------------------------------

unix_listener unix_listener::listen(const address& at, listen_options options,
                                    std::error_code& ec) {
  if (!at.is_unix()) {
    ec = make_error_code(std::errc::address_family_not_supported);
    return {};
  }
  return unix_listener(
      listen_at(at, {options.backlog, options.reuse_port, options.owner_only}, ec).release());
}

unix_listener unix_listener::listen(const address& at, listen_options options) {
  std::error_code ec;
  unix_listener made = listen(at, options, ec);
  throw_if(ec, "listen", at.to_string());
  return made;
}

unix_listener unix_listener::listen(std::string_view path, listen_options options,
                                    std::error_code& ec) {
  const address at = address_of(path, ec);
  return ec ? unix_listener() : listen(at, options, ec);
}

unix_listener unix_listener::listen(std::string_view path, listen_options options) {
  std::error_code ec;
  unix_listener made = listen(path, options, ec);
  throw_if(ec, "listen", path);
  return made;
}

unix_stream unix_listener::accept(std::error_code& ec) {
  return unix_stream(accept_from(state_, ec).release());
}

unix_stream unix_listener::accept() {
  std::error_code ec;
  unix_stream accepted = accept(ec);
  throw_if(ec, "accept", ec && *this ? name_of(state_) : std::string());
  return accepted;
}

}  // namespace magpie::net
