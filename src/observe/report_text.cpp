// report_text.cpp: what sched/report.h asks for: goroutines in the reports of a process that ends.
//
// Names of functions are demangled with the help of the heap, which may be broken or locked by
// then. So somebody else is asked to do it, for a moment only; if that does not help, they stay as
// the compiler wrote them.

#include <cstdlib>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "observe/goroutine_text.h"
#include "os/file.h"
#include "os/memory.h"
#include "sched/report.h"
#include "sched/snapshot.h"

namespace magpie::rt {
namespace {

constexpr os::nanos k_patience = 300'000'000;
constexpr int k_standard_error = 2;

// Never destroyed: the service may get to it late.
template <class T, class... Arguments>
T& make_for_good(Arguments&&... arguments) {
  const auto memory = os::allocate_records(sizeof(T));
  if (!memory) std::abort();
  return *new (*memory) T(std::forward<Arguments>(arguments)...);
}

// Both made for good.
void print_with_names(printer& out, const snapshot& s) {
  const bool detailed = traceback() == traceback_level::crash;
  goroutine_text& text = make_for_good<goroutine_text>(
      s, goroutine_text::options{.names = code_names::style::mangled, .runtime_frames = detailed});
  ask_service([](void* raw) { static_cast<goroutine_text*>(raw)->demangle(); }, &text, k_patience);
  text.print(out);
}

}  // namespace

void print_goroutines(printer& out, report_scope scope) {
  snapshot& s = make_for_good<snapshot>();
  bool whole = true;
  if (scope == report_scope::caller) {
    s.take_caller();
  } else {
    whole = s.take(snapshot::caution::dying);
    if (scope == report_scope::others) s.remove_caller();
  }
  print_with_names(out, s);
  if (!whole) out << "\nNot all goroutines are shown: a lock of the scheduler is held.\n";
  out.flush();
}

void print_faulting(printer& out, const os::signal_event& event) {
  snapshot& s = make_for_good<snapshot>();
  s.take_caller(event);
  print_with_names(out, s);
  out.flush();
}

void dump_on_request(dump_target target) {
  if (target.process != 0) {
    // Of the process that asked, if it is still there and may be looked into. This opens the pipe
    // once more, so that it is ours alone not to block in it: who asks and then does not read must
    // not keep the service, for which the end of the last runtime waits.
    const std::string path =
        "/proc/" + std::to_string(target.process) + "/fd/" + std::to_string(target.descriptor);
    const auto to = os::open_path(path.c_str(), {.write = true, .nonblocking = true}, 0);
    if (to) return dump_to(to->get(), k_patience_with_reader, "");
  }
  dump_to(k_standard_error, k_patience_with_reader, "SIGQUIT: ");
}

void print_stack(printer& out, const std::uintptr_t* frames, std::size_t count,
                 const void* spawn_site, std::uint64_t parent) {
  code_names names;
  for (std::size_t i = 0; i < count; ++i) names.want(frames[i]);
  names.want_call(spawn_site);
  names.look_up(code_names::style::demangled);
  const hidden_frames hidden(names, std::span(frames, count));
  for (std::size_t i = 0; i < count; ++i) {
    if (!hidden(frames[i])) print_frame(out, names, frames[i]);
  }
  print_creator(out, names, spawn_site, parent);
}

}  // namespace magpie::rt
