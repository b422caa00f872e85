#include "os/thread_view.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/print.h"

namespace magpie::rt::os {
namespace {

// The kernel's own encoding of "CPU time of thread `id`", which pthread_getcpuclockid hides behind
// a handle that may be gone.
clockid_t cpu_clock_of(thread_id id) {
  constexpr unsigned k_of_a_thread = 4, k_time_scheduled = 2;
  return static_cast<clockid_t>((~static_cast<unsigned>(id) << 3) | k_of_a_thread |
                                k_time_scheduled);
}

struct small_text {
  char bytes[512];
  std::size_t size = 0;
};

void append(void* to, const char* text, std::size_t size) {
  auto& out = *static_cast<small_text*>(to);
  if (size > sizeof out.bytes - 1 - out.size) size = sizeof out.bytes - 1 - out.size;
  memcpy(out.bytes + out.size, text, size);
  out.size += size;
}

// Straight to the kernel: libc's functions may be a cancellation point, or wrapped by a sanitizer.
small_text read_task_file(thread_id id, const char* name) {
  small_text path;
  {
    printer out({append, &path});
    out << "/proc/self/task/" << id << '/' << name;
  }
  path.bytes[path.size] = '\0';
  small_text read_back;
  const long file = syscall(SYS_openat, AT_FDCWD, path.bytes, O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    const long got = syscall(SYS_read, file, read_back.bytes, sizeof read_back.bytes - 1);
    if (got > 0) read_back.size = static_cast<std::size_t>(got);
    syscall(SYS_close, file);
  }
  read_back.bytes[read_back.size] = '\0';
  return read_back;
}

// "running", or "NUMBER ARG*6 SP PC", or "-1 SP PC".
thread_view parse_syscall_file(const small_text& text) {
  thread_view view;
  if (text.size == 0) return view;
  if (strncmp(text.bytes, "running", 7) == 0) {
    view.activity = thread_activity::running;
    return view;
  }
  char* at = nullptr;
  view.activity = thread_activity::asleep;
  view.system_call = static_cast<int>(strtol(text.bytes, &at, 10));
  std::uintptr_t last_two[2] = {};
  while (*at == ' ') {
    last_two[0] = last_two[1];
    last_two[1] = strtoul(at + 1, &at, 16);
  }
  view.stack_pointer = last_two[0];
  view.program_counter = last_two[1];
  return view;
}

// "ID (NAME) STATE ...": for processes that may not see the other file of their own.
thread_view parse_stat_file(const small_text& text) {
  thread_view view;
  const char* const end_of_name = strrchr(text.bytes, ')');
  if (text.size == 0 || end_of_name == nullptr || end_of_name[1] == '\0') return view;
  const char state = end_of_name[2];
  if (state == 'R') view.activity = thread_activity::running;
  if (state == 'S' || state == 'D') view.activity = thread_activity::asleep;
  return view;
}

}  // namespace

nanos cpu_time_of(thread_id id) {
  timespec time{};
  if (clock_gettime(cpu_clock_of(id), &time) != 0) return -1;
  return static_cast<nanos>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

thread_view look_at_thread(thread_id id) {
  const thread_view view = parse_syscall_file(read_task_file(id, "syscall"));
  if (view.activity != thread_activity::unknown) return view;
  return parse_stat_file(read_task_file(id, "stat"));
}

const char* system_call_name(int number) {
  switch (number) {
#define NAMED(call) \
  case SYS_##call:  \
    return #call;
    NAMED(read)
    NAMED(write)
    NAMED(readv)
    NAMED(writev)
    NAMED(pread64)
    NAMED(pwrite64)
    NAMED(openat)
    NAMED(close)
    NAMED(fsync)
    NAMED(fdatasync)
    NAMED(flock)
    NAMED(fcntl)
    NAMED(ioctl)
    NAMED(ppoll)
    NAMED(pselect6)
    NAMED(epoll_pwait)
    NAMED(connect)
    NAMED(accept)
    NAMED(accept4)
    NAMED(recvfrom)
    NAMED(recvmsg)
    NAMED(sendto)
    NAMED(sendmsg)
    NAMED(futex)
    NAMED(nanosleep)
    NAMED(clock_nanosleep)
    NAMED(wait4)
    NAMED(waitid)
    NAMED(semtimedop)
    NAMED(msgrcv)
    NAMED(msgsnd)
    NAMED(rt_sigtimedwait)
    NAMED(rt_sigsuspend)
    NAMED(io_uring_enter)
    NAMED(mmap)
    NAMED(munmap)
    NAMED(madvise)
    NAMED(getdents64)
    NAMED(statx)
    NAMED(unlinkat)
    NAMED(sched_yield)
#ifdef SYS_poll
    NAMED(poll)
    NAMED(select)
    NAMED(epoll_wait)
    NAMED(open)
    NAMED(pause)
#endif
#undef NAMED
    default:
      return nullptr;
  }
}

std::size_t copy_memory(std::uintptr_t from, void* to, std::size_t size) {
  iovec here{to, size};
  iovec there{reinterpret_cast<void*>(from), size};
  const long copied = syscall(SYS_process_vm_readv, getpid(), &here, 1L, &there, 1L, 0L);
  return copied > 0 ? static_cast<std::size_t>(copied) : 0;
}

}  // namespace magpie::rt::os
