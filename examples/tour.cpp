// A walk through what magpie does, with numbers from this machine and the scheduler's own counters.

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

namespace {

class stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void station(const char* title) { std::printf("\n== %s\n", title); }

magpie::stats counters() { return magpie::runtime::current().read_stats(); }

// ---- spawn ----------------------------------------------------------------------------------

void spawn_a_million() {
  station("Spawn: a million goroutines");
  constexpr long k_count = 1'000'000;
  static std::atomic<long> ran{0};
  const stopwatch watch;
  magpie::run([] {
    for (long i = 0; i < k_count; ++i)
      magpie::go([] { ran.fetch_add(1, std::memory_order_relaxed); });
    while (ran.load() != k_count) magpie::this_goroutine::yield();
  });
  std::printf("   %ld started and ended in %.2f s, %.0f ns each.\n", ran.load(), watch.seconds(),
              watch.seconds() / k_count * 1e9);
  std::printf(
      "   A goroutine gets its stack when it first runs, and leaves it warm for the next.\n");
}

// ---- fork and join --------------------------------------------------------------------------

long fibonacci(int n) {
  if (n < 2) return n;
  auto left = magpie::async([n] { return fibonacci(n - 1); });
  const long right = fibonacci(n - 2);
  return left.get() + right;
}

void fork_and_join() {
  station("Fork and join: a goroutine for every call of fibonacci(25)");
  const auto before = counters();
  const stopwatch watch;
  const long result = magpie::run([] { return fibonacci(25); });
  const auto after = counters();
  const auto spawned = after.spawned - before.spawned;
  std::printf("   = %ld, with %llu goroutines, %.0f ns each.\n", result,
              static_cast<unsigned long long>(spawned),
              watch.seconds() / static_cast<double>(spawned) * 1e9);
  std::printf("   Whoever waits for a child that has not started runs it on its own stack.\n");
}

// ---- steal ----------------------------------------------------------------------------------

long busy_work(int rounds) {
  volatile long sum = 0;
  for (int i = 0; i < rounds; ++i) sum = sum + i;
  return sum;
}

void steal() {
  station("Steal: one goroutine makes all the work, every P gets some");
  const auto before = counters();
  magpie::run([] {
    std::vector<magpie::future<long>> parts;
    for (int i = 0; i < 200; ++i) parts.push_back(magpie::async(busy_work, 400'000));
    for (auto& part : parts) part.get();
  });
  const auto after = counters();
  std::printf("   %d Ps; %llu times one took half of another's queue, %llu goroutines in all.\n",
              after.procs, static_cast<unsigned long long>(after.steals - before.steals),
              static_cast<unsigned long long>(after.stolen - before.stolen));
}

// ---- block ----------------------------------------------------------------------------------

void block_threads() {
  station("Block: 100 goroutines sit in read(), the others go on");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  static std::atomic<bool> stop{false};
  static std::atomic<long> rounds{0};
  magpie::run([&] {
    std::vector<magpie::future<bool>> readers;
    for (int i = 0; i < 100; ++i) {
      readers.push_back(magpie::async([fd = ends[0]] {
        char byte = 0;
        return magpie::blocking([&] { return read(fd, &byte, 1); }) == 1;
      }));
    }
    auto worker = magpie::async([] {
      while (!stop) {
        rounds.fetch_add(1);
        magpie::this_goroutine::yield();
      }
    });
    magpie::blocking(magpie::hand_off_now,
                     [] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
    const auto now = counters();
    std::printf("   %d threads for %d Ps; meanwhile another goroutine went %ld rounds.\n",
                now.threads, now.procs, rounds.load());
    const std::string bytes(100, 'x');
    if (write(ends[1], bytes.data(), bytes.size()) != 100) return;
    int woken = 0;
    for (auto& reader : readers) woken += reader.get() ? 1 : 0;
    stop = true;
    worker.get();
    std::printf("   All %d came back when there was something to read.\n", woken);
  });
  close(ends[0]);
  close(ends[1]);
}

// ---- resize ---------------------------------------------------------------------------------

void resize() {
  station("Resize: the number of Ps changes while goroutines run");
  const int before = magpie::procs();
  static std::atomic<long> done{0};
  magpie::run([] {
    for (int i = 0; i < 20'000; ++i) magpie::go([] { done.fetch_add(1); });
    for (const int n : {1, 8, 3, 16, 2}) {
      magpie::set_procs(n);
      for (int i = 0; i < 100; ++i) magpie::this_goroutine::yield();
    }
    while (done.load() != 20'000) magpie::this_goroutine::yield();
  });
  magpie::set_procs(before);
  std::printf("   1, 8, 3, 16, 2 Ps in turn, nobody stopped: all %ld goroutines ran.\n",
              done.load());
}

// ---- errors ---------------------------------------------------------------------------------

void show_exception() {
  station("Errors: an exception comes out where somebody waits for it");
  try {
    magpie::run([]() -> int { throw std::runtime_error("no such bird"); });
  } catch (const std::exception& e) {
    std::printf("   caught: %s\n", e.what());
  }
}

extern "C" [[gnu::noinline]] int endless(int depth) {
  volatile char frame[300] = {static_cast<char>(depth)};
  return depth < 0 ? 0 : endless(depth + 1) + frame[0];
}

// A process of its own, because it ends.
void show_overflow(const char* self) {
  station("... and a stack overflow is said in words (in a child process)");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core{};
    setrlimit(RLIMIT_CORE, &no_core);
    execl(self, self, "overflow", nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
}

int overflow() {
  return magpie::run([] {
    return magpie::async([] {
             magpie::this_goroutine::set_name("digger");
             return endless(0);
           })
        .get();
  });
}

void show_counters() {
  station("What the scheduler counted");
  const auto all = counters();
  std::printf(
      "   spawned %llu, ended %llu, parked %llu, made ready %llu\n",
      static_cast<unsigned long long>(all.spawned), static_cast<unsigned long long>(all.finished),
      static_cast<unsigned long long>(all.parks), static_cast<unsigned long long>(all.readies));
  std::printf(
      "   steals %llu of %llu attempts, Ps taken from blocked threads %llu, threads at most %d\n",
      static_cast<unsigned long long>(all.steals),
      static_cast<unsigned long long>(all.steal_attempts),
      static_cast<unsigned long long>(all.retakes), all.threads_peak);
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2 && std::strcmp(arguments[1], "overflow") == 0) return overflow();
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("magpie %s on %d CPUs (affinity and cgroup quota)\n",
              std::string(magpie::version()).c_str(), magpie::cpu_count());
  spawn_a_million();
  fork_and_join();
  steal();
  block_threads();
  resize();
  show_exception();
  show_overflow(arguments[0]);
  show_counters();
  return 0;
}
