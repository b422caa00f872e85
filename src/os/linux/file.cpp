#include "os/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace magpie::rt::os {
namespace {

int flags_of(open_wishes wishes) noexcept {
  const bool write = wishes.write || wishes.append;
  int flags = write ? (wishes.read ? O_RDWR : O_WRONLY) : O_RDONLY;
  if (wishes.create) flags |= O_CREAT;
  if (wishes.truncate) flags |= O_TRUNC;
  if (wishes.append) flags |= O_APPEND;
  if (wishes.exclusive) flags |= O_EXCL;
  if (wishes.nonblocking) flags |= O_NONBLOCK;
  return flags;
}

}  // namespace

result<file_descriptor> open_path(const char* path, open_wishes wishes,
                                  unsigned permissions) noexcept {
  return open_file(path, flags_of(wishes), permissions);
}

result<std::uint64_t> size_of(int fd) noexcept {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return last_error();
  return static_cast<std::uint64_t>(status.st_size);
}

error truncate(int fd, std::uint64_t size) noexcept {
  int done = ::ftruncate(fd, static_cast<off_t>(size));
  while (done != 0 && errno == EINTR) done = ::ftruncate(fd, static_cast<off_t>(size));
  return done == 0 ? error{} : last_error();
}

error sync(int fd) noexcept {
  int done = ::fsync(fd);
  while (done != 0 && errno == EINTR) done = ::fsync(fd);
  return done == 0 ? error{} : last_error();
}

error set_permissions_of_file(int fd, unsigned permissions) noexcept {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return last_error();
  if (!S_ISREG(status.st_mode)) return {};
  return ::fchmod(fd, permissions) == 0 ? error{} : last_error();
}

bool is_waitable(int fd) noexcept {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return false;
  return S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || S_ISCHR(status.st_mode);
}

}  // namespace magpie::rt::os
