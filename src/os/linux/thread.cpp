#include "os/thread.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/atomic.h"
#include "base/check.h"
#include "os/fault.h"
#include "os/note.h"

namespace magpie::rt::os {
namespace {

// What a new thread needs from its creator, on the creator's stack until it was read.
struct start_block {
  thread::body body;
  void* argument;
  const char* name;
  note taken;
};

void* thread_main(void* raw) {
  auto* const block = static_cast<start_block*>(raw);
  if (block->name != nullptr) set_current_thread_name(block->name);
  const thread::body body = block->body;
  void* const argument = block->argument;
  block->taken.wake();
  body(argument);
  return nullptr;
}

// Synchronous faults stay open: blocked, they would kill the process without any report.
sigset_t all_but_faults() {
  sigset_t set;
  sigfillset(&set);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
    sigdelset(&set, fault);
  }
  return set;
}

}  // namespace

thread_id process_id() { return getpid(); }

thread_id current_thread_id() { return static_cast<thread_id>(syscall(SYS_gettid)); }

int thread_count() {
  struct stat task;  // a directory with one directory for each thread, and two links of its own
  if (stat("/proc/self/task", &task) != 0 || task.st_nlink < 3) return 0;
  return static_cast<int>(task.st_nlink) - 2;
}

void yield_thread() { sched_yield(); }

void wake_calling_thread_on_time() { prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

[[gnu::noinline]] void set_errno(int value) {
  asm volatile("" ::: "memory");
  errno = value;
}

void set_current_thread_name(const char* name) {
  char short_name[16] = {};  // the kernel's limit, and pthread_setname_np refuses longer ones
  memcpy(short_name, name, std::min(strlen(name), sizeof short_name - 1));
  pthread_setname_np(pthread_self(), short_name);
}

thread& thread::operator=(thread&& other) noexcept {
  MAGPIE_CHECK(!joinable(), "a thread overwritten before it was joined");
  handle_ = std::exchange(other.handle_, 0);
  return *this;
}

thread::~thread() { MAGPIE_CHECK(!joinable(), "a thread dropped before it was joined"); }

result<thread> thread::start(body function, void* argument, const thread_options& options) {
  if (fault(fault_call::clone)) return last_error();
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (options.stack_size != 0) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t least = static_cast<std::size_t>(sysconf(_SC_THREAD_STACK_MIN));
    const std::size_t size = (std::max(options.stack_size, least) + page - 1) / page * page;
    // Refused: a size so large that it was rounded up past the end of all numbers.
    if (const int failure = pthread_attr_setstacksize(&attributes, size); failure != 0) {
      pthread_attr_destroy(&attributes);
      return error{failure};
    }
  }
  // The mask is inherited, so it is set around the creation: the new thread never has it open.
  const sigset_t blocked = all_but_faults();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  start_block block{function, argument, options.name, {}};
  pthread_t handle;
  const int failure = pthread_create(&handle, &attributes, thread_main, &block);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (failure != 0) return error{failure};
  block.taken.wait();
  thread made;
  made.handle_ = static_cast<std::uintptr_t>(handle);
  return made;
}

void thread::join() {
  MAGPIE_CHECK(joinable(), "join of a thread that is not there");
  const int failure = pthread_join(static_cast<pthread_t>(handle_), nullptr);
  MAGPIE_CHECK(failure == 0, "a thread cannot be joined");
  handle_ = 0;
}

stack_bounds current_thread_stack() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
  void* low = nullptr;
  std::size_t size = 0;
  pthread_attr_getstack(&attributes, &low, &size);
  pthread_attr_destroy(&attributes);
  return {low, static_cast<char*>(low) + size};
}

}  // namespace magpie::rt::os
