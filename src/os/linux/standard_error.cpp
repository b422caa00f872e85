// The one way out for reports and dumps.
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "base/print.h"

namespace magpie::rt {

// Gives up at the first error, because there is nobody left to tell. Callers may sit in a signal
// handler between a system call and its caller's look at errno, so errno is put back.
void write_error_text(const char* text, std::size_t size) noexcept {
  const int saved_errno = errno;
  while (size != 0) {
    const ssize_t written = ::write(STDERR_FILENO, text, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    text += written;
    size -= static_cast<std::size_t>(written);
  }
  errno = saved_errno;
}

}  // namespace magpie::rt
