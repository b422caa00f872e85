// deadlock.cpp: every goroutine waits, and nobody is left who could wake one.
//
// Comes from: an M that is about to sleep, with the lock held.
//
// Only what is certain is reported. A plain thread may wake a goroutine at any time, unless it
// waits itself (outside.h); one that has not used a runtime so far may begin to, and so may the
// goroutines of another runtime: as long as the process has a thread that is not known to sleep
// here, nothing is said. A thread inside a blocking call comes back and may wake somebody, too.

#include "fiber/sanitizer.h"
#include "os/backtrace.h"
#include "os/thread.h"
#include "sched/arena.h"
#include "sched/local.h"
#include "sched/outside.h"
#include "sched/report.h"
#include "sched/scheduler.h"
#include "sched/waiting.h"

namespace magpie::rt {

bool scheduler::all_goroutines_wait_locked() const {
  // First: what an expired timer has woken is to be seen in what follows.
  if (timers_may_wake() || io_waiters() != 0) return false;
  return wish_count_ == 0 && !stopping_ && idle_ps_.size() == static_cast<std::size_t>(procs()) &&
         idle_ms_.size() + locked_sleepers_ == static_cast<std::size_t>(threads_) &&
         global_.length() == 0 && live_goroutines() != 0;
}

bool scheduler::nobody_can_move_locked() const {
  return all_goroutines_wait_locked() && all_outside_threads_wait() &&
         os::thread_count() == threads_known_to_sleep_locked();
}

// This runtime's and those that wait for it.
int scheduler::threads_known_to_sleep_locked() const {
  constexpr int k_of_the_sanitizer = sanitizer::k_thread ? 1 : 0;
  // The spawner, the monitor, the trace's.
  const int helpers = 1 + (monitor_.joinable() ? 1 : 0) + trace::recorder_threads();
  return threads_ + helpers + waiting_outside_threads() + k_of_the_sanitizer;
}

bool scheduler::check_deadlock() {
  const os::lock_guard hold(lock_);
  if (nobody_can_move_locked()) report_deadlock_locked();
  return all_goroutines_wait_locked();
}

// Whose stack it is; null: that of no goroutine here.
const G* scheduler::goroutine_at_locked(const void* place) const {
  const auto* const address = static_cast<const char*>(place);
  const G* found = nullptr;
  for_each_g_locked([&](const G& g) {
    const stack* const on = g.fiber.stack;
    if (on == nullptr || address < on->low || address >= on->high) return;
    if (on->occupant == &g.fiber || found == nullptr) found = &g;  // one may run on another's
  });
  return found;
}

void scheduler::print_what_it_waits_for_locked(printer& out, const G& g) const {
  const waiter* const as = g.waits_as;
  if (as == nullptr || as->object == nullptr) return;
  out << "  waits in " << as->object;
  if (as->holder != nullptr) {
    out << ", held by ";
    // relaxed: nobody runs.
    if (const G* const holder = goroutine_at_locked(as->holder->load(relaxed))) {
      print_name(out, *holder);
    } else {
      out << "a thread that is no goroutine";
    }
  }
  out << '\n';
}

void scheduler::report_deadlock_locked() {
  fatal_report report("fatal error");
  printer& out = report.text();
  out << "all goroutines are asleep - deadlock!\n";
  for_each_g_locked([this, &out](const G& g) {
    if (g.state.load(relaxed) != goroutine_state::waiting) return;  // relaxed: nobody runs
    out << '\n';
    print_name(out, g);
    out << " [" << wait_reason_text(g.waits_for.load(relaxed)) << "]:\n";  // as above
    print_what_it_waits_for_locked(out, g);
    if (g.fiber.stack != nullptr) {
      os::print_parked_backtrace(
          out, reinterpret_cast<std::uintptr_t>(g.fiber.registers.program_counter),
          reinterpret_cast<std::uintptr_t>(g.fiber.registers.frame_pointer),
          {g.fiber.stack->low, g.fiber.stack->high});
    }
    out << "created by ";
    os::print_call_site(out, g.spawn_site);
    out << '\n';
  });
  report.end();
}

}  // namespace magpie::rt
