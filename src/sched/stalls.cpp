// stalls.cpp: a goroutine blocks its thread, in code that does not say so. Nobody else is stopped
// by it, but a thread is bound for it, and its P was idle until the monitor noticed: blocking() or
// the runtime's own calls would be better. So it is said, once for each place in the program.
//
// Comes from: the monitor, when it takes a P from a thread that sleeps, and when it finds that the
//             thread still does.
// Goes to:    standard error, by way of the spawner: to find names of functions takes a lock of the
//             dynamic linker, whose holder may be stopped, and everybody needs the monitor. It is
//             printed by the service: everybody needs the spawner, too.

#include <algorithm>

#include "os/mapped_text.h"
#include "sched/arena.h"
#include "sched/debug_settings.h"
#include "sched/report.h"
#include "sched/scheduler.h"
#include "sched/service.h"
#include "sched/snapshot.h"

namespace magpie::rt {
namespace {

// Shorter ones are nothing to talk about, unless all are asked for.
constexpr os::nanos k_stall = 20'000'000;
// Between two reports, so that a program that blocks everywhere does not drown in them.
constexpr os::nanos k_pause = 100'000'000;
constexpr std::size_t k_frames = 16;

}  // namespace

// True: it is the first one there.
bool scheduler::stall_log::is_new(std::uintptr_t place) {
  const auto end = places + count;
  if (std::find(places, end, place) != end || count == k_places) return false;
  places[count++] = place;
  return true;
}

// An orphan that sleeps, as it was just seen.
void scheduler::note_stall_locked(M& m, const os::thread_view& view, os::nanos now) {
  const stall_mode mode = debugging().stalls;
  const bool all = mode == stall_mode::all;
  if (mode == stall_mode::silent || m.orphan.reported || stalls_.pending) return;
  if (!all && (now - m.orphan.asleep_since < k_stall || now - stalls_.last < k_pause)) return;
  m.orphan.reported = true;
  if (!stalls_.is_new(view.program_counter) && !all) return;
  const G& g = *m.current;
  stalls_.last = now;
  stalls_.pending = true;
  stalls_.report = {g.id, origin_of(g).parent, g.spawn_site, view, now - m.orphan.asleep_since, 0,
                    {}};
  const auto high = reinterpret_cast<std::uintptr_t>(g.fiber.stack->high);
  if (view.stack_pointer != 0 && view.stack_pointer < high) {
    const std::size_t size =
        std::min<std::size_t>(high - view.stack_pointer, sizeof stalls_.report.stack);
    stalls_.report.words = os::copy_memory(view.stack_pointer, stalls_.report.stack, size) /
                           sizeof *stalls_.report.stack;
  }
  wake_spawner();
}

// The spawner's.
void scheduler::print_stall() {
  stall_report found;
  {
    const os::lock_guard hold(lock_);
    if (!stalls_.pending) return;
    found = stalls_.report;
    stalls_.pending = false;
  }
  os::mapped_text text;
  printer out(text.sink());
  out << "magpie: goroutine " << found.goroutine << " blocks its thread, for "
      << found.time / 1'000'000 << " ms so far, in ";
  if (const char* const name = os::system_call_name(found.view.system_call)) {
    out << "the system call " << name;
  } else if (found.view.system_call < 0) {
    out << "a page fault";
  } else {
    out << "system call " << found.view.system_call;
  }
  out << ", without blocking(). Others go on on another thread.\n";
  std::uintptr_t frames[k_frames];
  const std::size_t count = walk_sleeper(found.view, found.stack, found.words, frames, k_frames);
  print_stack(out, frames, count, found.spawn_site, found.parent);
  out.flush();
  print_soon(text.text());
}

}  // namespace magpie::rt
