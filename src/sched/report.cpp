#include "sched/report.h"

#include <cstddef>
#include <cstdlib>
#include <exception>

#include "base/print.h"
#include "fiber/fault.h"
#include "os/backtrace.h"
#include "sched/local.h"
#include "sched/scheduler.h"

namespace magpie::rt {

void print_name(printer& out, const G& g) {
  out << "goroutine " << g.id;
  if (g.extra != nullptr && !g.extra->name.empty()) out << " \"" << g.extra->name.c_str() << '"';
}

namespace {

void describe_fiber(printer& out, const fiber* f) {
  const auto* const address = reinterpret_cast<const std::byte*>(f) - offsetof(G, fiber);
  print_name(out, *reinterpret_cast<const G*>(address));
}

// The calling goroutine: who it is, where it stands, who spawned it.
void print_current_goroutine(printer& out) {
  const G* const g = current_g();
  if (g == nullptr) return;
  out << '\n';
  print_name(out, *g);
  out << " [" << state_text(g->state.load(relaxed)) << "]:\n";  // relaxed: its own
  os::print_backtrace(out);
  out << "created by ";
  os::print_call_site(out, g->spawn_site);
  out << '\n';
}

std::terminate_handler g_earlier_terminate = nullptr;

// std::terminate is called with nothing unwound: the stack still shows where it was thrown.
[[noreturn]] void on_terminate() {
  if (const G* const g = current_g()) {
    printer out;
    out << "magpie: fatal error: "
        << (std::current_exception() != nullptr ? "an exception escaped from "
                                                : "std::terminate was called in ");
    print_name(out, *g);
    out << '\n';
    print_current_goroutine(out);
  }
  if (g_earlier_terminate != nullptr) g_earlier_terminate();
  std::abort();
}

}  // namespace

void install_reports() {
  static const bool once = [] {
    install_fault_reporter();
    set_fiber_describer(describe_fiber);
    set_report_context(print_current_goroutine);
    g_earlier_terminate = std::set_terminate(on_terminate);
    return true;
  }();
  (void)once;
}

}  // namespace magpie::rt
