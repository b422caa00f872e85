#include "os/epoll.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/atomic.h"
#include "os/fault.h"

namespace magpie::rt::os {
namespace {

constexpr std::uint32_t bits(epoll_events events) { return static_cast<std::uint32_t>(events); }

static_assert(bits(epoll_events::readable) == EPOLLIN);
static_assert(bits(epoll_events::priority) == EPOLLPRI);
static_assert(bits(epoll_events::writable) == EPOLLOUT);
static_assert(bits(epoll_events::failed) == EPOLLERR);
static_assert(bits(epoll_events::hung_up) == EPOLLHUP);
static_assert(bits(epoll_events::peer_closed) == EPOLLRDHUP);
static_assert(bits(epoll_events::exclusive) == EPOLLEXCLUSIVE);
static_assert(bits(epoll_events::one_shot) == EPOLLONESHOT);
static_assert(bits(epoll_events::edge_triggered) == EPOLLET);

// By number, the same on every architecture: glibc has the wrapper only since 2.35.
constexpr long k_sys_epoll_pwait2 = 441;
#ifdef SYS_epoll_pwait2
static_assert(k_sys_epoll_pwait2 == SYS_epoll_pwait2);
#endif

// relaxed wherever it is used, because the word stands alone: a thread that sees the old value
// asks the kernel once more and gets the same refusal.
atomic<epoll_timer> g_timer{epoll_timer::nanoseconds};

int wait_nanoseconds(int fd, epoll_event* events, int capacity, std::int64_t timeout) noexcept {
  constexpr std::int64_t second = 1'000'000'000;
  const timespec limit{.tv_sec = timeout / second, .tv_nsec = timeout % second};
  return static_cast<int>(::syscall(k_sys_epoll_pwait2, fd, events, capacity,
                                    timeout < 0 ? nullptr : &limit, nullptr, std::size_t{0}));
}

int wait_milliseconds(int fd, epoll_event* events, int capacity, std::int64_t timeout) noexcept {
  return ::epoll_wait(fd, events, capacity, epoll_milliseconds(timeout));
}

// ENOSYS from a kernel without the call, EPERM from a seccomp filter that does not know it.
bool is_refusal(int code) { return code == ENOSYS || code == EPERM; }

int wait_either_way(int fd, epoll_event* events, int capacity, std::int64_t timeout) noexcept {
  if (current_epoll_timer() == epoll_timer::nanoseconds) {
    const int count = wait_nanoseconds(fd, events, capacity, timeout);
    if (count >= 0 || !(is_refusal(errno) || errno == EINVAL)) return count;
    // EINVAL is a refusal from some emulators but our mistake elsewhere: so it is not remembered,
    // and a mistake gets its EINVAL from the older call as well.
    if (errno != EINVAL) set_epoll_timer(epoll_timer::milliseconds);
  }
  return wait_milliseconds(fd, events, capacity, timeout);
}

}  // namespace

epoll_timer current_epoll_timer() noexcept {
  return g_timer.load(relaxed);  // relaxed because the word stands alone, see g_timer
}

void set_epoll_timer(epoll_timer timer) noexcept {
  g_timer.store(timer, relaxed);  // relaxed because the word stands alone, see g_timer
}

int epoll_milliseconds(std::int64_t timeout) noexcept {
  constexpr std::int64_t millisecond = 1'000'000;
  if (timeout < 0) return -1;
  const std::int64_t rounded = timeout / millisecond + (timeout % millisecond != 0 ? 1 : 0);
  return static_cast<int>(std::min<std::int64_t>(rounded, std::numeric_limits<int>::max()));
}

result<epoll> epoll::create() noexcept {
  const int fd = ::epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) return last_error();
  return epoll(file_descriptor(fd));
}

error epoll::control(int operation, int fd, epoll_events events, std::uint64_t token) noexcept {
  epoll_event event{.events = bits(events), .data = {.u64 = token}};
  // What is to go does go: the kernel has no reason to refuse that.
  if (operation != EPOLL_CTL_DEL && fault(fault_call::epoll_ctl)) return last_error();
  return ::epoll_ctl(fd_.get(), operation, fd, &event) == 0 ? error{} : last_error();
}

error epoll::add(int fd, epoll_events events, std::uint64_t token) noexcept {
  return control(EPOLL_CTL_ADD, fd, events, token);
}

error epoll::modify(int fd, epoll_events events, std::uint64_t token) noexcept {
  return control(EPOLL_CTL_MOD, fd, events, token);
}

error epoll::remove(int fd) noexcept { return control(EPOLL_CTL_DEL, fd, epoll_events::none, 0); }

result<std::size_t> epoll::wait(std::span<epoll_record> records, std::int64_t timeout) noexcept {
  epoll_event events[k_max_records];
  const auto capacity = static_cast<int>(std::min(records.size(), k_max_records));
  const int count = faulty(fault_call::epoll_wait,
                           [&] { return wait_either_way(fd_.get(), events, capacity, timeout); });
  if (count < 0) return last_error();
  const auto found = static_cast<std::size_t>(count);
  for (std::size_t i = 0; i < found; ++i) {
    records[i] = {.token = events[i].data.u64, .events = epoll_events{events[i].events}};
  }
  return found;
}

}  // namespace magpie::rt::os
