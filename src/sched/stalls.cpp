// stalls.cpp: a goroutine blocks its thread, in code that does not say so. Nobody else is stopped
// by it, but a thread is bound for it, and its P was idle until the monitor noticed: blocking() or
// the runtime's own calls would be better. So it is said, once for each place in the program.
//
// Comes from: the monitor, when it takes a P from a thread that sleeps, and when it finds that the
//             thread still does.
// Goes to:    standard error, by way of the service: to find names of functions takes long, and a
//             lock of the dynamic linker, whose holder may be stopped, or be the one that sleeps.
//             Everybody needs the monitor, and the spawner.
//
// A place is a stack: where the thread sleeps is a function of the C library, mostly, which many
// call.

#include <algorithm>

#include "base/print.h"
#include "os/lock.h"
#include "os/mapped_text.h"
#include "sched/arena.h"
#include "sched/debug_settings.h"
#include "sched/report.h"
#include "sched/scheduler.h"
#include "sched/service.h"
#include "sched/snapshot.h"
#include "sched/stalls.h"

namespace magpie::rt {
namespace {

// Shorter ones are nothing to talk about, unless all are asked for.
constexpr os::nanos k_stall = 20'000'000;
// Between two of them, so that a program that blocks everywhere has other things to do.
constexpr os::nanos k_pause = 100'000'000;
constexpr std::size_t k_frames = 16;

// What the monitor has seen.
struct stall {
  std::uint64_t goroutine = 0, parent = 0;
  const void* spawn_site = nullptr;
  os::thread_view view;
  os::nanos time = 0;
  std::size_t words = 0;
  std::uintptr_t stack[256] = {};  // the top of it
};

// One at a time; the next one is seen again.
constinit os::lock g_lock{os::lock_rank::leaf};
constinit stall g_seen;             // under the lock
constinit bool g_has_seen = false;  // as above

// What has been said.
struct said_places {
  static constexpr std::size_t k_most = 64;
  std::uint64_t places[k_most] = {};
  std::size_t count = 0;

  // True: it is the first one there.
  bool add(std::uint64_t place) {
    const auto end = places + count;
    if (std::find(places, end, place) != end || count == k_most) return false;
    places[count++] = place;
    return true;
  }
};
constinit said_places g_said;  // the service's own

std::uint64_t place_of(const std::uintptr_t* frames, std::size_t count) {
  std::uint64_t hash = count;
  for (std::size_t i = 0; i < count; ++i) {
    hash = (hash ^ frames[i]) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

// Whether it would be said now that this orphan sleeps.
bool scheduler::may_note_stall_locked(const M& m, os::nanos now) const {
  const stall_mode mode = debugging().stalls;
  if (mode == stall_mode::silent || m.orphan.reported || service_threads() == 0) return false;
  if (mode == stall_mode::all) return true;
  return now - m.orphan.asleep_since >= k_stall && now - last_stall_ >= k_pause;
}

// An orphan that sleeps, as it was just seen.
void scheduler::note_stall_locked(M& m, const os::thread_view& view, os::nanos now) {
  if (!may_note_stall_locked(m, now)) return;
  {
    const os::lock_guard hold(g_lock);
    if (g_has_seen) return;
    g_has_seen = true;
    const G& g = *m.current;
    g_seen = {g.id, origin_of(g).parent, g.spawn_site, view, now - m.orphan.asleep_since, 0, {}};
    const auto high = reinterpret_cast<std::uintptr_t>(g.fiber.stack->high);
    if (view.stack_pointer != 0 && view.stack_pointer < high) {
      const std::size_t size =
          std::min<std::size_t>(high - view.stack_pointer, sizeof g_seen.stack);
      g_seen.words = os::copy_memory(view.stack_pointer, g_seen.stack, size) / sizeof *g_seen.stack;
    }
  }
  m.orphan.reported = true;
  last_stall_ = now;
  wake_service();
}

void report_stall() {
  stall found;
  {
    const os::lock_guard hold(g_lock);
    if (!g_has_seen) return;
    found = g_seen;
    g_has_seen = false;
  }
  std::uintptr_t frames[k_frames];
  const std::size_t count = walk_sleeper(found.view, found.stack, found.words, frames, k_frames);
  const bool is_new = g_said.add(place_of(frames, count));
  if (!is_new && debugging().stalls != stall_mode::all) return;
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
  print_stack(out, frames, count, found.spawn_site, found.parent);
  out.flush();
  print_soon(text.text());
}

}  // namespace magpie::rt
