// Programs that end as their argument says: the rows of Go's behaviours for which a process has to.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <magpie/debug.h>
#include <magpie/magpie.h>

using namespace magpie;
using namespace std::chrono_literals;

namespace {

void wait_for_nothing() {
  std::vector<select_case> none;
  select(none);
}

// Before main() begins, which has its argument too late for that.
[[maybe_unused]] const bool g_waits_before_main = [] {
  if (std::getenv("WAIT_BEFORE_MAIN") == nullptr) return false;
  run(wait_for_nothing);
  return true;
}();

void locked_deadlock() {
  run([] {
    go({.name = "locked"}, [] {
      const thread_lock stay;
      wait_for_nothing();
    });
    wait_for_nothing();
  });
}

struct throws_at_end {
  ~throws_at_end() noexcept(false) { throw std::runtime_error("thrown during the exit"); }
};

void throw_during_exit() {
  run([] {
    go({.name = "leaver"}, [] {
      const throws_at_end guard;
      this_goroutine::exit();
    });
    this_goroutine::sleep_for(1h);
  });
}

void fatal_beside_timers() {
  run([] {
    const timer later(1h);
    const ticker ticks(1ms);
    ticks.channel().receive();
    after(1ms).receive();
    this_goroutine::sleep_for(1ms);
    mutex().unlock();
  });
}

// Their text takes a while.
struct yielding_error : std::exception {
  const char* what() const noexcept override {
    for (int i = 0; i < 10; ++i) this_goroutine::yield();
    return "text of one that yields";
  }
};
struct writing_error : std::exception {
  const char* what() const noexcept override {
    blocking(hand_off_now, [] {
      usleep(1000);
      if (write(1, "written by what()\n", 18) != 18) std::abort();
    });
    return "text of one that writes";
  }
};

template <class Error>
void escape() {
  run([] {
    go([] { throw Error(); });
    for (;;) this_goroutine::yield();
  });
}

void go_nil() {
  run([] {
    try {
      void (*nothing)() = nullptr;
      go(nothing);
    } catch (...) {
      std::_Exit(3);
    }
  });
}

// Each wants a thread for itself, and more of them than there may be threads.
void thread_exhaustion() {
  runtime r({.procs = 1, .max_threads = 10});
  r.run([] {
    for (int i = 0; i < 20; ++i) {
      go({.name = "locked"}, [] {
        const thread_lock stay;
        wait_for_nothing();
      });
    }
    wait_for_nothing();
  });
}

bool exists(std::uint64_t goroutine) {
  const auto all = debug::goroutines();
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& info) { return info.id == goroutine; });
}

// The first goroutine is gone, and its thread: another one says how the process ends.
void exit_locked() {
  run([] {
    alignas(thread_lock) unsigned char room[sizeof(thread_lock)];
    ::new (room) thread_lock;  // never unlocked
    const std::uint64_t first = this_goroutine::id();
    go([first] {
      while (exists(first)) this_goroutine::yield();
      std::_Exit(7);
    });
    this_goroutine::exit();
  });
}

}  // namespace

int main(int, char** arguments) {
  const std::string_view way = arguments[1];
  if (way == "simple_deadlock") run(wait_for_nothing);
  if (way == "locked_deadlock") locked_deadlock();
  if (way == "throw_during_exit") throw_during_exit();
  if (way == "fatal_beside_timers") fatal_beside_timers();
  if (way == "go_nil") go_nil();
  if (way == "thread_exhaustion") thread_exhaustion();
  if (way == "yielding_error") escape<yielding_error>();
  if (way == "writing_error") escape<writing_error>();
  if (way == "terminated") {
    run([] {
      kill(getpid(), SIGTERM);
      this_goroutine::sleep_for(1h);
    });
  }
  if (way == "exit_locked") {
    try {
      exit_locked();
    } catch (const misuse&) {  // run() has nothing to return
      for (;;) pause();
    }
  }
  return 0;
}
