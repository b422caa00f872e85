#include "os/error.h"

#include <cstring>

namespace magpie::rt::os {

const char* error_name(error failure) {
  if (failure.code == 0) return "no error";
  const char* const name = strerrorname_np(failure.code);  // a table look-up: no locale, no lock
  return name != nullptr ? name : "error";
}

}  // namespace magpie::rt::os
