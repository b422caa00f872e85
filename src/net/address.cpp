#include <magpie/net/address.h>

#include <cstring>

#include "io/errors.h"
#include "net/host_port.h"
#include "os/socket.h"

namespace magpie::net {

using namespace rt;

namespace {

constexpr std::string_view k_unix = "unix:";

}  // namespace

address address::parse(std::string_view text, std::error_code& ec) {
  ec.clear();
  address parsed;
  os::error failure;
  if (text.starts_with(k_unix)) {
    failure = os::make_local(text.substr(k_unix.size()), parsed.raw_);
  } else {
    const host_port parts = split_host_port(text, ec);
    std::uint16_t port = 0;
    if (ec) return {};
    failure = parse_port(parts.port, port) ? os::parse_ip(parts.host, port, parsed.raw_)
                                           : os::error{EINVAL};
    // Brackets are for those that have colons of their own.
    const bool bracketed = text.starts_with('[');
    if (!failure && bracketed != (parts.host.find(':') != parts.host.npos)) failure = {EINVAL};
  }
  if (!failure) return parsed;
  ec = from_kernel(failure);
  return {};
}

address address::parse(std::string_view text) {
  std::error_code ec;
  const address parsed = parse(text, ec);
  throw_if(ec, "parse address", text);
  return parsed;
}

std::string address::to_string() const {
  switch (os::family_of(raw_)) {
    case os::address_family::ipv4:
      return host() + ":" + std::to_string(port());
    case os::address_family::ipv6:
      return "[" + host() + "]:" + std::to_string(port());
    case os::address_family::local:
      return std::string(k_unix) + host();
    case os::address_family::none:
      break;
  }
  return {};
}

std::uint16_t address::port() const noexcept { return os::port_of(raw_); }

std::string address::host() const { return is_unix() ? os::print_local(raw_) : os::print_ip(raw_); }

bool address::is_ipv4() const noexcept { return os::family_of(raw_) == os::address_family::ipv4; }
bool address::is_ipv6() const noexcept { return os::family_of(raw_) == os::address_family::ipv6; }
bool address::is_unix() const noexcept { return os::family_of(raw_) == os::address_family::local; }

bool operator==(const address& a, const address& b) noexcept {
  return a.raw_.size == b.raw_.size && std::memcmp(a.raw_.bytes, b.raw_.bytes, a.raw_.size) == 0;
}

}  // namespace magpie::net
