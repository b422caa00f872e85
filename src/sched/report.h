// How goroutines show in the reports of a process that ends: exceptions that escape, fatal
// errors, stack overflows, a deadlock; and when SIGQUIT asks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/print.h"
#include "goroutine/g.h"
#include "os/clock.h"
#include "os/signal.h"

namespace magpie::rt {

// MAGPIE_TRACEBACK: what a process says about its goroutines before it ends.
enum class traceback_level {
  none,
  single,  // the one that ends it; in a deadlock all of them
  all,
  crash,  // all, with the scheduler's own frames
};
traceback_level traceback();

// goroutine 17 "name"
void print_name(printer&, const G&);

// For the process; later calls do nothing.
void install_reports();

// All goroutines, while the process ends; the rest of the report then shows none.
void print_all(printer&);

// All that scheddetail shows, if MAGPIE_DEBUG asks for such lines; while the process ends, once.
void print_last_trace(printer&);

// ---- Written in src/observe/, which is above: names and lines are looked up there -------------

enum class report_scope {
  caller,  // the calling goroutine; nothing on a plain thread
  others,  // all but that one
  all,
};
// While the process ends; without the heap and without waiting for anybody for long.
void print_goroutines(printer&, report_scope);

// Where a dump goes: to a descriptor of another process, which has asked for it, or else to
// standard error.
struct alignas(8) dump_target {
  int process = 0;
  int descriptor = 0;
  bool operator==(const dump_target&) const = default;
};
// How long whoever reads a dump, or what else the service prints, may take for a part of it.
inline constexpr os::nanos k_patience_with_reader = 10'000'000'000;
// The service's: what SIGQUIT asks for.
void dump_on_request(dump_target);

// Frames given by addresses inside of their instructions, and who spawned the goroutine. Takes the
// heap, and locks of libc.
void print_stack(printer&, const std::uintptr_t* frames, std::size_t count, const void* spawn_site,
                 std::uint64_t parent);

// The calling goroutine as it was when it faulted. As print_goroutines().
void print_faulting(printer&, const os::signal_event&);

// ---- Written here, for those above ------------------------------------------------------------

// See service.h.
bool ask_service(void (*job)(void*), void* argument, os::nanos patience);

}  // namespace magpie::rt
