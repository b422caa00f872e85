// A walk through what magpie does, with numbers from this machine and the scheduler's own counters.
// With the name of a file: a part of it is recorded there, as a trace.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <magpie/magpie.h>

using namespace std::chrono_literals;

namespace {

using number = unsigned long long;  // what printf takes for a counter

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
  std::printf("   = %ld, with %llu goroutines, %.0f ns each.\n", result, number(spawned),
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
              after.procs, number(after.steals - before.steals),
              number(after.stolen - before.stolen));
}

// ---- channels -------------------------------------------------------------------------------

void ping_pong() {
  station("Channels: two goroutines pass a ball to and fro");
  constexpr int k_rounds = 500'000;
  const auto before = counters();
  const stopwatch watch;
  magpie::run([] {
    const magpie::channel<int> there;
    const magpie::channel<int> back;
    magpie::go([=] {
      for (const int ball : there) back.send(ball + 1);
      back.close();
    });
    int ball = 0;
    for (int i = 0; i < k_rounds; ++i) {
      there.send(ball);
      ball = *back.receive();
    }
    there.close();
  });
  const double seconds = watch.seconds();
  const auto after = counters();
  std::printf("   %d times there and back, %.0f ns for each way; %llu times one of them waited.\n",
              k_rounds, seconds / (2.0 * k_rounds) * 1e9, number(after.parks - before.parks));
  std::printf(
      "   No thread sleeps for that: it leaves one goroutine and goes on with the other.\n");
}

// Passes on what `prime` does not divide.
magpie::channel<int> sieve(int prime, magpie::channel<int> numbers) {
  magpie::channel<int> rest(16);
  magpie::go([=] {
    for (const int n : numbers) {
      if (n % prime != 0) rest.send(n);
    }
    rest.close();
  });
  return rest;
}

void pipeline() {
  station("Pipeline: a goroutine for every prime below 10000, each a sieve for the next");
  const auto before = counters();
  const stopwatch watch;
  const auto [count, last] = magpie::run([] {
    magpie::channel<int> numbers(16);
    magpie::go([numbers] {
      for (int n = 2; n < 10'000; ++n) numbers.send(n);
      numbers.close();
    });
    std::pair<int, int> found;
    while (const std::optional<int> prime = numbers.receive()) {
      found = {found.first + 1, *prime};
      numbers = sieve(*prime, numbers);
    }
    return found;
  });
  const double seconds = watch.seconds();
  const auto after = counters();
  std::printf("   %d of them, the last is %d; %.0f ms, %llu waits, %d threads.\n", count, last,
              seconds * 1e3, number(after.parks - before.parks), after.threads);
  std::printf("   When the first channel is closed, the whole chain ends, one after the other.\n");
}

// ---- select ---------------------------------------------------------------------------------

// Answers with its name. Room for one answer, because there may be nobody left to take it.
magpie::channel<std::string> ask(const char* name, magpie::duration takes) {
  magpie::channel<std::string> answer(1);
  magpie::go([=] {
    magpie::this_goroutine::sleep_for(takes);
    answer.send(name);
  });
  return answer;
}

void select_the_first() {
  station("Select: the first answer counts, and patience has an end");
  magpie::run([] {
    const auto north = ask("north", 60ms);
    const auto south = ask("south", 20ms);
    const auto west = ask("west", 40ms);
    const auto print = [](const std::optional<std::string>& name) {
      std::printf("   %s answered first", name.value().c_str());
    };
    const stopwatch watch;
    magpie::select(magpie::on_receive(north, print), magpie::on_receive(south, print),
                   magpie::on_receive(west, print));
    std::printf(", after %.1f ms (it sleeps for 20).\n", watch.seconds() * 1e3);
  });
  magpie::run([] {
    const magpie::channel<int> silence;
    const stopwatch watch;
    magpie::select(magpie::on_receive(silence, [] {}), magpie::on_timeout(50ms, [&] {
                     std::printf("   Nobody answers here: given up after %.1f ms (asked for 50).\n",
                                 watch.seconds() * 1e3);
                   }));
  });
}

// ---- locks ----------------------------------------------------------------------------------

void share_a_mutex() {
  station("Mutex: 10000 goroutines count to a million together");
  const auto before = counters();
  const stopwatch watch;
  long total = 0;  // not atomic
  magpie::run([&total] {
    magpie::mutex guard;
    magpie::wait_group all;
    for (int i = 0; i < 10'000; ++i) {
      all.go([&] {
        for (int k = 0; k < 100; ++k) {
          const std::scoped_lock hold(guard);
          ++total;
        }
      });
    }
    all.wait();
  });
  const double seconds = watch.seconds();
  const auto after = counters();
  std::printf("   %ld, %.0f ns for each; %llu times a goroutine had to wait its turn.\n", total,
              seconds / static_cast<double>(total) * 1e9, number(after.parks - before.parks));
}

// ---- timers ---------------------------------------------------------------------------------

// Whether guard pages below stacks cost no memory mappings, of which a process may have 65530: from
// Linux 6.13 on. An emulator may say yes to any advice, so the page is tried.
bool guards_are_cheap() {
  constexpr int k_guard_install = 102;  // MADV_GUARD_INSTALL, not in every libc
  const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int ends[2];
  if (page == MAP_FAILED || pipe2(ends, O_CLOEXEC) != 0) return false;
  const bool guarded = madvise(page, size, k_guard_install) == 0 && write(ends[1], page, 1) < 0;
  close(ends[0]);
  close(ends[1]);
  munmap(page, size);
  return guarded;
}

// Who sleeps keeps a stack, a page of memory at least. Sanitizers need far more for each.
int how_many_sleepers() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 2'000;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return 2'000;
#endif
#endif
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return guards_are_cheap() && memory > 2e9 ? 100'000 : 10'000;
}

void sleep_together() {
  const int count = how_many_sleepers();
  station(("Sleep: " + std::to_string(count) + " goroutines, one second each").c_str());
  const auto before = counters();
  const stopwatch watch;
  magpie::run([count] {
    magpie::wait_group all;
    for (int i = 0; i < count; ++i) all.go([] { magpie::this_goroutine::sleep_for(1s); });
    magpie::this_goroutine::sleep_for(500ms);
    const auto now = counters();
    std::printf("   Half a second later: %llu goroutines, %d threads for %d Ps.\n",
                number(now.goroutines), now.threads, now.procs);
    all.wait();
  });
  const double seconds = watch.seconds();
  std::printf("   All awake after %.2f s, their start included; %llu timers fired.\n", seconds,
              number(counters().timer_fires - before.timer_fires));
}

// ---- cancel ---------------------------------------------------------------------------------

struct trouble {
  std::atomic<int> leaves{0};
  stopwatch since;
};

// A tree of groups, ten branches each. The leaves wait for the end of their context; the last of
// the thousand fails instead.
void grow(const magpie::context& ctx, int height, trouble& shared) {
  if (height == 0) {
    if (shared.leaves.fetch_add(1) == 999) {
      std::printf("   %llu goroutines wait in a tree, then one leaf fails.\n",
                  number(counters().goroutines));
      shared.since = stopwatch();
      throw std::runtime_error("the cat is here");
    }
    ctx.done().receive();
    return;
  }
  magpie::group branches(ctx);
  for (int i = 0; i < 10; ++i)
    branches.go([=, &shared](const magpie::context& mine) { grow(mine, height - 1, shared); });
  branches.wait();
}

void cancel_a_tree() {
  station("Cancel: one failure ends a tree of work");
  trouble shared;
  try {
    magpie::run([&shared] { grow(magpie::context::background(), 3, shared); });
  } catch (const std::exception& e) {
    std::printf("   \"%s\" reached the root after %.2f ms; by then all others had ended.\n",
                e.what(), shared.since.seconds() * 1e3);
  }
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

// ---- sockets --------------------------------------------------------------------------------

// As many connections as there are descriptors for, two each, and some to spare.
int how_many_connections(int wanted) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur > static_cast<rlim_t>(2 * wanted + 100) ? wanted : 100;
}

void echo_all(magpie::net::tcp_listener& listener) {
  std::error_code closed;
  for (;;) {
    auto client = listener.accept(closed);
    if (closed) return;
    magpie::go([c = std::move(client)]() mutable {
      char bytes[256];
      std::error_code gone;
      while (const auto n = c.read(bytes, sizeof bytes, gone)) c.write(bytes, n, gone);
    });
  }
}

// Server and clients are in this one process: a goroutine at each end of each connection.
void serve_connections() {
  const int count = how_many_connections(1000);
  station((std::to_string(count) + " connections served by two threads").c_str());
  const int ps_before = magpie::set_procs(2);
  const auto before = counters();
  constexpr int k_questions = 50;
  const stopwatch watch;
  magpie::run([count] {
    auto listener = magpie::net::tcp_listener::listen("127.0.0.1:0");
    auto server = magpie::async([&] { echo_all(listener); });
    magpie::wait_group connected, clients;
    magpie::event begin;
    connected.add(count);
    for (int i = 0; i < count; ++i) {
      clients.go([&] {
        auto stream = magpie::net::tcp_stream::connect(listener.local_address());
        connected.done();
        begin.wait();
        char answer[16];
        for (int k = 0; k < k_questions; ++k) {
          stream.write("are you there?");
          (void)stream.read(answer, sizeof answer);
        }
      });
    }
    connected.wait();
    const auto now = counters();
    std::printf("   All connected: %llu goroutines, %d threads for %d Ps.\n",
                number(now.goroutines), now.threads, now.procs);
    begin.set();
    clients.wait();
    listener.close();
    server.get();
  });
  const auto after = counters();
  std::printf(
      "   %d questions and answers, %.0f a second. Waiting for a socket costs no thread: %llu "
      "waits,\n"
      "   and the kernel was asked %llu times who may go on.\n",
      count * k_questions, count * k_questions / watch.seconds(),
      number(after.parks - before.parks), number(after.netpoll_wakeups - before.netpoll_wakeups));
  magpie::set_procs(ps_before);
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
  std::printf("   spawned %llu, ended %llu, parked %llu, made ready %llu\n", number(all.spawned),
              number(all.finished), number(all.parks), number(all.readies));
  std::printf(
      "   steals %llu of %llu attempts, Ps taken from blocked threads %llu, timers fired %llu,\n"
      "   threads at most %d\n",
      number(all.steals), number(all.steal_attempts), number(all.retakes), number(all.timer_fires),
      all.threads_peak);
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2 && std::strcmp(arguments[1], "overflow") == 0) return overflow();
  const char* const trace = count == 2 ? arguments[1] : nullptr;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("magpie %s on %d CPUs (affinity and cgroup quota)\n",
              std::string(magpie::version()).c_str(), magpie::cpu_count());
  spawn_a_million();
  fork_and_join();
  steal();
  ping_pong();
  pipeline();
  select_the_first();
  share_a_mutex();
  sleep_together();
  if (trace != nullptr) magpie::trace::start(trace);
  cancel_a_tree();
  serve_connections();
  block_threads();
  resize();
  magpie::trace::stop();
  show_exception();
  show_overflow(arguments[0]);
  show_counters();
  if (trace != nullptr) std::printf("\nFrom \"Cancel\" to \"Resize\" it was recorded: %s\n", trace);
  return 0;
}
