#include <magpie/blocking.h>
#include <magpie/net/resolve.h>

#include <string>

#include "io/errors.h"
#include "net/host_port.h"
#include "os/resolve.h"
#include "os/socket.h"

namespace magpie::net {

using namespace rt;

namespace {

class category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "magpie.resolve"; }
  std::string message(int code) const override { return os::resolve_failure_text(code); }
  std::error_condition default_error_condition(int code) const noexcept override {
    if (os::is_not_found(code)) return std::errc::address_not_available;
    if (os::is_temporary(code)) return std::errc::resource_unavailable_try_again;
    return {code, *this};
  }
};

}  // namespace

const std::error_category& resolve_category() noexcept {
  static const category the_one;
  return the_one;
}

std::vector<address> resolve(std::string_view host, std::string_view service, std::error_code& ec) {
  ec.clear();
  std::uint16_t port = 0;
  os::raw_address ip;
  if (parse_port(service, port) && !os::parse_ip(host, port, ip)) return {address(ip)};
  const std::string host_text(host.empty() ? "localhost" : host);
  const std::string service_text(service);
  // The P goes at once: who asks a server waits longer than it takes to hand it on.
  const os::resolution found =
      blocking(hand_off_now, [&] { return os::resolve(host_text.c_str(), service_text.c_str()); });
  if (found.failure != 0) {
    ec = os::is_system(found.failure) ? from_kernel(found.system)
                                      : std::error_code(found.failure, resolve_category());
    return {};
  }
  return {found.addresses.begin(), found.addresses.end()};
}

std::vector<address> resolve(std::string_view host, std::string_view service) {
  std::error_code ec;
  std::vector<address> found = resolve(host, service, ec);
  throw_if(ec, "resolve", std::string(host).append(":").append(service));
  return found;
}

}  // namespace magpie::net
