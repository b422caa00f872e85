#include "os/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace magpie::rt::os {
namespace {

// The result of a call that returns -1 and errno, repeated until no signal interrupts it.
template <class Call>
auto uninterrupted(Call call) noexcept {
  auto outcome = call();
  while (outcome < 0 && errno == EINTR) outcome = call();
  return outcome;
}

result<std::size_t> transferred(ssize_t count) noexcept {
  if (count < 0) return last_error();
  return static_cast<std::size_t>(count);
}

}  // namespace

error file_descriptor::close() noexcept {
  if (fd_ < 0) return {};
  return ::close(release()) == 0 ? error{} : last_error();
}

result<file_descriptor> open_file(const char* path, int flags, unsigned permissions) noexcept {
  const int fd = uninterrupted([&] { return ::open(path, flags | O_CLOEXEC, permissions); });
  if (fd < 0) return last_error();
  return file_descriptor(fd);
}

result<std::size_t> read(int fd, std::span<std::byte> buffer) noexcept {
  return transferred(uninterrupted([&] { return ::read(fd, buffer.data(), buffer.size()); }));
}

result<std::size_t> write(int fd, std::span<const std::byte> bytes) noexcept {
  return transferred(uninterrupted([&] { return ::write(fd, bytes.data(), bytes.size()); }));
}

result<std::size_t> pread(int fd, std::span<std::byte> buffer, std::int64_t offset) noexcept {
  return transferred(
      uninterrupted([&] { return ::pread(fd, buffer.data(), buffer.size(), offset); }));
}

result<std::size_t> pwrite(int fd, std::span<const std::byte> bytes, std::int64_t offset) noexcept {
  return transferred(
      uninterrupted([&] { return ::pwrite(fd, bytes.data(), bytes.size(), offset); }));
}

namespace {

iovec vector_of(const void* data, std::size_t size) { return {const_cast<void*>(data), size}; }

// By its number: libc's functions may be cancelled, and what that takes is a twentieth of a read
// from the cache. The offset is in the fourth argument; the fifth is for narrower machines.
long transfer_at_once(long call, int fd, const iovec& one, std::int64_t offset) {
  return ::syscall(call, fd, &one, 1L, offset, 0L, RWF_NOWAIT);
}

}  // namespace

result<std::size_t> pread_at_once(int fd, std::span<std::byte> buffer,
                                  std::int64_t offset) noexcept {
  const iovec one = vector_of(buffer.data(), buffer.size());
  return transferred(uninterrupted([&] { return transfer_at_once(SYS_preadv2, fd, one, offset); }));
}

result<std::size_t> pwrite_at_once(int fd, std::span<const std::byte> bytes,
                                   std::int64_t offset) noexcept {
  const iovec one = vector_of(bytes.data(), bytes.size());
  return transferred(
      uninterrupted([&] { return transfer_at_once(SYS_pwritev2, fd, one, offset); }));
}

result<pipe_ends> make_pipe(fd_mode mode) noexcept {
  int fds[2];
  const int flags = O_CLOEXEC | (mode == fd_mode::nonblocking ? O_NONBLOCK : 0);
  if (::pipe2(fds, flags) != 0) return last_error();
  return pipe_ends{file_descriptor(fds[0]), file_descriptor(fds[1])};
}

result<file_descriptor> make_eventfd(fd_mode mode, unsigned initial_count) noexcept {
  const int flags = EFD_CLOEXEC | (mode == fd_mode::nonblocking ? EFD_NONBLOCK : 0);
  const int fd = ::eventfd(initial_count, flags);
  if (fd < 0) return last_error();
  return file_descriptor(fd);
}

namespace {

// For poll(): rounded up, so that whoever waits so long is not early.
int milliseconds_until(nanos deadline) noexcept {
  if (deadline == k_never) return -1;
  constexpr nanos k_milli = 1'000'000, k_most = INT_MAX;
  const nanos left = std::max<nanos>(deadline - now(), 0);
  return static_cast<int>(std::min(left / k_milli + (left % k_milli != 0 ? 1 : 0), k_most));
}

}  // namespace

result<bool> is_ready(int fd, readiness wanted) noexcept { return wait_ready(fd, wanted, 0); }

result<bool> wait_ready(int fd, readiness wanted, nanos deadline) noexcept {
  pollfd one{
      .fd = fd,
      .events = static_cast<short>(wanted == readiness::to_read ? POLLIN | POLLRDHUP : POLLOUT),
      .revents = 0};
  if (fd < 0) return error{EBADF};  // which poll() would ignore
  const auto wait = [&] {
    return ::poll(&one, 1, deadline == 0 ? 0 : milliseconds_until(deadline));
  };
  if (uninterrupted(wait) < 0) return last_error();
  if ((one.revents & POLLNVAL) != 0) return error{EBADF};
  return one.revents != 0;
}

error set_nonblocking(int fd) noexcept {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return last_error();
  if ((flags & O_NONBLOCK) != 0) return {};
  return ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 ? error{} : last_error();
}

}  // namespace magpie::rt::os
