// Names to addresses, by whatever this machine is set up to ask: files, DNS, others.
#pragma once

#include <magpie/detail/raw_address.h>

#include <vector>

#include "os/error.h"

namespace magpie::rt::os {

struct resolution {
  int failure = 0;  // one of getaddrinfo's, 0 for none
  error system;     // its errno, where the failure is "see errno"
  std::vector<magpie::detail::raw_address> addresses;
};

// Both null-terminated; an empty service is port 0. Blocks for as long as it likes, allocates.
resolution resolve(const char* host, const char* service);

// In words. The text stays.
const char* resolve_failure_text(int failure) noexcept;

// The failure "there is no such name", "it may work later" and "see errno".
bool is_not_found(int failure) noexcept;
bool is_temporary(int failure) noexcept;
bool is_system(int failure) noexcept;

}  // namespace magpie::rt::os
