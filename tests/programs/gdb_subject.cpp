// Goroutines in every state, for gdb to look at: stops in all_is_set_up(). With an argument it
// leaves a core file there.

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

#include <magpie/magpie.h>

using namespace magpie;
using namespace std::chrono_literals;

namespace {

std::atomic<bool> g_over{false};
int g_pipe[2];
std::atomic<int> g_ready{0};
channel<int> g_full(3);
channel<int> g_empty;
channel<int> g_nil(nullptr);
mutex g_mutex;
[[maybe_unused]] mutex g_free_mutex;  // the test prints it

}  // namespace

// Not in the unnamed namespace and never inlined: the test looks for these names.
[[gnu::noinline]] void wait_in_inner(int answer) {
  volatile int kept = answer + 1;
  ++g_ready;
  g_empty.receive();
  kept = kept + 1;
}
[[gnu::noinline]] void wait_in_outer() {
  wait_in_inner(41);
  asm volatile("");
}

[[gnu::noinline]] void hold_the_mutex() {
  const std::scoped_lock hold(g_mutex);
  ++g_ready;
  this_goroutine::sleep_for(1h);
}

[[gnu::noinline]] void want_the_mutex() {
  ++g_ready;
  const std::scoped_lock hold(g_mutex);
}

[[gnu::noinline]] void read_from_pipe() {
  ++g_ready;
  char byte = 0;
  blocking(hand_off_now, [&] { return read(g_pipe[0], &byte, 1); });
}

// Stopped somewhere in the middle.
[[gnu::noinline]] void spin_innermost() {
  while (!g_over.load(std::memory_order_relaxed)) {
  }
}
[[gnu::noinline]] void spin_outermost() {
  spin_innermost();
  asm volatile("");
}

extern "C" [[gnu::noinline]] void all_is_set_up(bool dies) {
  if (dies) std::abort();
}

int main(int count, char**) {
  if (pipe(g_pipe) != 0) return 1;
  g_full.send(7);
  g_full.send(8);
  // At the end all goroutines are still there: the runtime is never destroyed.
  auto& r = *new runtime({.procs = 1, .time_slice = 2ms});
  r.go([] { go({.name = "the receiver"}, wait_in_outer); });
  r.go(hold_the_mutex);
  while (g_ready < 2) std::this_thread::sleep_for(1ms);
  r.go(want_the_mutex);
  r.go(read_from_pipe);
  while (g_ready < 4) std::this_thread::sleep_for(1ms);
  for (int i = 0; i < 2; ++i) r.go(spin_outermost);
  while (r.read_stats().preemptions < 3) std::this_thread::sleep_for(1ms);
  all_is_set_up(count > 1);
  _exit(0);
}
