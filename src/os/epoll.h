// The kernel's readiness queue, with deadlines finer than a millisecond.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "os/error.h"
#include "os/fd.h"

namespace magpie::rt::os {

// The bits of <sys/epoll.h> under names of our own, so that nobody above os/ includes it. A set.
enum class epoll_events : std::uint32_t {
  none = 0,
  readable = 0x001,
  priority = 0x002,
  writable = 0x004,
  failed = 0x008,        // reported even if not asked for
  hung_up = 0x010,       // reported even if not asked for
  peer_closed = 0x2000,  // the peer will send nothing more
  exclusive = 1U << 28,  // of several epolls on one descriptor wake few, not all
  one_shot = 1U << 30,
  edge_triggered = 1U << 31,
};

constexpr epoll_events operator|(epoll_events a, epoll_events b) {
  return epoll_events{static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b)};
}
constexpr epoll_events operator&(epoll_events a, epoll_events b) {
  return epoll_events{static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b)};
}
constexpr bool any(epoll_events events) { return events != epoll_events::none; }

// What wait() reports. Not the kernel's struct but a copy: that one is packed on x86-64, and a
// reference to its token would be undefined behaviour; copying is nothing beside the system call.
struct epoll_record {
  std::uint64_t token;
  epoll_events events;
};

// Any thread may call any function at any time, except that nobody may destroy or move it
// meanwhile: the kernel does the locking.
class epoll {
 public:
  static result<epoll> create() noexcept;

  // `token` comes back with every event of `fd`. The kernel forgets a descriptor by itself only
  // when its last duplicate is closed, so remove() before closing one that may be shared.
  error add(int fd, epoll_events events, std::uint64_t token) noexcept;
  error modify(int fd, epoll_events events, std::uint64_t token) noexcept;
  error remove(int fd) noexcept;

  // Waits until something happens or `timeout` nanoseconds are over (negative: for ever, 0: only
  // looks) and fills the front of `records`, at most k_max_records of them. Returns how many; 0
  // when the time is over. A signal ends the wait with the error EINTR: only the caller knows
  // what is left of its time, and whether it still wants to wait.
  result<std::size_t> wait(std::span<epoll_record> records, std::int64_t timeout) noexcept;

  static constexpr std::size_t k_max_records = 128;

  int fd() const { return fd_.get(); }

 private:
  explicit epoll(file_descriptor fd) noexcept : fd_(std::move(fd)) {}
  error control(int operation, int fd, epoll_events events, std::uint64_t token) noexcept;

  file_descriptor fd_;
};

// Which system call wait() makes, for the whole process. It starts with epoll_pwait2 and changes
// to milliseconds by itself when the kernel (before 5.11) or a sandbox refuses that.
enum class epoll_timer {
  nanoseconds,
  milliseconds,
};
epoll_timer current_epoll_timer() noexcept;
void set_epoll_timer(epoll_timer) noexcept;  // for tests of the fallback

// The timeout of the older call: rounded up, because a waiter woken early would find nothing to
// do and wait again with timeout 0, turning the last millisecond into a busy loop.
int epoll_milliseconds(std::int64_t timeout) noexcept;

}  // namespace magpie::rt::os
