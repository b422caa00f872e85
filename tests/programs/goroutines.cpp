// Goroutines that end the process, each in the way its argument says.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string_view>

#include <magpie/magpie.h>

using namespace magpie;

struct noisy {
  ~noisy() { std::puts("unwound"); }
};

// Not in an unnamed namespace: the tests look for the names in the stack traces.
extern "C" [[gnu::noinline]] void throw_something() {
  const noisy n;
  throw std::runtime_error("nobody catches this");
}

extern "C" [[gnu::noinline]] int recurse(int depth) {
  volatile char frame[300] = {static_cast<char>(depth)};
  return depth < 0 ? 0 : recurse(depth + 1) + frame[0];
}

extern "C" [[gnu::noinline]] void wait_for(future<void>& other) {
  while (!other.valid()) this_goroutine::yield();
  other.wait();
  asm volatile("");  // keeps the call above from becoming a jump
}

// Twice at the same place.
extern "C" [[gnu::noinline]] void block_somewhere() {
  for (int i = 0; i < 2; ++i) usleep(150'000);
  asm volatile("");
}

[[gnu::noinline]] void write_to(volatile int* place) { *place = 1; }

[[gnu::noinline]] void receive_from(channel<int>& c) {
  c.receive();
  asm volatile("");
}

namespace {

// Asks for a dump, as `magpie dump` does, to a pipe that is full and that nobody reads.
void keep_service_busy() {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  const char block[4096] = {};
  while (write(ends[1], block, sizeof block) > 0) continue;
  constexpr int k_dump_here = 0x6d616700;
  sigqueue(getpid(), SIGQUIT, {.sival_int = k_dump_here + ends[1]});
  usleep(100'000);  // it gets there in that time, or the names are as they always are
}

void wait_for_ever() {
  for (;;) this_goroutine::yield();
}

// Two goroutines, each with a lock the other one wants, and one that waits for ever.
void lock_cycle() {
  run([] {
    mutex a, b;
    wait_group both_have_one;
    both_have_one.add(2);
    const auto lock_both = [&](mutex& first, mutex& second) {
      const std::scoped_lock hold_first(first);
      both_have_one.done();
      both_have_one.wait();
      const std::scoped_lock hold_second(second);
    };
    go({.name = "left"}, [&] { lock_both(a, b); });
    go({.name = "right"}, [&] { lock_both(b, a); });
    channel<int>().receive();
  });
}

// Three goroutines in a circle, each waits for the next.
void deadlock() {
  static future<void> first, second, third;
  runtime circle;
  circle.run([] {
    first = async([] {
      this_goroutine::set_name("first");
      wait_for(second);
    });
    second = async([] { wait_for(third); });
    third = async([] { wait_for(first); });
  });
}

void use_after_fork() {
  run([] {
    const pid_t child = fork();
    if (child == 0) {
      go([] {});
      _exit(0);
    }
    int status = 0;
    blocking([&] { waitpid(child, &status, 0); });
    std::printf("the child ended by signal %d\n", WTERMSIG(status));
  });
}

void exec_after_fork() {
  run([] {
    const pid_t child = fork();
    if (child == 0) {
      execl("/bin/sh", "sh", "-c", "exit 7", nullptr);
      _exit(1);
    }
    int status = 0;
    blocking([&] { waitpid(child, &status, 0); });
    std::printf("the child ended with code %d\n", WEXITSTATUS(status));
  });
}

}  // namespace

int main(int, char** arguments) {
  const std::string_view way = arguments[1];
  if (way == "throw") {
    run([] {
      go({.name = "thrower"}, [] { throw_something(); });
      wait_for_ever();
    });
  }
  if (way == "terminate_handler") {
    std::set_terminate([] {
      try {
        std::rethrow_exception(std::current_exception());
      } catch (const std::exception& e) {
        std::printf("the user's handler saw: %s\n", e.what());
        std::fflush(stdout);
      }
      _exit(5);
    });
    run([] {
      go([] { throw_something(); });
      wait_for_ever();
    });
  }
  if (way == "overflow") {
    run([] {
      go({.name = "digger", .stack_size = 128 * 1024}, [] { recurse(0); });
      wait_for_ever();
    });
  }
  if (way == "overflow_alone") {
    run([] {
      keep_service_busy();
      go({.name = "digger", .stack_size = 128 * 1024}, [] { recurse(0); });
      wait_for_ever();
    });
  }
  if (way == "null_pointer") {
    run([] {
      channel<int> nobody_sends;
      go({.name = "careless"}, [] { write_to(reinterpret_cast<volatile int*>(16)); });
      receive_from(nobody_sends);
    });
  }
  if (way == "overflow_inline") {
    run([] {
      auto child = async([] {
        this_goroutine::set_name("child");
        return recurse(0);
      });
      return child.get();
    });
  }
  if (way == "deadlock") deadlock();
  if (way == "lock_cycle") lock_cycle();
  if (way == "fork") use_after_fork();
  if (way == "exec") exec_after_fork();
  // The last thread to fall asleep is that of a locked goroutine, and main waits after that.
  if (way == "locked_deadlock") {
    alarm(60);
    future<void> never = async([] {
      const thread_lock lock;
      const auto start = clock::now();
      while (clock::now() - start < std::chrono::milliseconds(20)) {
      }
      channel<int> nobody_sends;
      receive_from(nobody_sends);
    });
    usleep(200'000);
    never.wait();
  }
  // The only thread is locked to a goroutine that waits for another.
  if (way == "locked_at_limit") {
    alarm(60);
    runtime r({.procs = 1, .max_threads = 1});
    r.run([] {
      const thread_lock lock;
      channel<int> answer;
      go([&] { answer.send(1); });
      answer.receive();
    });
  }
  // The same, by the time a timer has made somebody runnable.
  if (way == "locked_at_limit_later") {
    alarm(60);
    runtime r({.procs = 1, .max_threads = 1});
    r.run([] {
      const thread_lock lock;
      channel<int> answer;
      const auto later = after_func(std::chrono::milliseconds(20), [&] { answer.send(1); });
      answer.receive();
    });
  }
  if (way == "nil_pointer") {
    void (*nothing)() = nullptr;
    go(nothing);
  }
  if (way == "nil_with_argument") {
    void (*nothing)(int) = nullptr;
    go(nothing, 1);
  }
  if (way == "nil_async") {
    const std::function<int()> nothing;
    (void)async(nothing);
  }
  if (way == "nil_in_wait_group") {
    wait_group all;
    all.go(std::function<void()>());
  }
  if (way == "cooperates") {
    alarm(60);
    run([] {
      std::atomic<bool> over{false};
      go([&] { over = true; });
      while (!over) this_goroutine::checkpoint();
    });
    std::puts("has yielded");
  }
  if (way == "own_runtime") {
    auto* const mine = new runtime;
    mine->run([&] { delete mine; });
  }
  if (way == "two_waiters") {
    run([] {
      static future<void> never = async([] { wait_for_ever(); });
      this_goroutine::yield();
      go([] { never.wait(); });
      this_goroutine::yield();
      never.wait();
    });
  }
  if (way == "stall") {
    run([] {
      auto blocked = async([] { block_somewhere(); });
      while (!blocked.ready()) this_goroutine::sleep_for(std::chrono::milliseconds(1));
    });
  }
  // Needs memory of every kind: goroutines, stacks, a long queue, timers.
  if (way == "crowd") {
    std::atomic<int> awake{0};
    run([&] {
      wait_group all;
      for (int i = 0; i < 5000; ++i) {
        all.go([&] {
          this_goroutine::sleep_for(std::chrono::milliseconds(5));
          ++awake;
        });
      }
      all.wait();
    });
    std::printf("%d awake\n", awake.load());
  }
  if (way == "settings") run([] { std::printf("%d Ps\n", procs()); });
  // Long for a thread that ends after 10 ms without work.
  if (way == "sleep") {
    run([] { this_goroutine::sleep_for(std::chrono::milliseconds(200)); });
    std::puts("awake");
  }
  if (way == "trace") {
    run([] {
      for (int i = 0; i < 100; ++i) blocking(hand_off_now, [] { usleep(1000); });
    });
  }
  return 0;
}
