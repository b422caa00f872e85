// The one way out for reports and dumps.
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "base/atomic.h"
#include "base/print.h"
#include "os/clock.h"
#include "os/fd.h"

namespace magpie::rt {
namespace {

// For one who does not block, and has no room. A reader that is slow gets everything; one that has
// gone to sleep does not keep the process from ending.
constexpr os::nanos k_patience = 3'000'000'000;

// The last one has waited in vain: the next does not.
atomic<bool> g_nobody_reads{false};

bool has_room_soon() noexcept {
  const os::nanos patience = g_nobody_reads.load(relaxed) ? 0 : k_patience;  // relaxed: a hint
  const auto ready = os::wait_ready(STDERR_FILENO, os::readiness::to_write, os::now() + patience);
  const bool has_room = ready && *ready;
  g_nobody_reads.store(!has_room, relaxed);  // relaxed: as above
  return has_room;
}

}  // namespace

// Gives up at the first error, because there is nobody left to tell. Callers may sit in a signal
// handler between a system call and its caller's look at errno, so errno is put back.
void write_error_text(const char* text, std::size_t size) noexcept {
  const int saved_errno = errno;
  while (size != 0) {
    const ssize_t written = ::write(STDERR_FILENO, text, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN && has_room_soon()) continue;
    if (written <= 0) break;
    text += written;
    size -= static_cast<std::size_t>(written);
  }
  errno = saved_errno;
}

}  // namespace magpie::rt
