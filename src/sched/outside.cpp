#include "sched/outside.h"

#include "base/atomic.h"

namespace magpie::rt {
namespace {

// seq_cst throughout: rare operations, and two counters that are compared with each other.
atomic<int> g_threads{0};
atomic<int> g_waiting{0};

struct presence {
  bool counted = false;
  ~presence() {
    if (counted) g_threads.fetch_sub(1);
  }
};
thread_local presence t_presence;

}  // namespace

void note_outside_thread() {
  if (t_presence.counted) return;
  t_presence.counted = true;
  g_threads.fetch_add(1);
}

void outside_wait_begins() { g_waiting.fetch_add(1); }
void outside_wait_ends() { g_waiting.fetch_sub(1); }

int waiting_outside_threads() { return g_waiting.load(); }

bool all_outside_threads_wait() { return g_waiting.load() == g_threads.load(); }

}  // namespace magpie::rt
