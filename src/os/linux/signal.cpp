#include "os/signal.h"

#include <errno.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "base/atomic.h"
#include "base/check.h"
#include "os/lock.h"
#include "os/memory.h"

namespace magpie::rt::os {
namespace {

struct slot {
  atomic<signal_handler> ours{nullptr};
  struct sigaction earlier {};  // written before the handler is installed, constant after
  atomic<bool> used_up{false};  // `earlier` wanted one signal only (SA_RESETHAND) and had it
};

slot g_slots[NSIG];
constinit lock g_install_lock{lock_rank::leaf};

// Comes again when the handler returns, because the instruction is then run again. Other signals
// of the kernel's own (timers, the terminal, breakpoints) do not, and are as good as sent.
bool is_repeated_fault(int number, const siginfo_t& info) {
  return info.si_code > 0 &&
         (number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL);
}

signal_event describe(int number, siginfo_t* info, void* context) {
  const mcontext_t& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
  signal_event event{};
  event.number = number;
  event.from_kernel = is_repeated_fault(number, *info);
  event.address = event.from_kernel ? info->si_addr : nullptr;
#if defined(__x86_64__)
  event.program_counter = static_cast<std::uintptr_t>(machine.gregs[REG_RIP]);
  event.stack_pointer = static_cast<std::uintptr_t>(machine.gregs[REG_RSP]);
  event.frame_pointer = static_cast<std::uintptr_t>(machine.gregs[REG_RBP]);
#elif defined(__aarch64__)
  event.program_counter = machine.pc;
  event.stack_pointer = machine.sp;
  event.frame_pointer = machine.regs[29];
#endif
  if (info->si_code == SI_TIMER) event.timer = info->si_value.sival_ptr;
  event.from_ourselves = info->si_code == SI_TKILL && info->si_pid == getpid();
  if (info->si_code == SI_QUEUE) {
    event.sender = info->si_pid;
    event.value = info->si_value.sival_int;
  }
  event.raw_info = info;
  event.raw_context = context;
  return event;
}

void on_signal(int number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  // acquire pairs with the release in install_signal_handler: `earlier` is visible with it.
  const signal_handler handler = g_slots[number].ours.load(acquire);
  handler(describe(number, info, context));
  errno = saved_errno;
}

bool ignored_by_default(int number) {
  return number == SIGCHLD || number == SIGURG || number == SIGWINCH || number == SIGCONT;
}

bool is_function(const struct sigaction& action) {
  return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

// The thread's mask during an earlier handler is what the kernel would have made it.
void call_earlier(const struct sigaction& earlier, const signal_event& event) {
  sigset_t mask = static_cast<const ucontext_t*>(event.raw_context)->uc_sigmask;
  sigorset(&mask, &mask, &earlier.sa_mask);
  if ((earlier.sa_flags & SA_NODEFER) == 0) sigaddset(&mask, event.number);
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, &mask, &before);
  if ((earlier.sa_flags & SA_SIGINFO) != 0) {
    earlier.sa_sigaction(event.number, static_cast<siginfo_t*>(event.raw_info), event.raw_context);
  } else {
    earlier.sa_handler(event.number);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void take_default_action(const signal_event& event) {
  if (ignored_by_default(event.number)) return;
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(event.number, &standard, nullptr);
  // A sent signal does not come back by itself; this one stays pending until the handler ends.
  if (!event.from_kernel) syscall(SYS_tgkill, getpid(), current_thread_id(), event.number);
}

}  // namespace

const int k_segmentation_fault = SIGSEGV;
const int k_urgent_data = SIGURG;
const int k_quit = SIGQUIT;

bool has_default_action(int number) {
  struct sigaction present {};
  return sigaction(number, nullptr, &present) == 0 && present.sa_handler == SIG_DFL &&
         (present.sa_flags & SA_SIGINFO) == 0;
}

bool is_free_for_use(int number) {
  switch (number) {
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGABRT:
    case SIGSYS:
    case SIGKILL:
    case SIGSTOP:
    case SIGCONT:
    case SIGTSTP:  // these stop the process, and SIGCONT drops those on their way
    case SIGTTIN:
    case SIGTTOU:
      return false;
    default:  // between the standard and the real-time ones are libc's own
      return number > 0 && number < NSIG && (number < 32 || number >= SIGRTMIN);
  }
}

void send_signal(thread_id thread, int number) {
  (void)syscall(SYS_tgkill, getpid(), thread, number);  // fails when it has ended: nothing to stop
}

namespace {

void change_mask(int how, int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  pthread_sigmask(how, &set, nullptr);
}

}  // namespace

void open_signal(int number) { change_mask(SIG_UNBLOCK, number); }
void close_signal(int number) { change_mask(SIG_BLOCK, number); }

// Straight to the kernel, whose ids are small numbers: libc keeps a list for other kinds of timers.
bool thread_timer::make(clock kind, int signal) {
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = signal;
  event.sigev_value.sival_ptr = this;
  event._sigev_un._tid = current_thread_id();
  const clockid_t id = kind == clock::real ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
  made_ = syscall(SYS_timer_create, id, &event, &id_) == 0;
  return made_;
}

void thread_timer::stop() {
  if (made_) syscall(SYS_timer_delete, id_);
  made_ = false;
}

void thread_timer::set(nanos first) {
  const itimerspec times{{}, timespec{first / 1'000'000'000, first % 1'000'000'000}};
  syscall(SYS_timer_settime, id_, 0, &times, nullptr);
}

void signal_event::pass_on() const {
  slot& slot = g_slots[number];
  const struct sigaction& earlier = slot.earlier;
  if (!is_function(earlier)) {
    if (earlier.sa_handler == SIG_IGN && !from_kernel) return;
    return take_default_action(*this);  // a fault cannot be ignored, the kernel says
  }
  const bool once = (earlier.sa_flags & static_cast<int>(SA_RESETHAND)) != 0;
  // relaxed: the flag only picks who is first.
  if (once && slot.used_up.exchange(true, relaxed)) return take_default_action(*this);
  call_earlier(earlier, *this);
}

void signal_event::read_registers(std::uintptr_t* values, std::size_t count) const {
  const mcontext_t& machine = static_cast<const ucontext_t*>(raw_context)->uc_mcontext;
#if defined(__x86_64__)
  static constexpr int k_order[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                    REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                    REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  for (std::size_t i = 0; i < std::min(count, std::size(k_order)); ++i) {
    values[i] = static_cast<std::uintptr_t>(machine.gregs[k_order[i]]);
  }
#elif defined(__aarch64__)
  for (std::size_t i = 0; i < std::min<std::size_t>(count, 31); ++i) values[i] = machine.regs[i];
  if (count > 31) values[31] = machine.sp;
#endif
}

error install_signal_handler(int number, signal_handler handler) {
  MAGPIE_CHECK(number > 0 && number < NSIG && handler != nullptr, "not a signal handler");
  const lock_guard hold(g_install_lock);
  slot& slot = g_slots[number];
  // relaxed: only written under the lock held here.
  const bool first = slot.ours.load(relaxed) == nullptr;
  if (first && sigaction(number, nullptr, &slot.earlier) != 0) return last_error();
  slot.ours.store(handler, release);  // pairs with the acquire in on_signal

  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigfillset(&action.sa_mask);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF}) {
    sigdelset(&action.sa_mask, fault);
  }
  if (sigaction(number, &action, nullptr) != 0) return last_error();
  return {};
}

bool has_earlier_handler(int number) {
  const slot& slot = g_slots[number];
  return is_function(slot.earlier) && !slot.used_up.load(relaxed);  // relaxed: a flag of its own
}

alternate_stack::alternate_stack() {
  stack_t present{};
  if (sigaltstack(nullptr, &present) != 0 || (present.ss_flags & SS_DISABLE) == 0) return;
  // The kernel's frame (11 KiB with AMX) and, above it, a report with a stack trace.
  constexpr std::size_t k_for_the_handler = 56 * 1024;
  const std::size_t frame = std::max<std::size_t>(getauxval(AT_MINSIGSTKSZ), 8 * 1024);
  const std::size_t page = page_size();
  const std::size_t usable = (frame + k_for_the_handler + page - 1) / page * page;
  size_ = page + usable;  // a guard page below
  const result<void*> memory = reserve(size_, page);
  if (!memory) return;
  mapping_ = *memory;
  char* const low = static_cast<char*>(mapping_) + page;
  stack_t wanted{};
  wanted.ss_sp = low;
  wanted.ss_size = usable;
  if (commit({low, usable}) || sigaltstack(&wanted, nullptr) != 0) {
    (void)unmap({mapping_, size_});
    mapping_ = nullptr;
  }
}

alternate_stack::~alternate_stack() {
  if (mapping_ == nullptr) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
  (void)unmap({mapping_, size_});
}

}  // namespace magpie::rt::os
