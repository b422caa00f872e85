#include "sched/defaults.h"

#include <cstdlib>
#include <string_view>

#include <magpie/errors.h>

#include "os/environment.h"
#include "os/random.h"
#include "os/signal.h"
#include "sched/debug_settings.h"

namespace magpie::rt {
namespace {

constinit os::lock g_lock{os::lock_rank::runtimes};
atomic<runtime*> g_default{nullptr};
config g_settings;  // as asked for; under g_lock

int procs_from_environment() {
  const char* const text = os::environment("MAGPIE_PROCS");
  if (text == nullptr || *text == '\0') return 0;
  char* end = nullptr;
  const long count = std::strtol(text, &end, 10);
  if (*end != '\0' || count < 1 || count > k_most_procs) {
    fatal("MAGPIE_PROCS=", text, ": expected a number from 1 to ", k_most_procs);
  }
  return static_cast<int>(count);
}

int preempt_signal_from_environment() {
  const char* const text = os::environment("MAGPIE_PREEMPT_SIGNAL");
  if (text == nullptr || *text == '\0') return os::k_urgent_data;
  char* end = nullptr;
  const long number = std::strtol(text, &end, 10);
  if (*end != '\0' || number > 64 || !os::is_free_for_use(static_cast<int>(number))) {
    fatal("MAGPIE_PREEMPT_SIGNAL=", text, ": expected the number of a signal that is free for use");
  }
  return static_cast<int>(number);
}

io_backend io_from_environment() {
  const char* const text = os::environment("MAGPIE_IO");
  if (text == nullptr || *text == '\0') return io_backend::automatic;
  const std::string_view word = text;
  if (word == "epoll") return io_backend::epoll;
  if (word == "io_uring") return io_backend::io_uring;
  fatal("MAGPIE_IO=", text, ": expected epoll or io_uring");
}

void check_io_uring() {
  file_ring* const ring = file_ring::create();
  if (ring == nullptr)
    throw misuse("config: io_uring was asked for, but the kernel has none or forbids it");
  ring->destroy();
}

bool same(const config& a, const config& b) {
  return a.procs == b.procs && a.stack_size == b.stack_size && a.max_threads == b.max_threads &&
         a.time_slice == b.time_slice && a.seed == b.seed && a.preempt == b.preempt &&
         a.preempt_signal == b.preempt_signal && a.preempt_by == b.preempt_by && a.io == b.io;
}

// Kept in memory that is never destroyed: goroutines run until the process ends.
runtime* start(const config& settings) {
  auto* const made = new runtime(settings);
  g_settings = settings;
  g_default.store(made, release);  // pairs with the acquires below
  return made;
}

#if defined(MAGPIE_ASAN)
// Runs before LeakSanitizer looks, as that for stacks in fiber/stack_pool.cpp.
[[gnu::destructor]] void show_closures_to_leak_check() {
  // acquire pairs with the release in start().
  runtime* const running = g_default.load(acquire);
  if (running != nullptr) scheduler_of(*running).show_closures_to_leak_check();
}
#endif

}  // namespace

config with_defaults(config settings) {
  if (class_for(settings.stack_size) == k_no_class)
    throw misuse("config: no stack can be that large");
  if (settings.procs < 0 || settings.procs > k_most_procs) {
    throw misuse("config: procs must be from 1 to 1024, or 0 for all that may be used");
  }
  if (settings.max_threads < 1) throw misuse("config: max_threads must be at least 1");
  if (settings.time_slice.count() <= 0) throw misuse("config: a time slice must have some length");
  if (settings.preempt_signal == 0) settings.preempt_signal = preempt_signal_from_environment();
  if (!os::is_free_for_use(settings.preempt_signal)) {
    throw misuse("config: preempt_signal must be a signal that is free for use");
  }
  if (settings.io == io_backend::automatic) settings.io = io_from_environment();
  if (settings.io == io_backend::io_uring) check_io_uring();
  if (settings.procs == 0) settings.procs = procs_from_environment();
  if (settings.seed == 0) settings.seed = debugging().seed;
  if (settings.seed == 0) settings.seed = os::random_seed();
  return settings;
}

runtime& default_runtime() {
  // acquire pairs with the release in start().
  if (runtime* const running = g_default.load(acquire)) return *running;
  const os::lock_guard hold(g_lock);
  runtime* const running = g_default.load(relaxed);  // relaxed: written under the lock
  return running != nullptr ? *running : *start({});
}

scheduler& default_scheduler() { return scheduler_of(default_runtime()); }

scheduler& start_default_scheduler(const config& settings) {
  const os::lock_guard hold(g_lock);
  runtime* running = g_default.load(relaxed);  // relaxed: written under the lock
  if (running == nullptr) {
    running = start(settings);
  } else if (!same(settings, g_settings)) {
    throw misuse("run: the default runtime runs already, with other settings");
  }
  return scheduler_of(*running);
}

destination find_destination(scheduler* where, M* m) {
  if (where == nullptr) {
    const M* const here = current_m();  // `m` is null inside blocking()
    where = here != nullptr ? &here->scheduler_ : &default_scheduler();
  }
  return {*where, m != nullptr && &m->scheduler_ == where ? m : nullptr};
}

}  // namespace magpie::rt
