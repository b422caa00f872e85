#include "os/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/memory.h"

namespace magpie::rt::os {

// Straight to the kernel, all of it: libc's functions may be cancellation points, and a sanitizer
// that sees some calls with a descriptor but not the others takes its next use for a race.
std::span<const std::byte> map_file(const char* path) {
  std::span<const std::byte> bytes;
  const int saved_errno = errno;
  const long file = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    struct stat about {};
    if (syscall(SYS_fstat, file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
      const auto size = static_cast<std::size_t>(about.st_size);
      const long mapped = syscall(SYS_mmap, nullptr, size, PROT_READ, MAP_PRIVATE, file, 0L);
      if (mapped != -1) bytes = {reinterpret_cast<const std::byte*>(mapped), size};
    }
    syscall(SYS_close, file);
  }
  errno = saved_errno;
  return bytes;
}

void unmap_file(std::span<const std::byte> bytes) {
  if (!bytes.empty()) (void)unmap({const_cast<std::byte*>(bytes.data()), bytes.size()});
}

}  // namespace magpie::rt::os
