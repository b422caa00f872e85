// "host:port" in its parts, and all the places it may mean.
#pragma once

#include <magpie/net/address.h>

#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "os/clock.h"

namespace magpie::rt {

struct host_port {
  std::string_view host;  // without brackets; may be empty
  std::string_view port;
};

// "h:p", "[h]:p" or ":p". invalid_argument: it is nothing of that kind.
host_port split_host_port(std::string_view text, std::error_code&);

// A decimal number up to 65535.
bool parse_port(std::string_view text, std::uint16_t& out);

enum class purpose {
  connect,  // no host: this machine
  listen,   // no host: all interfaces
};

// In the order in which they should be tried; not empty without an error. timed_out: names could
// not be resolved until the deadline.
std::vector<net::address> places_of(std::string_view text, purpose, os::nanos deadline,
                                    std::error_code&);

}  // namespace magpie::rt
