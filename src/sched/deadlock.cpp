// deadlock.cpp: every goroutine waits, and nobody is left who could wake one.
//
// Comes from: an M that is about to sleep, with the lock held.
//
// Only what is certain is reported. A plain thread may wake a goroutine at any time, unless it
// waits itself (outside.h); one that has not used a runtime so far may begin to, and so may the
// goroutines of another runtime: as long as the process has a thread that is not known to sleep
// here, nothing is said. A thread inside a blocking call comes back and may wake somebody, too.

#include "fiber/sanitizer.h"
#include "os/thread.h"
#include "sched/debug_settings.h"
#include "sched/outside.h"
#include "sched/report.h"
#include "sched/scheduler.h"
#include "sched/service.h"

namespace magpie::rt {

// All goroutines wait; or those that do not can have no thread, because every one there may be is
// kept by a goroutine that is locked to it, and waits.
bool scheduler::nothing_moves_locked() const {
  // First: what an expired timer has woken is to be seen in what follows.
  if (timers_may_wake() || io_waiters() != 0) return false;
  const auto threads = static_cast<std::size_t>(threads_);
  return wish_count_ == 0 && !stopping_ && !paused_ &&
         idle_ps_.size() == static_cast<std::size_t>(procs()) &&
         idle_ms_.size() + locked_sleepers_ == threads &&
         (global_.length() == 0 ||
          (locked_sleepers_ == threads && threads_ >= settings.max_threads)) &&
         live_goroutines() != 0;
}

bool scheduler::nobody_outside_moves_locked() const {
  return all_outside_threads_wait() && os::thread_count() == threads_known_to_sleep_locked();
}

// This runtime's and those that wait for it.
int scheduler::threads_known_to_sleep_locked() const {
  constexpr int k_of_the_sanitizer = sanitizer::k_thread ? 1 : 0;
  // The spawner, the monitor, the service, the trace's.
  const int helpers =
      1 + (debugging().nosysmon ? 0 : 1) + service_threads() + trace::recorder_threads();
  return threads_ + helpers + waiting_outside_threads() + k_of_the_sanitizer;
}

bool scheduler::check_deadlock() {
  const os::lock_guard hold(lock_);
  if (!nothing_moves_locked()) return false;
  if (global_.length() != 0) {
    // A locked one may have come there after the last look at it.
    P* const p = take_idle_p_locked();
    if (hand_to_locked_sleeper_locked(p)) return false;
    put_idle_locked(p);
  }
  if (nobody_outside_moves_locked()) report_deadlock_locked();
  return true;
}

// The lock stays held: another thread that is about to sleep would report the same.
void scheduler::report_deadlock_locked() {
  fatal_report report("fatal error");
  printer& out = report.text();
  if (global_.length() == 0) {
    out << "all goroutines are asleep - deadlock!\n";
  } else {
    out << "no thread for a goroutine that could run: every thread is locked to one that waits,"
           " and max_threads="
        << settings.max_threads << " allows no more\n";
  }
  holds_lock_while_dying_ = true;
  out.flush();
  print_last_trace(out);
  if (traceback() != traceback_level::none) print_all(out);
  report.end();
}

}  // namespace magpie::rt
