// Goroutines that end the process, each in the way its argument says.

#include <fcntl.h>
#include <link.h>
#include <poll.h>
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
#include <string>
#include <string_view>
#include <thread>

#include <magpie/magpie.h>

#include "os/fault.h"

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
// What comes to standard error while it exists; passed on at the end.
class own_error {
 public:
  own_error() : standard_error_(dup(2)) {
    if (pipe(ends_) != 0 || dup2(ends_[1], 2) < 0) std::abort();
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  }
  ~own_error() {
    dup2(standard_error_, 2);
    if (write(2, text_.data(), text_.size()) < 0) std::abort();
  }

  // Blocks the thread until something has come.
  [[gnu::always_inline]] void wait(int milliseconds) {
    pollfd one{ends_[0], POLLIN, 0};
    poll(&one, 1, milliseconds);
    asm volatile("");
    char part[4096];
    for (ssize_t got; (got = read(ends_[0], part, sizeof part)) > 0;) {
      text_.append(part, static_cast<std::size_t>(got));
    }
  }
  int reports() const {
    int count = 0;
    for (std::size_t at = 0; (at = text_.find("\ncreated by ", at)) != text_.npos; ++at) ++count;
    return count;
  }

 private:
  const int standard_error_;
  int ends_[2];
  std::string text_;
};

// Until it has been reported, however long that takes; then once more, at the same place.
extern "C" [[gnu::noinline]] void block_somewhere() {
  alarm(100);
  own_error error;
  for (bool over = false; !over;) {
    over = error.reports() == 1;
    error.wait(over ? 300 : 90'000);
  }
}

// The same function of the C library, but called from two places.
extern "C" [[gnu::noinline]] void block_here_and_there() {
  alarm(100);
  own_error error;
  while (error.reports() < 1) error.wait(90'000);
  this_goroutine::yield();  // it has its P back: this was one stall
  while (error.reports() < 2) error.wait(90'000);
}

// One sleeps with a lock of the dynamic linker, which names of functions take. Until it goes on,
// others need threads.
extern "C" [[gnu::noinline]] void block_in_linker() {
  alarm(100);
  static int ends[2];
  if (pipe(ends) != 0) std::abort();
  std::atomic<int> readers{0};
  wait_group all;
  all.go([] {
    dl_iterate_phdr(
        [](dl_phdr_info*, std::size_t, void*) {
          char byte;
          return read(ends[0], &byte, 1) == 1 ? 1 : -1;
        },
        nullptr);
  });
  this_goroutine::sleep_for(std::chrono::milliseconds(200));  // it is found
  int others[2];
  if (pipe(others) != 0) std::abort();
  for (int i = 0; i < 20; ++i) {
    all.go([&] {
      ++readers;
      char byte;
      if (read(others[0], &byte, 1) < 0) std::abort();
    });
  }
  while (readers < 20) this_goroutine::yield();
  close(others[1]);
  if (write(ends[1], "x", 1) != 1) std::abort();
  all.wait();
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

void fill_standard_error() {
  int ends[2];
  if (pipe(ends) != 0 || dup2(ends[1], 2) < 0) std::abort();
  fcntl(2, F_SETFL, O_NONBLOCK);
  const char block[4096] = {};
  while (write(2, block, sizeof block) > 0) continue;
  fcntl(2, F_SETFL, 0);
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
    future<void> unfinished = async([] {
      const thread_lock lock;
      const auto start = clock::now();
      while (clock::now() - start < std::chrono::milliseconds(20)) {
      }
      channel<int> nobody_sends;
      receive_from(nobody_sends);
    });
    usleep(200'000);
    unfinished.wait();
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
  // The process ends while one of its goroutines holds a lock of the runtime.
  if (way == "exit_under_lock") {
    static std::atomic<bool> holds{false};
    go([] {
      const debug::world_pause pause;
      const auto stay = [](void*, void*, void*) {
        holds = true;
        ::pause();
      };
      debug::visit_stacks(stay, nullptr);
    });
    while (!holds) usleep(1000);
    std::exit(0);
  }
  if (way == "own_runtime") {
    auto* const mine = new runtime;
    mine->run([&] { delete mine; });
  }
  if (way == "two_waiters") {
    run([] {
      static future<void> unfinished = async([] { wait_for_ever(); });
      this_goroutine::yield();
      go([] { unfinished.wait(); });
      this_goroutine::yield();
      unfinished.wait();
    });
  }
  // With a lock of the scheduler held. What reports it needs memory again.
  if (way == "no_memory_for_p") {
    run([] {});
    std::thread([] {
      while (rt::os::faults_made() == 0) usleep(100);
      rt::os::set_faults("");
    }).detach();
    rt::os::set_faults("mmap:ENOMEM:1/1");
    run([] { set_procs(64); });
  }
  // Nobody reads what the runtime says meanwhile.
  if (way == "unread_trace") {
    alarm(60);
    fill_standard_error();
    run([] {
      wait_group all;
      for (int i = 0; i < 4; ++i) {
        all.go([] {
          for (int k = 0; k < 100; ++k) this_goroutine::sleep_for(std::chrono::milliseconds(1));
        });
      }
      all.wait();
    });
    std::puts("ended");
  }
  if (way == "stalls") {
    run([] {
      auto blocked = async([] { block_here_and_there(); });
      while (!blocked.ready()) this_goroutine::sleep_for(std::chrono::milliseconds(1));
    });
  }
  if (way == "stall_in_linker") {
    run([] { block_in_linker(); });
    std::puts("ended");
  }
  if (way == "stall" || way == "silent_stall") {
    run([way] {
      auto blocked = async([way] { way == "stall" ? block_somewhere() : (void)usleep(300'000); });
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
