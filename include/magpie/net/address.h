// Where a socket is: an IP address and a port, or the path of a unix socket.
//
//   net::address::parse("127.0.0.1:80")
//   net::address::parse("[::1]:80")          also "[fe80::1%eth0]:80"
//   net::address::parse("unix:/run/x")       "unix:@x" is a name that is not in the file system
//
// Names of hosts are for resolve() in <magpie/net/resolve.h>.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include <magpie/detail/raw_address.h>
#include <magpie/export.h>

namespace magpie::net {

// A value. An IPv4 address that the kernel shows as an IPv6 one ("::ffff:1.2.3.4") is an IPv4
// address here.
class MAGPIE_API address {
 public:
  address() noexcept = default;  // nowhere: prints as ""

  // The forms above; the port may not be left out. Otherwise std::errc::invalid_argument.
  static address parse(std::string_view text);
  static address parse(std::string_view text, std::error_code&);

  // In the form that parse() reads.
  std::string to_string() const;

  std::uint16_t port() const noexcept;  // 0: it has none
  std::string host() const;             // without port and brackets; a unix socket's path

  bool is_ipv4() const noexcept;
  bool is_ipv6() const noexcept;
  bool is_unix() const noexcept;

  friend MAGPIE_API bool operator==(const address&, const address&) noexcept;

  // Not for users.
  explicit address(const detail::raw_address& raw) noexcept : raw_(raw) {}
  const detail::raw_address& raw() const noexcept { return raw_; }

 private:
  detail::raw_address raw_;
};

}  // namespace magpie::net
