#include "base/check.h"

#include <cstdlib>

#include "base/atomic.h"

namespace magpie::rt {
namespace {

atomic<report_context> g_report_context{nullptr};

// The thread that writes the report, by the address of one of its thread-locals.
atomic<const char*> g_reporter{nullptr};
thread_local char t_identity;

// The first failure is the one worth reading. Other threads that fail meanwhile wait here for
// the end of the process; a failure inside the report itself cannot wait for that.
void become_reporter() noexcept {
  const char* nobody = nullptr;
  // relaxed: the word only picks a winner, no data travels with it.
  if (g_reporter.compare_exchange_strong(nobody, &t_identity, relaxed)) return;
  if (g_reporter.load(relaxed) == &t_identity) {
    printer() << "\nmagpie: a second failure while reporting the first; giving up\n";
    std::abort();
  }
  for (;;) cpu_relax();
}

}  // namespace

void set_report_context(report_context context) noexcept {
  g_report_context.store(context, release);  // pairs with the acquire in fatal_report::end
}

fatal_report::fatal_report(const char* kind) noexcept {
  become_reporter();
  text_ << "magpie: " << kind << ": ";
}

void fatal_report::end() noexcept {
  text_ << '\n';
  text_.flush();  // the context may fail too, and what happened first matters most
  // acquire pairs with the release in set_report_context: what it set up before is visible.
  if (report_context context = g_report_context.load(acquire)) context(text_);
  text_.flush();
  std::abort();
}

void check_failed(const check_site& site, const char* function) noexcept {
  fatal_report report("internal error");
  report.text() << site.what << "\n  check failed: " << site.condition << "\n  in " << function
                << " at " << site.file << ':' << site.line
                << "\n  This is a bug in magpie, not in your program: please report it with the"
                   " lines around this one.";
  report.end();
}

}  // namespace magpie::rt
