#include "os/patient_writer.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>

namespace magpie::rt::os {
namespace {

// The flag that says whether a descriptor blocks belongs to all who have it, in other processes
// too; one that is opened once more has its own. Not a file, which would be written from its start,
// nor a socket, which cannot be opened.
file_descriptor open_again_without_blocking(int fd) noexcept {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return {};
  if (!S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode)) return {};
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  auto again = open_file(path, O_WRONLY | O_NONBLOCK | O_NOCTTY);
  return again ? std::move(*again) : file_descriptor();
}

}  // namespace

patient_writer::patient_writer(int fd, nanos patience) noexcept
    : own_(patience == k_never ? file_descriptor() : open_again_without_blocking(fd)),
      fd_(own_ ? own_.get() : fd),
      patience_(patience) {}

bool patient_writer::write(std::span<const std::byte> bytes) noexcept {
  nanos deadline = next_deadline();
  while (!bytes.empty() && !given_up_) {
    const auto written = write_some(bytes);
    if (written) {
      bytes = bytes.subspan(*written);
      deadline = next_deadline();
    } else {
      given_up_ = written.error().code != EAGAIN || !has_room_by(deadline);
    }
  }
  return !given_up_;
}

// One that blocks, and could not be had otherwise, is asked before. Where there is room at all
// there is room for so much, unless somebody else comes first.
result<std::size_t> patient_writer::write_some(std::span<const std::byte> bytes) const noexcept {
  if (own_ || patience_ == k_never) return os::write(fd_, bytes);
  const auto ready = is_ready(fd_, readiness::to_write);
  if (!ready) return ready.error();
  if (!*ready) return error{EAGAIN};
  return os::write(fd_, bytes.first(std::min<std::size_t>(bytes.size(), PIPE_BUF)));
}

bool patient_writer::has_room_by(nanos deadline) const noexcept {
  if (now() >= deadline) return false;
  const auto ready = wait_ready(fd_, readiness::to_write, deadline);
  return ready && *ready;
}

nanos patient_writer::next_deadline() const noexcept {
  return patience_ == k_never ? k_never : now() + patience_;
}

}  // namespace magpie::rt::os
