// Goroutines in many states, dumped in the way the first argument says.

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include <magpie/debug.h>
#include <magpie/magpie.h>

using namespace magpie;
using namespace std::chrono_literals;

std::atomic<bool> g_go_on{true};

// Not in an unnamed namespace and not inlined: the tests look for the names.
[[gnu::noinline]] void wait_in_channel(const channel<int>& c) {
  c.receive();
  asm volatile("");
}
[[gnu::noinline]] void wait_deeper(const channel<int>& c) {
  wait_in_channel(c);
  asm volatile("");
}
[[gnu::noinline]] void hog() {
  while (g_go_on) asm volatile("");
}
[[gnu::noinline]] void lock_held(mutex& m) {
  const std::scoped_lock hold(m);
  asm volatile("");
}
[[gnu::noinline]] void sleep_for_long() {
  this_goroutine::sleep_for(1h);
  asm volatile("");
}
[[gnu::noinline]] void read_blocking(int fd) {
  char c;
  blocking([&] { return read(fd, &c, 1); });
  asm volatile("");
}
[[gnu::noinline]] void read_plainly(int fd) {
  char c;
  if (read(fd, &c, 1) < 0) std::abort();
  asm volatile("");
}
[[gnu::noinline]] void stop_and_dump() {
  debug::dump();
  asm volatile("");
}

struct zoo {
  channel<int> nobody_sends;
  mutex held;
  int ends[2];

  [[gnu::noinline]] void fill() {
    if (pipe(ends) != 0) std::abort();
    held.lock();
    this_goroutine::set_name("keeper");
    go([this] { wait_deeper(nobody_sends); });
    go({.name = "locker"}, [this] { lock_held(held); });
    go(sleep_for_long);
    go([this] { read_blocking(ends[0]); });
    go([this] { read_plainly(ends[0]); });
    go(hog);
    go([this] {
      thread_lock stay;
      wait_in_channel(nobody_sends);
    });
    this_goroutine::sleep_for(100ms);
  }
};

int main(int, char** argv) {
  const std::string_view how = argv[1];
  static zoo animals;
  if (how == "call") {
    run([] {
      animals.fill();
      stop_and_dump();
    });
  } else if (how == "thread") {
    run([] { animals.fill(); });
    stop_and_dump();
  } else if (how == "many") {
    run([] {
      for (int i = 0; i < 100'000; ++i) {
        go([] { wait_deeper(animals.nobody_sends); });
      }
      while (runtime::current().read_stats().parks < 100'000) this_goroutine::yield();
      stop_and_dump();
    });
  }
  std::fflush(stdout);
  std::_Exit(0);
}
