// Goroutines in many states, dumped in the way the first argument says.

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
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

extern channel<int>& g_nobody;
[[gnu::noinline]] int dig(int depth) {
  if (depth == 0) {
    wait_in_channel(g_nobody);
    return 0;
  }
  const int below = dig(depth - 1);
  asm volatile("");
  return below + 1;
}
[[gnu::noinline]] void wait_for_child() {
  async([] {
    this_goroutine::set_name("child");
    wait_in_channel(g_nobody);
  }).get();
  asm volatile("");
}

[[gnu::noinline]] void wait_for_deep_child() {
  async([] { dig(200); }).get();
  asm volatile("");
}

// The compiler may make one function of two that are equal.
[[gnu::noinline]] void spawn_equal_ones() {
  go({.name = "first twin"}, [] { g_nobody.receive(); });
  go({.name = "second twin"}, [] { g_nobody.receive(); });
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

static zoo animals;
channel<int>& g_nobody = animals.nobody_sends;

// As `magpie dump` of this process would, were it stopped after the question.
static void ask_and_do_not_read() {
  constexpr int k_dump_here = 0x6d616700;  // as in sched/report.cpp
  alarm(60);
  int ends[2];
  if (pipe(ends) != 0 || fcntl(ends[1], F_SETPIPE_SZ, 4096) < 0) std::abort();
  runtime r({.procs = 1});
  const channel<int> unsent;
  r.run([&] {
    for (int i = 0; i < 100; ++i) {
      go({.name = "number " + std::to_string(i)}, [=] { wait_in_channel(unsent); });
    }
  });
  sigval value{};
  value.sival_int = k_dump_here + ends[1];
  if (sigqueue(getpid(), SIGQUIT, value) != 0) std::abort();
  for (int there = 0; there == 0; usleep(1000)) ioctl(ends[0], FIONREAD, &there);
  unsent.close();
}

// Reads from a pipe until all who write to it have closed it.
static std::string read_to_the_end(const int (&ends)[2]) {
  std::string text;
  char part[4096];
  for (ssize_t got; (got = read(ends[0], part, sizeof part)) > 0;) {
    if (text.empty()) close(ends[1]);
    text.append(part, static_cast<std::size_t>(got));
  }
  return text;
}

// The first keeps the service, because nobody reads its pipe; then come the others, one of them
// twice, and SIGQUIT.
static void ask_at_the_same_time() {
  constexpr int k_dump_here = 0x6d616700;  // as in sched/report.cpp
  alarm(60);
  run([] {
    for (int i = 0; i < 100; ++i) {
      go({.name = "number " + std::to_string(i)}, [] { wait_in_channel(g_nobody); });
    }
    while (runtime::current().read_stats().parks < 100) this_goroutine::yield();
  });
  int ends[3][2];
  const auto ask = [&](int who) {
    sigval value{};
    value.sival_int = k_dump_here + ends[who][1];
    if (sigqueue(getpid(), SIGQUIT, value) != 0) std::abort();
    usleep(1000);  // a sanitizer delivers it here, and not two of them
  };
  for (auto& each : ends) {
    if (pipe(each) != 0 || fcntl(each[1], F_SETPIPE_SZ, 4096) < 0) std::abort();
  }
  ask(0);
  for (int there = 0; there == 0; usleep(1000)) ioctl(ends[0][0], FIONREAD, &there);
  ask(1);
  ask(2);
  ask(1);
  std::raise(SIGQUIT);
  for (const auto& each : ends) {
    const std::string text = read_to_the_end(each);
    int blocks = 0;
    for (std::size_t at = 0; (at = text.find("[chan receive] \"number ", at)) != text.npos; ++at) {
      ++blocks;
    }
    std::printf("%d blocks\n", blocks);
  }
  std::fflush(stdout);
  usleep(500'000);  // for standard error
}

// Nobody reads standard error, which blocks.
static void quit_with_unread_error() {
  alarm(60);
  int ends[2];
  if (pipe(ends) != 0 || fcntl(ends[1], F_SETPIPE_SZ, 4096) < 0 || dup2(ends[1], 2) < 0) {
    std::abort();
  }
  runtime r({.procs = 1});
  const channel<int> unsent;
  r.run([&] {
    for (int i = 0; i < 100; ++i) {
      go({.name = "number " + std::to_string(i)}, [=] { wait_in_channel(unsent); });
    }
  });
  std::raise(SIGQUIT);
  for (int there = 0; there == 0; usleep(1000)) ioctl(ends[0], FIONREAD, &there);
  unsent.close();
}

int main(int, char** argv) {
  const std::string_view how = argv[1];
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
  if (how == "quit" || how == "quit_twice") {
    run([] { animals.fill(); });
    std::raise(SIGQUIT);
    if (how == "quit_twice") std::raise(SIGQUIT);
    run([] { this_goroutine::sleep_for(500ms); });
    std::puts("went on");
  } else if (how == "wait") {  // until it is killed
    run([] { animals.fill(); });
    std::puts("ready");
    std::fflush(stdout);
    for (;;) pause();
  } else if (how == "unread") {
    ask_and_do_not_read();
    std::puts("ended");
  } else if (how == "unread_error") {
    quit_with_unread_error();
    std::puts("ended");
  } else if (how == "askers") {
    ask_at_the_same_time();
  } else if (how == "strange_name") {
    run([] {
      go({.name = "red \x1b[31m\nline"}, [] { mutex().unlock(); });
      this_goroutine::sleep_for(1h);
    });
  } else if (how == "own_handler") {
    std::signal(SIGQUIT, [](int) { (void)!write(1, "mine\n", 5); });
    run([] {});
    std::raise(SIGQUIT);
  } else if (how == "fatal") {
    run([] {
      go({.name = "bystander"}, [] { wait_deeper(animals.nobody_sends); });
      this_goroutine::yield();
      go({.name = "culprit"}, [] { mutex().unlock(); });
      this_goroutine::sleep_for(1h);
    });
  } else if (how == "deep") {
    run([] {
      go([] { dig(200); });
      this_goroutine::sleep_for(50ms);
      stop_and_dump();
    });
  } else if (how == "twins") {
    run([] {
      spawn_equal_ones();
      this_goroutine::sleep_for(50ms);
      stop_and_dump();
    });
  } else if (how == "inline" || how == "deep_inline") {
    run([=] {
      async([] { wait_in_channel(animals.nobody_sends); }).wait_for(0s);
      go({.name = "watcher"}, [] {
        this_goroutine::sleep_for(50ms);
        stop_and_dump();
        std::_Exit(0);
      });
      how == "inline" ? wait_for_child() : wait_for_deep_child();
    });
  }
  std::fflush(stdout);
  std::_Exit(0);
}
