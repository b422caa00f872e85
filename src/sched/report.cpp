#include "sched/report.h"

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "base/print.h"
#include "base/text.h"
#include "fiber/fault.h"
#include "os/backtrace.h"
#include "os/clock.h"
#include "os/environment.h"
#include "os/fork.h"
#include "os/signal.h"
#include "sched/local.h"
#include "sched/scheduler.h"
#include "sched/service.h"
#include "trace/recorder.h"

namespace magpie::rt {
namespace {

traceback_level read_traceback_level() {
  const char* const text = os::environment("MAGPIE_TRACEBACK");
  if (text == nullptr || *text == '\0') return traceback_level::single;
  const std::string_view word = text;
  if (word == "none") return traceback_level::none;
  if (word == "single") return traceback_level::single;
  if (word == "all") return traceback_level::all;
  if (word == "crash") return traceback_level::crash;
  fatal("MAGPIE_TRACEBACK=", text, ": expected none, single, all or crash");
}

bool shows_all() { return traceback() >= traceback_level::all && !os::in_forked_child(); }

}  // namespace

traceback_level traceback() {
  static const traceback_level level = read_traceback_level();
  return level;
}

void print_name(printer& out, const G& g) {
  out << "goroutine " << g.id;
  if (g.extra == nullptr || g.extra->name.empty()) return;
  out << " \"";
  print_safely(out, g.extra->name);
  out << '"';
}

namespace {

void describe_fiber(printer& out, const fiber* f) {
  const auto* const address = reinterpret_cast<const std::byte*>(f) - offsetof(G, fiber);
  print_name(out, *reinterpret_cast<const G*>(address));
}

// While one exists the calling thread counts as inside the gate: it may sleep until somebody
// answers, and that is no stall to be reported in the middle of a report.
class quiet_sleep {
 public:
  quiet_sleep() : m_(current_m()) { change(1); }
  ~quiet_sleep() { change(static_cast<std::uint32_t>(-1)); }
  quiet_sleep(const quiet_sleep&) = delete;
  quiet_sleep& operator=(const quiet_sleep&) = delete;

 private:
  // relaxed: only this thread writes it, and nothing of the P is touched; release: as in leave().
  void change(std::uint32_t by) {
    if (m_ != nullptr) m_->depth.store(m_->depth.load(relaxed) + by, release);
  }
  M* const m_;
};

constexpr os::nanos k_patience_with_recorder = 1'000'000'000;

// A trace of the process that ends now shows what led to it.
void save_trace() {
  const quiet_sleep quiet;
  if (!os::in_forked_child()) trace::save_before_death(k_patience_with_recorder);
}

constinit atomic<bool> g_all_shown{false};

void print_context(printer& out) {
  // relaxed: by this thread, which alone reports.
  if (traceback() == traceback_level::none || g_all_shown.load(relaxed)) return;
  const quiet_sleep quiet;
  if (shows_all()) return print_all(out);
  if (current_g() == nullptr) return;
  out << '\n';
  print_goroutines(out, report_scope::caller);
}

// What a fatal report ends with.
void end_report(printer& out) {
  const quiet_sleep quiet;
  print_last_trace(out);
  print_context(out);
  out.flush();
  save_trace();
}

// The stack of the one that faulted was shown, as far as that needs no tables: now with names.
void end_fault_report(printer& out, const os::signal_event& event) {
  const quiet_sleep quiet;
  print_last_trace(out);
  if (traceback() != traceback_level::none && current_g() != nullptr) {
    out << '\n';
    print_faulting(out, event);
  }
  if (shows_all()) {
    out << '\n';
    print_goroutines(out, report_scope::others);
  }
  out.flush();
  save_trace();
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
    out.flush();
    print_last_trace(out);
    print_context(out);
  }
  save_trace();
  if (g_earlier_terminate != nullptr) g_earlier_terminate();
  std::abort();
}

// ---- SIGQUIT ----------------------------------------------------------------------------------

constexpr os::nanos k_twice = 1'000'000'000;
atomic<os::nanos> g_last_quit{-k_twice};

// What `magpie dump PID` queues it with: this, plus the number of a descriptor it has open for us.
constexpr int k_dump_here = 0x6d616700;

// The second one within a second does what it does everywhere: it ends the process.
void on_quit(const os::signal_event& event) {
  const int descriptor = event.value - k_dump_here;
  if (descriptor >= 0 && descriptor < 256) {
    // It is not meant to end anything: neither where nobody answers, nor when two ask within a
    // second. Who asks from outside of a container has no number here, and finds it on standard
    // error.
    const bool is_known = event.sender > 0;
    if (service_threads() != 0) {
      request_dump(is_known ? dump_target{event.sender, descriptor} : dump_target{});
    }
    return;
  }
  const os::nanos now = os::now();
  const os::nanos last = g_last_quit.exchange(now, relaxed);  // relaxed: a number
  if (now - last < k_twice || service_threads() == 0 || os::in_forked_child()) {
    return event.pass_on();
  }
  request_dump({});
}

}  // namespace

void print_all(printer& out) {
  g_all_shown.store(true, relaxed);  // relaxed: see print_context()
  out << '\n';
  print_goroutines(out, report_scope::all);
}

void install_reports() {
  static const bool once = [] {
    traceback();
    install_fault_reporter();
    set_fiber_describer(describe_fiber);
    set_fault_epilogue(end_fault_report);
    set_report_context(end_report);
    g_earlier_terminate = std::set_terminate(on_terminate);
    // Who has a handler of its own, or wants to be left alone, keeps what it has.
    if (os::has_default_action(os::k_quit)) (void)os::install_signal_handler(os::k_quit, on_quit);
    return true;
  }();
  (void)once;
}

}  // namespace magpie::rt
