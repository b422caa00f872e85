// Fails in the way its argument says, in a process whose heap must not be touched any more: the
// first call of malloc or free afterwards says so and exits with 9. Not for sanitized builds,
// which need these functions for themselves.

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "base/check.h"
#include "fiber/sanitizer.h"
#include "os/backtrace.h"
#include "os/signal.h"

using namespace magpie::rt;

namespace {

volatile bool g_forbidden = false;

[[maybe_unused]] void account() {
  if (!g_forbidden) return;
  constexpr std::string_view text = "the heap was touched\n";
  (void)!write(STDERR_FILENO, text.data(), text.size());
  _exit(9);
}

}  // namespace

#if !defined(MAGPIE_ASAN) && !defined(MAGPIE_TSAN)
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t size) {
  account();
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  account();
  return __libc_calloc(count, size);
}
void* realloc(void* block, std::size_t size) {
  account();
  return __libc_realloc(block, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  account();
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }
int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
  *block = memalign(alignment, size);
  return *block != nullptr ? 0 : ENOMEM;
}
void free(void* block) {
  account();
  __libc_free(block);
}
}
#endif

namespace {

volatile int g_two = 2;

[[gnu::noinline]] void fail_a_check() { MAGPIE_CHECK(g_two + g_two == 5, "arithmetic is broken"); }

// Apart from main, whose name would not be known if it contained the failing, cold code itself.
[[gnu::noinline]] void fail(std::string_view way) {
  if (way == "check" || way == "heap_in_context") fail_a_check();
  if (way == "fatal") fatal("no memory for ", 3, " stacks of ", hex{0x1000}, ' ', "bytes");
  if (way == "handler") raise(SIGUSR1);
}

}  // namespace

int main(int, char** arguments) {
  const std::string_view way = arguments[1];
  const os::alternate_stack for_signals;
  os::prepare_backtraces();
  if (os::install_signal_handler(SIGUSR1, [](const os::signal_event&) { fail_a_check(); }))
    return 2;
  set_report_context([](printer& out) {
    out << "  at\n";
    os::print_backtrace(out);
    out << "the end of the report\n";
  });
  if (way == "heap_in_context") {
    set_report_context([](printer& out) { out << static_cast<const void*>(std::malloc(17)); });
  }
  g_forbidden = true;
  fail(way);
  return 0;
}
