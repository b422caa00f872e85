// The runtime: threads that run goroutines. One is started by itself when the first goroutine is;
// programs that want more, or other settings, make their own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <magpie/async.h>
#include <magpie/export.h>
#include <magpie/go.h>

namespace magpie {

class runtime;
namespace rt {
scheduler& scheduler_of(const runtime&);
}

// How a goroutine that has used up its time slice is stopped, when it makes no call into the
// runtime: by a signal to its thread, whose handler waits there until its turn comes again.
enum class preempt_trigger {
  // When the slice is over. A blocking call that the thread has just begun may end early with
  // EINTR, where SA_RESTART does not help: poll, nanosleep and others.
  signal,
  // By a timer that counts the thread's CPU time: at the kernel's next tick, some milliseconds
  // late, and as good as never inside a call.
  cpu_timer,
};

// How files are read and written. Sockets are waited for with epoll in any case, which does what
// they need with fewer system calls.
enum class io_backend {
  automatic,  // MAGPIE_IO, else io_uring where the kernel allows it
  epoll,      // never io_uring: a thread for each file operation that takes long
  io_uring,   // every file operation; an error where the kernel does not allow it
};

struct config {
  int procs = 0;  // Ps: how many goroutines run at once. 0: MAGPIE_PROCS, else
                  // the CPUs that affinity and cgroup quota allow, followed live
  std::size_t stack_size = 256 * 1024;  // address space per goroutine; memory as it is touched
  int max_threads = 10000;
  std::chrono::nanoseconds time_slice = std::chrono::milliseconds(10);
  bool preempt = true;     // stop goroutines that overrun their slice at any instruction, by signal
  int preempt_signal = 0;  // 0: MAGPIE_PREEMPT_SIGNAL, else SIGURG. A handler that was there before
                           // is still called for signals that are not ours
  io_backend io = io_backend::automatic;
  std::uint64_t seed = 0;  // of all random choices; 0: from the OS
  preempt_trigger preempt_by = preempt_trigger::signal;
};

// A moment's view; the numbers are read one after the other.
struct stats {
  std::uint64_t goroutines = 0;  // alive
  std::uint64_t spawned = 0, finished = 0;
  int threads = 0, threads_peak = 0, idle_threads = 0;
  int procs = 0, idle_procs = 0, spinning = 0;
  std::uint64_t steals = 0;  // times a P took goroutines from another
  std::uint64_t stolen = 0;  // goroutines taken that way
  std::uint64_t steal_attempts = 0;
  std::uint64_t hand_offs = 0, retakes = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t parks = 0, readies = 0;
  std::size_t global_queue_length = 0;
  std::vector<std::size_t> local_queue_lengths;
  std::uint64_t netpoll_wakeups = 0, timer_fires = 0;
};

class MAGPIE_API runtime {
 public:
  explicit runtime(config settings = {});
  // Waits until every goroutine of it has ended. Not from one of them.
  ~runtime();
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;

  // Runs f as a goroutine of this runtime and waits for it: its value, or its exception.
  template <class F>
  [[gnu::always_inline]] auto run(F&& f) {
    return async_on({scheduler_}, std::forward<F>(f)).get();
  }
  template <class F, class... Args>
  [[gnu::always_inline]] void go(F&& f, Args&&... args) {
    detail::spawn({scheduler_},
                  detail::bind_decayed(std::forward<F>(f), std::forward<Args>(args)...));
  }

  int procs() const;
  // Returns the old number. At any time; n <= 0 only asks. An explicit number ends the live
  // following of affinity and quota.
  int set_procs(int n);
  stats read_stats() const;

  // The caller's, or the default runtime, started if need be.
  static runtime& current();

 private:
  friend rt::scheduler& rt::scheduler_of(const runtime&);
  rt::scheduler* scheduler_;
};

namespace detail {
// Starts the default runtime with these settings; misuse when it runs with others already.
MAGPIE_API rt::scheduler* start_default(const config&);
}  // namespace detail

// Runs f as a goroutine of the default runtime (started if need be) and waits for it: returns its
// value or throws its exception. Other goroutines go on until the process ends. Inside a
// goroutine: runs f in a new one of the same runtime.
template <class F>
[[gnu::always_inline]] inline auto run(F&& f) {
  return async(std::forward<F>(f)).get();
}
// With settings for the default runtime; misuse when it runs with others already.
template <class F>
[[gnu::always_inline]] inline auto run(const config& settings, F&& f) {
  return async_on({detail::start_default(settings)}, std::forward<F>(f)).get();
}

// Of the current runtime; see runtime.
MAGPIE_API int procs();
MAGPIE_API int set_procs(int n);
MAGPIE_API std::size_t goroutine_count();

// How many CPUs this process may keep busy: those its affinity mask allows, and no more than its
// cgroup quota pays for. The tightest of nested quotas counts (cgroup v1 and v2), rounded up and
// never taken for less than 2. At least 1, because one CPU may be all the mask allows.
//
// The answer is as at the start of the process: later changes of mask or quota do not show; they do
// in procs(). Any thread.
MAGPIE_API int cpu_count();

}  // namespace magpie
