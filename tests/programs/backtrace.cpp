// Prints a stack trace out of the situation its argument names, and exits.

#include <signal.h>
#include <unistd.h>

#include <string_view>

#include "base/print.h"
#include "os/backtrace.h"
#include "os/signal.h"
#include "os/thread.h"

using namespace magpie::rt;

namespace {

volatile int* volatile g_bad_pointer = reinterpret_cast<volatile int*>(16);
void (*volatile g_no_function)() = nullptr;
bool g_fault = true;
os::stack_bounds g_stack;

// Something left to do after a call, so that it is a call and not a jump.
inline void keep_frame() { asm volatile("" ::: "memory"); }

}  // namespace

// Not in the unnamed namespace: the tests look for these names.

extern "C" [[gnu::noinline]] void handler_frame(const os::signal_event& event) {
  {
    printer out;
    os::print_backtrace(out, event, g_stack);
  }
  _exit(0);
}

extern "C" [[gnu::noinline]] void inner_frame() {
  if (g_fault) *g_bad_pointer = 1;
  g_no_function();
  keep_frame();
}
extern "C" [[gnu::noinline]] void middle_frame() {
  inner_frame();
  keep_frame();
}
extern "C" [[gnu::noinline]] void outer_frame() {
  middle_frame();
  keep_frame();
}

extern "C" [[noreturn, gnu::noinline]] void end_here() {
  {
    printer out;
    os::print_backtrace(out);
  }
  _exit(0);
}
extern "C" [[noreturn, gnu::noinline]] void ends_with_a_call() { end_here(); }
extern "C" [[gnu::noinline]] void next_in_the_file() { keep_frame(); }

int main(int, char** arguments) {
  const std::string_view way = arguments[1];
  const os::alternate_stack for_signals;
  os::prepare_backtraces();
  g_stack = os::current_thread_stack();
  if (os::install_signal_handler(SIGSEGV, handler_frame)) return 2;
  if (way == "fault") outer_frame();
  if (way == "null_call") {
    g_fault = false;
    outer_frame();
  }
  if (way == "sent") raise(SIGSEGV);
  if (way == "noreturn") ends_with_a_call();
  next_in_the_file();
  return 3;
}
