// A goroutine is stopped by a pause while it holds the lock of the heap, and the runtime is about
// to make a thread, which needs the heap. The pause must begin all the same, and end.

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string_view>
#include <thread>

#include <magpie/magpie.h>

#include "fiber/sanitizer.h"
#include "sched/scheduler.h"

using namespace magpie;

namespace {

std::mutex g_heap;
std::atomic<int> g_waiting{0};
std::atomic<bool> g_is_held{false};

}  // namespace

// The sanitizers have their own.
#if !defined(MAGPIE_ASAN) && !defined(MAGPIE_TSAN)
void* operator new(std::size_t size) {
  if (g_is_held) ++g_waiting;
  const std::lock_guard hold(g_heap);
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace {

std::atomic<bool> g_over{false};
std::atomic<bool> g_calls_over{false};

void hold_heap() {
  const std::lock_guard hold(g_heap);
  g_is_held = true;
  while (!g_over) {
  }
  g_is_held = false;
}

// Each takes a thread, and the other P goes from one to the next until one has to be made.
void use_up_threads(runtime& r) {
  while (!g_is_held) std::this_thread::yield();
  for (int i = 0; i < 50; ++i) {
    r.go([&] {
      blocking(hand_off_now, [&] {
        while (!g_calls_over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
    });
  }
  while (g_waiting == 0) std::this_thread::yield();
}

void go_on() {
  g_over = true;
  g_calls_over = true;
}

void pause_world() {
  runtime r({.procs = 2});
  r.go(hold_heap);
  use_up_threads(r);
  { const debug::world_pause nobody_runs; }
  go_on();
}

// The P of the one with the lock is the one that is to go.
void fewer_ps() {
  constexpr auto k_slice = std::chrono::milliseconds(200);
  std::atomic<int> running{0};
  runtime r({.procs = 2, .time_slice = k_slice});
  for (int i = 0; i < 2; ++i) {
    r.go([&] {
      ++running;
      while (running < 2) {
      }
      if (rt::current_m()->p->id != 0) hold_heap();
    });
  }
  use_up_threads(r);
  r.set_procs(1);
  std::this_thread::sleep_for(4 * k_slice);  // until it has been stopped
  go_on();
}

}  // namespace

int main(int, char** arguments) {
  if (arguments[1] == std::string_view("pause")) pause_world();
  if (arguments[1] == std::string_view("fewer_ps")) fewer_ps();
  std::puts("fine");
  return 0;
}
