// Names of hosts to addresses.
#pragma once

#include <string_view>
#include <system_error>
#include <vector>

#include <magpie/export.h>
#include <magpie/net/address.h>

namespace magpie::net {

// All addresses of the host, best first, with the port of the service, which is a number or a name
// such as "http". An empty host is this machine. Asks what the system is set up to ask, by
// getaddrinfo; meanwhile other goroutines run. Nothing is remembered from one call to the next.
//
// A failure is a std::system_error in resolve_category(): a name that is not known compares equal
// to std::errc::address_not_available, a server that does not answer to
// std::errc::resource_unavailable_try_again.
MAGPIE_API std::vector<address> resolve(std::string_view host, std::string_view service);
MAGPIE_API std::vector<address> resolve(std::string_view host, std::string_view service,
                                        std::error_code&);

// The codes are those of getaddrinfo (EAI_NONAME and so on).
MAGPIE_API const std::error_category& resolve_category() noexcept;

}  // namespace magpie::net
