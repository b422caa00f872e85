// The two ways a program with magpie in it ends early, told apart for whoever reads the report:
//
//   MAGPIE_CHECK   our own bug: an invariant of the runtime does not hold. Always on.
//   MAGPIE_DCHECK  the same for claims too dear to test in a release build.
//   fatal(...)     the user's bug, or a limit of the machine: misuse that cannot be an exception
//                  (unlock of an unlocked mutex), no memory for a stack, no more threads.
//
// Both write a report without touching the heap, then abort: they must work in a signal handler
// and in a process whose heap is broken.
#pragma once

#include "base/print.h"

namespace magpie::rt {

struct check_site {
  const char* condition;
  const char* what;
  const char* file;
  unsigned line;
};

[[noreturn, gnu::cold]] void check_failed(const check_site&, const char* function) noexcept;

// A fatal report under way: the constructor stops other threads' reports, end() aborts.
class fatal_report {
 public:
  explicit fatal_report(const char* kind) noexcept;
  printer& text() { return text_; }
  [[noreturn]] void end() noexcept;

 private:
  printer text_;
};

template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fatal(const Parts&... parts) noexcept {
  fatal_report report("fatal error");
  (report.text() << ... << parts);
  report.end();
}

// What the layers above add to every report: who was running, where it was spawned, its stack.
// One function for the process; it must be signal-safe.
using report_context = void (*)(printer&);
void set_report_context(report_context) noexcept;

}  // namespace magpie::rt

#define MAGPIE_CHECK(condition, what)                                                    \
  do {                                                                                   \
    if (!(condition)) [[unlikely]] {                                                     \
      static constexpr ::magpie::rt::check_site magpie_site_{#condition, what, __FILE__, \
                                                             __LINE__};                  \
      ::magpie::rt::check_failed(magpie_site_, __func__);                                \
    }                                                                                    \
  } while (false)

#ifdef NDEBUG
#define MAGPIE_DCHECK(condition, what) ((void)sizeof(!(condition)))
#else
#define MAGPIE_DCHECK(condition, what) MAGPIE_CHECK(condition, what)
#endif
