#include "net/host_port.h"

#include <magpie/async.h>
#include <magpie/net/resolve.h>

#include <algorithm>
#include <utility>

#include "io/errors.h"
#include "os/socket.h"

namespace magpie::rt {
namespace {

using net::address;

std::vector<address> here(std::uint16_t port, purpose why) {
  using os::address_family;
  if (why == purpose::connect) {
    return {address(os::loopback(address_family::ipv4, port)),
            address(os::loopback(address_family::ipv6, port))};
  }
  return {address(os::any_ip(address_family::ipv6, port)),
          address(os::any_ip(address_family::ipv4, port))};
}

// Asking may take longer than the caller has time: then the answer comes too late, to a goroutine
// that nobody waits for.
std::vector<address> resolve_until(host_port parts, os::nanos deadline, std::error_code& ec) {
  using answer = std::pair<std::vector<address>, std::error_code>;
  const time_point end{duration(deadline)};
  if (end == never) return net::resolve(parts.host, parts.port, ec);
  future<answer> coming = async([host = std::string(parts.host), port = std::string(parts.port)] {
    answer got;
    got.first = net::resolve(host, port, got.second);
    return got;
  });
  if (!coming.wait_for(end - clock::now())) {
    ec = deadline_passed();
    return {};
  }
  answer got = coming.get();
  ec = got.second;
  return std::move(got.first);
}

}  // namespace

host_port split_host_port(std::string_view text, std::error_code& ec) {
  ec.clear();
  const std::size_t colon = text.rfind(':');
  host_port parts;
  bool good = colon != text.npos;
  if (good) {
    parts = {text.substr(0, colon), text.substr(colon + 1)};
    if (parts.host.starts_with('[')) {
      good = parts.host.size() > 2 && parts.host.ends_with(']');
      if (good) parts.host = parts.host.substr(1, parts.host.size() - 2);
    } else {
      good = parts.host.find(':') == text.npos;  // an IPv6 address needs brackets
    }
    good = good && !parts.port.empty() && parts.host.find_first_of("[]") == text.npos;
  }
  if (good) return parts;
  ec = make_error_code(std::errc::invalid_argument);
  return {};
}

bool parse_port(std::string_view text, std::uint16_t& out) {
  if (text.empty() || text.size() > 5) return false;
  std::uint32_t number = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return false;
    number = number * 10 + static_cast<std::uint32_t>(digit - '0');
  }
  out = static_cast<std::uint16_t>(number);
  return number <= 65535;
}

std::vector<address> places_of(std::string_view text, purpose why, os::nanos deadline,
                               std::error_code& ec) {
  const host_port parts = split_host_port(text, ec);
  if (ec) return {};
  std::uint16_t port = 0;
  os::raw_address ip;
  if (parse_port(parts.port, port)) {
    if (parts.host.empty()) return here(port, why);
    if (!os::parse_ip(parts.host, port, ip)) return {address(ip)};
  }
  std::vector<address> places;
  if (parts.host.empty()) {
    // A named service: any host will do to learn its port.
    places = resolve_until({"127.0.0.1", parts.port}, deadline, ec);
    return ec || places.empty() ? places : here(places.front().port(), why);
  }
  places = resolve_until(parts, deadline, ec);
  // One socket cannot listen on several; of both kinds the older one is what others can reach.
  if (why == purpose::listen) {
    std::stable_partition(places.begin(), places.end(),
                          [](const address& place) { return place.is_ipv4(); });
  }
  return places;
}

}  // namespace magpie::rt
