// Dies in the way its argument says, on a fiber of 256 KiB; or survives, where that is the point.

#include <alloca.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "fiber/fault.h"
#include "os/signal.h"
#include "support/test_fiber.h"

using namespace magpie::rt;
using testing::test_fiber;

// Tells the compiler that somebody may look at the memory: it must really be there.
inline void keep(volatile void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

// Not in the unnamed namespace: the tests look for these names in the stack traces.

extern "C" [[gnu::noinline]] int overflow_by_recursion(int depth) {
  volatile char frame[200];
  frame[0] = static_cast<char>(depth);
  return depth == 0 ? frame[0] : overflow_by_recursion(depth + 1) + frame[0];
}

extern "C" int pong(int depth);
extern "C" [[gnu::noinline]] int ping(int depth) {
  volatile char frame[200] = {static_cast<char>(depth)};
  return pong(depth + 1) + frame[0];
}
extern "C" [[gnu::noinline]] int pong(int depth) {
  volatile char frame[100] = {static_cast<char>(depth)};
  return depth == 0 ? 0 : ping(depth + 1) + frame[0];
}

extern "C" [[gnu::noinline]] void overflow_by_alloca(std::size_t size) {
  auto* const block = static_cast<volatile char*>(alloca(size));
  for (std::size_t i = size; i > 0; i -= 512) block[i - 1] = 1;
}

// Steps over the end of the stack with one frame of 60 KiB and touches only its far end.
extern "C" [[gnu::noinline]] void overflow_by_large_frame(std::size_t used) {
  volatile char frame[60 * 1024];
  frame[0] = static_cast<char>(used);
  keep(frame);
}

extern "C" [[gnu::noinline]] void touch(volatile int* where) { *where = 1; }

namespace {

stack_pool g_pool;
volatile int* volatile g_bad_pointer = reinterpret_cast<volatile int*>(16);

// Leaves two pages of the stack, then calls.
[[gnu::noinline]] void near_the_end(const test_fiber& f) {
  const auto here = reinterpret_cast<char*>(__builtin_frame_address(0));
  const auto left = static_cast<std::size_t>(here - f.stack->low);
  auto* const block = static_cast<volatile char*>(alloca(left - 8192));
  keep(block);
  overflow_by_large_frame(left);
  keep(block);
}

void on_fiber(test_fiber::body body) {
  const os::alternate_stack for_signals;
  thread_state thread;
  test_fiber f(g_pool, std::move(body));
  f.resume(&thread);
}

void* g_page = nullptr;

void repair(int, siginfo_t* info, void*) {
  if (info->si_addr != g_page) _exit(3);
  mprotect(g_page, 4096, PROT_READ | PROT_WRITE);
}

void handle_earlier_fault() {
  static const char text[] = "the earlier handler was called\n";
  (void)!write(1, text, sizeof text - 1);
}

}  // namespace

int main(int, char** arguments) {
  const std::string_view way = arguments[1];

  // As a garbage collector or a virtual machine does: faults it causes on purpose, and repairs.
  if (way == "repair") {
    struct sigaction action {};
    action.sa_sigaction = repair;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    g_page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (way == "earlier_handler") {
    struct sigaction action {};
    action.sa_handler = [](int) {
      handle_earlier_fault();
      _exit(7);
    };
    sigaction(SIGSEGV, &action, nullptr);
  }
  install_fault_reporter();
  install_fault_reporter();  // twice is once

  if (way == "recursion") on_fiber([](test_fiber&) { overflow_by_recursion(1); });
  if (way == "mutual_recursion") on_fiber([](test_fiber&) { ping(1); });
  if (way == "alloca") on_fiber([](test_fiber&) { overflow_by_alloca(230 * 1024); });
  if (way == "large_frame") on_fiber([](test_fiber& f) { near_the_end(f); });
  if (way == "earlier_handler") on_fiber([](test_fiber&) { overflow_by_recursion(1); });
  if (way == "null") on_fiber([](test_fiber&) { touch(g_bad_pointer); });
  if (way == "stray") {
    on_fiber([](test_fiber&) {
      test_fiber other(g_pool, [](test_fiber&) {});
      touch(reinterpret_cast<volatile int*>(other.stack->low - 64));
    });
  }
  if (way == "null_on_thread") touch(g_bad_pointer);
  if (way == "sent") on_fiber([](test_fiber&) { raise(SIGSEGV); });
  if (way == "other_thread") {
    std::thread([] { on_fiber([](test_fiber&) { overflow_by_recursion(1); }); }).join();
  }
  if (way == "described") {
    set_fiber_describer([](printer& out, const fiber*) { out << "goroutine 17 \"server\""; });
    on_fiber([](test_fiber&) { overflow_by_recursion(1); });
  }
  if (way == "repair") {
    on_fiber([](test_fiber&) {
      touch(static_cast<volatile int*>(g_page));
      std::puts("repaired");
    });
  }
  if (way == "escape") {
    on_fiber([](test_fiber&) {
      struct noise {
        ~noise() { std::puts("unwound"); }
      } const n;
      throw 42;
    });
  }
  return 0;
}
