#include "os/resolve.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace magpie::rt::os {

resolution resolve(const char* host, const char* service) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;  // or every address comes once for each kind of socket
  addrinfo* first = nullptr;
  resolution found;
  found.failure = ::getaddrinfo(host, *service != 0 ? service : nullptr, &hints, &first);
  if (found.failure != 0) {
    found.system = {errno};
    return found;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> freed(first, ::freeaddrinfo);
  for (const addrinfo* each = first; each != nullptr; each = each->ai_next) {
    magpie::detail::raw_address address;
    if (each->ai_addrlen > magpie::detail::raw_address::k_capacity) continue;
    std::memcpy(address.bytes, each->ai_addr, each->ai_addrlen);
    address.size = each->ai_addrlen;
    const auto same = [&](const magpie::detail::raw_address& other) {
      return other.size == address.size && std::memcmp(other.bytes, address.bytes, other.size) == 0;
    };
    if (std::none_of(found.addresses.begin(), found.addresses.end(), same)) {
      found.addresses.push_back(address);
    }
  }
  return found;
}

const char* resolve_failure_text(int failure) noexcept { return ::gai_strerror(failure); }
bool is_not_found(int failure) noexcept {
  return failure == EAI_NONAME || failure == EAI_NODATA || failure == EAI_SERVICE;
}
bool is_temporary(int failure) noexcept { return failure == EAI_AGAIN; }
bool is_system(int failure) noexcept { return failure == EAI_SYSTEM; }

}  // namespace magpie::rt::os
