// A goroutine is stopped by a pause while it holds the lock of the heap, and the runtime is about
// to make a thread, which needs the heap. The pause must begin all the same, and end.

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>

#include <magpie/magpie.h>

using namespace magpie;

namespace {

std::mutex g_heap;
std::atomic<int> g_waiting{0};
std::atomic<bool> g_is_held{false};

}  // namespace

void* operator new(std::size_t size) {
  if (g_is_held) ++g_waiting;
  const std::lock_guard hold(g_heap);
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

int main() {
  std::atomic<bool> over{false};
  std::atomic<bool> calls_over{false};
  {
    runtime r({.procs = 2});
    r.go([&] {
      const std::lock_guard hold(g_heap);
      g_is_held = true;
      while (!over) {
      }
      g_is_held = false;
    });
    while (!g_is_held) std::this_thread::yield();
    // Each takes a thread, and the other P goes from one to the next until there are no more.
    for (int i = 0; i < 50; ++i) {
      r.go([&] {
        blocking(hand_off_now, [&] {
          while (!calls_over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        });
      });
    }
    while (g_waiting == 0) std::this_thread::yield();
    { const debug::world_pause nobody_runs; }
    over = true;
    calls_over = true;
  }
  std::puts("fine");
  return 0;
}
