// Puts our signal handler in front of the earlier one its argument names, raises a signal, and
// says what happened in which order.

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/print.h"
#include "os/signal.h"
#include "os/thread.h"

using namespace magpie::rt;

namespace {

template <class... Parts>
void say(const Parts&... parts) {
  printer out;
  (out << ... << parts);
  out << '\n';
}

bool is_blocked(int number) {
  sigset_t set;
  pthread_sigmask(SIG_BLOCK, nullptr, &set);
  return sigismember(&set, number) == 1;
}

void say_mask(const char* where) {
  printer out;
  out << where << ':';
  struct {
    int number;
    const char* name;
  } const signals[] = {{SIGHUP, "HUP"},   {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"},
                       {SIGSEGV, "SEGV"}, {SIGPROF, "PROF"}, {SIGTERM, "TERM"}};
  for (const auto& [number, name] : signals) {
    if (is_blocked(number)) out << ' ' << name;
  }
  out << '\n';
}

// ---- ours ----

void pass_on(const os::signal_event& event) {
  say("ours");
  event.pass_on();
  say("ours is done");
}

void pass_on_with_masks(const os::signal_event& event) {
  say_mask("ours");
  event.pass_on();
  say_mask("ours again");
}

void describe(const os::signal_event& event) {
  say(event.from_kernel ? "from the kernel" : "sent", ", address ", event.address,
      event.program_counter != 0 ? ", code known" : ", no code");
  event.pass_on();
}

std::atomic<int> g_count{0};
void count(const os::signal_event& event) {
  g_count.fetch_add(1);
  event.pass_on();
}

os::stack_bounds g_stack;

bool on_alternate_stack() {
  stack_t stack{};
  if (sigaltstack(nullptr, &stack) != 0) return false;
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return here - reinterpret_cast<std::uintptr_t>(stack.ss_sp) < stack.ss_size;
}

void install(int number, os::signal_handler handler) {
  if (const os::error refused = os::install_signal_handler(number, handler)) {
    say("refused: ", os::error_name(refused));
    _exit(2);
  }
}

// ---- earlier ----

void set_earlier(int number, void (*handler)(int), int flags = 0, int also_blocked = 0) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  if (also_blocked != 0) sigaddset(&action.sa_mask, also_blocked);
  sigaction(number, &action, nullptr);
}

void earlier(int number) { say("earlier, ", strsignal(number)); }

void earlier_with_info(int number, siginfo_t* info, void* context) {
  const bool ours = info->si_signo == number && info->si_pid == getpid() && context != nullptr;
  say("earlier, ", strsignal(number), ours ? " with its info" : " with wrong info");
}

int g_depth = 0;
void earlier_that_raises(int number) {
  const int depth = ++g_depth;
  say("earlier ", depth);
  if (depth == 1) raise(number);
  say("earlier ", depth, " is done");
}

volatile int* volatile g_bad_pointer = reinterpret_cast<volatile int*>(16);

// One tick of a timer, which the kernel sends without anybody having called kill().
void wait_for_a_timer() {
  sigset_t one, before;
  sigemptyset(&one);
  sigaddset(&one, SIGALRM);
  sigprocmask(SIG_BLOCK, &one, &before);
  itimerval soon{};
  soon.it_value.tv_usec = 1;
  setitimer(ITIMER_REAL, &soon, nullptr);
  sigdelset(&before, SIGALRM);
  sigsuspend(&before);
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

int main(int, char** arguments) {
  const std::string_view way = arguments[1];
  const os::alternate_stack for_signals;

  if (way == "plain") {
    set_earlier(SIGUSR1, earlier);
    install(SIGUSR1, pass_on);
    raise(SIGUSR1);
  }
  if (way == "info") {
    struct sigaction action {};
    action.sa_sigaction = earlier_with_info;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR1, &action, nullptr);
    install(SIGUSR1, pass_on);
    raise(SIGUSR1);
  }
  if (way == "mask" || way == "mask_nodefer") {
    sigset_t hup;
    sigemptyset(&hup);
    sigaddset(&hup, SIGHUP);
    sigprocmask(SIG_BLOCK, &hup, nullptr);
    set_earlier(
        SIGUSR1, [](int) { say_mask("earlier"); }, way == "mask" ? 0 : SA_NODEFER, SIGPROF);
    install(SIGUSR1, pass_on_with_masks);
    raise(SIGUSR1);
    say_mask("main");
  }
  if (way == "deferred" || way == "nodefer") {
    set_earlier(SIGUSR1, earlier_that_raises, way == "nodefer" ? SA_NODEFER : 0);
    install(SIGUSR1, pass_on);
    raise(SIGUSR1);
  }
  if (way == "once") {
    set_earlier(SIGUSR1, earlier, static_cast<int>(SA_RESETHAND));
    install(SIGUSR1, pass_on);
    raise(SIGUSR1);
    say("once more");
    raise(SIGUSR1);
  }
  if (way == "once_fault") {
    set_earlier(SIGSEGV, earlier, static_cast<int>(SA_RESETHAND));
    install(SIGSEGV, pass_on);
    *g_bad_pointer = 1;
  }
  if (way == "ignored") {
    set_earlier(SIGUSR1, SIG_IGN);
    install(SIGUSR1, pass_on);
    raise(SIGUSR1);
    raise(SIGUSR1);
  }
  if (way == "ignored_fault") {
    set_earlier(SIGSEGV, SIG_IGN);
    install(SIGSEGV, pass_on);
    *g_bad_pointer = 1;
  }
  if (way == "default") {
    install(SIGTERM, pass_on);
    raise(SIGTERM);
  }
  if (way == "default_fault") {
    install(SIGSEGV, describe);
    *g_bad_pointer = 1;
  }
  if (way == "default_sent_fault") {
    install(SIGSEGV, describe);
    raise(SIGSEGV);
  }
  if (way == "default_illegal") {
    install(SIGILL, pass_on);
    install(SIGTRAP, pass_on);  // what __builtin_trap is on aarch64
    __builtin_trap();
  }
  if (way == "default_breakpoint") {
    install(SIGTRAP, pass_on);
#if defined(__x86_64__)
    asm volatile("int3");
#elif defined(__aarch64__)
    asm volatile("brk #0");
#endif
  }
  if (way == "default_timer") {
    install(SIGALRM, pass_on);
    wait_for_a_timer();
  }
  if (way == "ignored_timer") {
    set_earlier(SIGALRM, SIG_IGN);
    install(SIGALRM, count);
    for (int ticks = 0; ticks < 3; ++ticks) {
      wait_for_a_timer();
      while (g_count.load() <= ticks) usleep(1);
    }
  }
  if (way == "default_is_ignored") {
    for (const int number : {SIGCHLD, SIGURG, SIGWINCH, SIGCONT}) {
      install(number, count);
      raise(number);
      raise(number);
    }
    say(g_count.load(), " handled");
  }
  if (way == "errno") {
    set_earlier(SIGUSR1, [](int) { errno = EDOM; });
    install(SIGUSR1, [](const os::signal_event& event) {
      event.pass_on();
      errno = ERANGE;
    });
    errno = EXDEV;
    raise(SIGUSR1);
    say(errno == EXDEV ? "kept" : "spoiled");
  }
  if (way == "again") {
    set_earlier(SIGUSR1, earlier);
    install(SIGUSR1, [](const os::signal_event&) { say("replaced"); });
    install(SIGUSR1, pass_on);
    raise(SIGUSR1);
  }
  if (way == "had_earlier") {
    set_earlier(SIGUSR1, earlier);
    set_earlier(SIGUSR2, SIG_IGN);
    say("before: ", int{os::has_earlier_handler(SIGUSR1)});
    for (const int number : {SIGUSR1, SIGUSR2, SIGTERM}) {
      install(number, pass_on);
      say(strsignal(number), ": ", int{os::has_earlier_handler(number)});
      install(number, pass_on);
      say(strsignal(number), ": ", int{os::has_earlier_handler(number)});
    }
  }
  if (way == "kill") install(SIGKILL, pass_on);
  if (way == "libc") install(32, pass_on);  // SIGCANCEL
  if (way == "stack") {
    g_stack = os::current_thread_stack();
    install(SIGUSR1, [](const os::signal_event& event) {
      say(on_alternate_stack() ? "on the alternate stack" : "on the thread's own stack");
      const auto* const pointer = reinterpret_cast<const void*>(event.stack_pointer);
      const bool known = pointer >= g_stack.low && pointer < g_stack.high;
      say(known ? "knows where the thread was" : "does not know where the thread was");
    });
    say(on_alternate_stack() ? "on the alternate stack" : "on the thread's own stack");
    raise(SIGUSR1);
  }
  say("main goes on");
  return 0;
}
