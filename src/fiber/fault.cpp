#include "fiber/fault.h"

#include "base/atomic.h"
#include "base/check.h"
#include "fiber/stack_pool.h"
#include "os/backtrace.h"
#include "os/signal.h"

namespace magpie::rt {
namespace {

void describe_plainly(printer& out, const fiber* f) {
  out << "fiber " << static_cast<const void*>(f);
}

atomic<fiber_describer> g_describer{describe_plainly};
atomic<fault_epilogue> g_epilogue{nullptr};
atomic<bool> g_installed{false};
atomic<bool> g_reporting{false};

// Two threads may fault at once; their reports come one after the other. Not a lock: this runs
// in a signal handler, and the one who faults inside its own report must get through.
class one_report_at_a_time {
 public:
  one_report_at_a_time() {
    constexpr int k_patience = 100'000'000;  // a second or so: then mixed reports beat none
    // acquire and release pair with each other: the reports' writes come in order.
    for (int i = 0; i < k_patience && g_reporting.exchange(true, acquire); ++i) cpu_relax();
  }
  ~one_report_at_a_time() { g_reporting.store(false, release); }  // see the constructor
};

enum class fault_kind {
  foreign,    // not on a stack of ours
  overflow,   // in the guard of the stack it happened on
  stray,      // in the guard of some other stack
  elsewhere,  // on a stack of ours, at an address that has nothing to do with stacks
};

// `address` is in the slot of the stack: see find_stack().
bool in_guard(const stack& s, std::uintptr_t address) {
  return address < reinterpret_cast<std::uintptr_t>(s.low);
}

fault_kind classify(const os::signal_event& event, const stack* running, const stack* touched) {
  const auto address = reinterpret_cast<std::uintptr_t>(event.address);
  if (event.from_kernel && touched != nullptr && in_guard(*touched, address)) {
    return touched == running ? fault_kind::overflow : fault_kind::stray;
  }
  return running != nullptr ? fault_kind::elsewhere : fault_kind::foreign;
}

void describe_fiber(printer& out, const stack& s) {
  // acquire pairs with the release in set_fiber_describer.
  g_describer.load(acquire)(out, s.occupant);
}

void report_overflow(printer& out, const stack& running, const os::signal_event& event) {
  out << "magpie: stack overflow in ";
  describe_fiber(out, running);
  out << ": its stack of " << (running.slot_size() >> 10) << " KiB is full ("
      << (running.usable_size() >> 10) << " KiB above the guard)\n  at address " << event.address
      << ", stack pointer " << hex{event.stack_pointer} << ", stack "
      << static_cast<const void*>(running.low) << " to " << static_cast<const void*>(running.high)
      << '\n';
  os::print_backtrace(out, event, {running.low, running.high});
  out << "  Either the recursion above has no end, or this code needs a larger stack:"
         " spawn_options::stack_size or config::stack_size.\n";
}

void report_other(printer& out, fault_kind kind, const stack* running, const stack* touched,
                  const os::signal_event& event) {
  out << "magpie: invalid memory access at address " << event.address;
  if (running != nullptr) {
    out << " in ";
    describe_fiber(out, *running);
  }
  if (kind == fault_kind::stray) {
    out << ": not an overflow of its own stack, but the guard below the stack of ";
    describe_fiber(out, *touched);
  } else {
    out << ": not a stack overflow";
  }
  out << '\n';
  const os::stack_bounds bounds =
      running != nullptr ? os::stack_bounds{running->low, running->high} : os::stack_bounds{};
  os::print_backtrace(out, event, bounds);
}

void on_fault(const os::signal_event& event) {
  const stack* const running = find_stack(reinterpret_cast<const void*>(event.stack_pointer));
  const stack* const touched = find_stack(event.address);
  const fault_kind kind = classify(event, running, touched);
  // Faults that somebody else handles may be part of the program's normal life: no words then.
  const bool silent = kind == fault_kind::foreign ||
                      (kind == fault_kind::elsewhere && os::has_earlier_handler(event.number));
  if (!silent) {
    const one_report_at_a_time turn;
    printer out;
    if (kind == fault_kind::overflow) {
      report_overflow(out, *running, event);
    } else {
      report_other(out, kind, running, touched, event);
    }
    out.flush();
    // acquire pairs with the release in set_fault_epilogue.
    if (const fault_epilogue epilogue = g_epilogue.load(acquire)) epilogue(out, event);
  }
  event.pass_on();
}

}  // namespace

void set_fiber_describer(fiber_describer describer) {
  g_describer.store(describer, release);  // pairs with the acquire in describe_fiber
}

void set_fault_epilogue(fault_epilogue epilogue) {
  g_epilogue.store(epilogue, release);  // pairs with the acquire in on_fault
}

void install_fault_reporter() {
  if (g_installed.exchange(true, relaxed)) return;  // relaxed: only picks who installs
  os::prepare_backtraces();
  const os::error refused = os::install_signal_handler(os::k_segmentation_fault, on_fault);
  MAGPIE_CHECK(!refused, "the fault handler cannot be installed");
}

}  // namespace magpie::rt
