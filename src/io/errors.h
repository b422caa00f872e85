// How failures reach the caller: as codes inside, as exceptions with a text at the surface.
#pragma once

#include <string_view>
#include <system_error>

#include "os/error.h"

namespace magpie::rt {

// What the kernel said.
inline std::error_code from_kernel(os::error failure) {
  return {failure.code, std::system_category()};
}

// What the library itself says: the deadline has passed, the object is closed. Of another category,
// so that a connection that the kernel gave up (ETIMEDOUT, too) can be told from a deadline.
inline std::error_code from_library(int code) { return {code, std::generic_category()}; }
inline std::error_code deadline_passed() { return make_error_code(std::errc::timed_out); }
inline std::error_code object_closed() { return make_error_code(std::errc::operation_canceled); }

// "operation subject: text of the code"; without an error it returns.
void throw_if(const std::error_code&, const char* operation, std::string_view subject);

}  // namespace magpie::rt
