// The workloads of bench/run, with magpie. One measurement per run of the program:
//
//   workloads <name> <procs> [divisor]
//
// prints "workload=<name> procs=<n> value=<number> unit=<unit>", one line per result. The counts
// are divided by the divisor, to see quickly whether everything runs. ../go is the same program in
// Go, file by file: change both.

#include "workloads.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <magpie/channel.h>
#include <magpie/trace.h>

namespace workloads {

nanoseconds cpu_time() {
  rusage used{};
  if (getrusage(RUSAGE_SELF, &used) != 0) fail("getrusage failed");
  const auto of = [](const timeval& t) { return seconds(t.tv_sec) + microseconds(t.tv_usec); };
  return of(used.ru_utime) + of(used.ru_stime);
}

namespace {

void block_thread(nanoseconds d) {
  const timespec t{static_cast<time_t>(d.count() / 1'000'000'000), d.count() % 1'000'000'000};
  nanosleep(&t, nullptr);
}

// The main goroutine waits without a P, and without timers.
void sleep_outside(nanoseconds d) {
  magpie::blocking(magpie::hand_off_now, [d] { block_thread(d); });
}

// Goroutines that all wait at one door.
class crowd {
 public:
  // Returns when all of them have come as far as the door.
  void add(long goroutines);
  void open();  // and wait until all have gone

 private:
  std::atomic<long> here_{0};
  completion all_;
  magpie::channel<magpie::unit> door_{0};
};

void crowd::add(long goroutines) {
  all_.add(goroutines);
  for (long i = 0; i < goroutines; ++i) {
    magpie::go([this] {
      ++here_;
      door_.receive();
      all_.done();
    });
  }
  while (here_ < goroutines) magpie::this_goroutine::yield();
}

void crowd::open() {
  door_.close();
  all_.wait();
}

// Yield: so many goroutines, each giving way so often.
nanoseconds yield_all(long goroutines, long yields) {
  return together(goroutines, [yields] {
    for (long n = 0; n < yields; ++n) magpie::this_goroutine::yield();
  });
}

void yield(const char* name, long goroutines, long total) {
  const long yields = std::max(1L, count(total) / goroutines);
  yield_all(goroutines, std::max(1L, yields / 10));
  report(name, per_operation(yield_all(goroutines, yields), goroutines * yields), "ns/op");
}

// Spawn: rounds of so many empty goroutines and a wait for all of them.
nanoseconds spawn_all(long batch, long rounds) {
  completion all;
  const instant start = now();
  for (long r = 0; r < rounds; ++r) {
    all.add(batch);
    for (long i = 0; i < batch; ++i) magpie::go([&all] { all.done(); });
    all.wait();
  }
  return now() - start;
}

void spawn(const char* name, long batch) {
  const long rounds = std::max(1L, count(4'000'000) / batch);
  spawn_all(batch, std::max(1L, rounds / 10));
  report(name, per_operation(spawn_all(batch, rounds), batch * rounds), "ns/op");
}

// How long the same arithmetic takes here at the moment. On a virtual machine the neighbours
// decide: twice as long while one of them has the other half of the processor core.
nanoseconds pace_of_machine() {
  nanoseconds best = nanoseconds::max();
  for (int look = 0; look < 3; ++look) {
    const instant start = now();
    std::array<std::uint64_t, 4> states = {1, 2, 3, 4};  // enough to keep all of the core busy
    for (int step = 0; step < 30'000; ++step) {
      for (std::uint64_t& state : states) {
        state ^= state << 13;
        state ^= state >> 7;
      }
    }
    asm volatile("" : : "m"(states));
    best = std::min<nanoseconds>(best, now() - start);
  }
  return best;
}

// Spawn with the second P to spawn without it, in short turns of one process: whatever else the
// machine does falls on both alike, and is often more than what is looked for. Pairs of turns in
// which its pace has changed do not count. The ratio of all that it took, not the median of ratios:
// that hides what is slow only now and then.
void spawn_second_p() {
  constexpr long k_batch = 1000;
  constexpr double k_same_pace = 1.1;
  const long rounds = std::max(1L, count(600));
  const long wanted = std::max(3L, count(100));
  const auto time_with = [rounds](int procs) {
    magpie::set_procs(procs);
    spawn_all(k_batch, std::max(1L, rounds / 10));  // the threads find their places
    return spawn_all(k_batch, rounds);
  };
  nanoseconds with_one{};
  nanoseconds with_two{};
  long counted = 0;
  for (long i = 0; counted < wanted && i < 4 * wanted; ++i) {
    const bool one_first = i % 2 == 0;
    std::array<nanoseconds, 3> paces{};
    std::array<nanoseconds, 2> times{};
    paces[0] = pace_of_machine();
    times[0] = time_with(one_first ? 1 : 2);
    paces[1] = pace_of_machine();
    times[1] = time_with(one_first ? 2 : 1);
    paces[2] = pace_of_machine();
    const auto [least, most] = std::ranges::minmax(paces);
    if (in_milliseconds(most) > k_same_pace * in_milliseconds(least)) continue;
    ++counted;
    with_one += times[one_first ? 0 : 1];
    with_two += times[one_first ? 1 : 0];
  }
  if (counted == 0) fail("spawn_second_p: the machine changes its pace all the time");
  report("spawn_second_p",
         static_cast<double>(with_two.count()) / static_cast<double>(with_one.count()), "x");
}

// Spawn and join, as C++ programs do it: with a future.
nanoseconds join_all(long rounds) {
  const instant start = now();
  for (long r = 0; r < rounds; ++r) magpie::async([] {}).get();
  return now() - start;
}

void spawn_join() {
  const long rounds = count(1'000'000);
  join_all(std::max(1L, rounds / 10));
  report("spawn_join", per_operation(join_all(rounds), rounds), "ns/op");
}

// Skynet: a tree of goroutines, ten children each, that adds up the numbers of its leaves.
long skynet(long first, long size) {
  if (size == 1) return first;
  std::array<magpie::future<long>, 10> children;
  for (long i = 0; i < 10; ++i) {
    children[static_cast<std::size_t>(i)] =
        magpie::async(skynet, first + i * (size / 10), size / 10);
  }
  long sum = 0;
  for (auto& child : children) sum += child.get();
  return sum;
}

void skynet_workload() {
  long size = 1'000'000;
  while (size > 10 && size > count(1'000'000)) size /= 10;
  nanoseconds elapsed{};
  for (int pass = 0; pass < 2; ++pass) {  // the second finds stacks and heap warm
    const instant start = now();
    const long sum = skynet(0, size);
    elapsed = now() - start;
    if (sum != size * (size - 1) / 2) fail("skynet: wrong sum");
  }
  report("skynet", in_milliseconds(elapsed), "ms");
}

// Fib: fork n-1, compute n-2 here, join.
long fib(int n) {
  if (n < 2) return n;
  magpie::future<long> other = magpie::async(fib, n - 1);
  const long here = fib(n - 2);
  return other.get() + here;
}

long plain_fib(int n) { return n < 2 ? n : plain_fib(n - 1) + plain_fib(n - 2); }

void fib_workload() {
  const int n = g_divisor > 1 ? 15 : 27;
  fib(n - 4);
  const instant start = now();
  const long result = fib(n);
  const nanoseconds elapsed = now() - start;
  if (result != plain_fib(n)) fail("fib: wrong result");
  report("fib", per_operation(elapsed, plain_fib(n + 1) - 1), "ns/op");  // one task per inner node
}

double resident_bytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  long all = 0;
  long resident = 0;
  if (!file || std::fscanf(file, "%ld %ld", &all, &resident) != 2) fail("cannot read statm");
  std::fclose(file);
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// Parked: memory of a goroutine that waits, time to make it and to wake it. No warm-up: a million
// goroutines nobody has had before are the point.
void parked() {
  const long goroutines = count(1'000'000);
  const double bytes_before = resident_bytes();
  instant start = now();
  crowd all;
  all.add(goroutines);
  const nanoseconds created = now() - start;
  sleep_outside(milliseconds(20));  // the last one is on its way to the door
  const double bytes = resident_bytes() - bytes_before;
  start = now();
  all.open();
  const nanoseconds woken = now() - start;
  report("parked_bytes", bytes / static_cast<double>(goroutines), "bytes");
  report("parked_create", per_operation(created, goroutines), "ns/op");
  report("parked_wake", per_operation(woken, goroutines), "ns/op");
}

// Idle: what 1000 waiting goroutines cost, in percent of one CPU.
void idle() {
  crowd all;
  all.add(1000);
  sleep_outside(milliseconds(100));
  const nanoseconds used_before = cpu_time();
  const instant start = now();
  sleep_outside(window(seconds(2)));
  const nanoseconds used = cpu_time() - used_before;
  const nanoseconds elapsed = now() - start;
  all.open();
  report("idle", 100 * per_operation(used, elapsed.count()), "percent");
}

// Blocking: how much of their rate CPU-bound goroutines, one per P, keep beside 10,000 goroutines
// that block their threads: all of them in one long nap, and (churn) in naps of a second, again
// and again.
void blocking() {
  struct alignas(128) worker {
    std::atomic<std::uint64_t> units{0};
  };
  const auto workers = std::make_unique<worker[]>(static_cast<std::size_t>(g_procs));
  std::atomic<bool> stop{false};
  completion all;
  for (int i = 0; i < g_procs; ++i) {
    all.go([&stop, &mine = workers[static_cast<std::size_t>(i)], i] {
      auto state = static_cast<std::uint64_t>(i) + 1;
      while (!stop) {
        for (int step = 0; step < 10'000; ++step) {
          state ^= state << 13;
          state ^= state >> 7;
          state ^= state << 17;
        }
        mine.units += (state & 1) | 1;  // 1, which the compiler cannot know
        magpie::this_goroutine::checkpoint();
      }
    });
  }
  // Counts and clock are read on the thread that slept, not when the goroutine has a P again.
  const auto rate = [&] {
    return magpie::blocking(magpie::hand_off_now, [&] {
      const auto units = [&] {
        std::uint64_t sum = 0;
        for (int i = 0; i < g_procs; ++i) sum += workers[static_cast<std::size_t>(i)].units;
        return sum;
      };
      const std::uint64_t before = units();
      const instant start = now();
      block_thread(window(seconds(1)));
      return static_cast<double>(units() - before) /
             std::chrono::duration<double>(now() - start).count();
    });
  };
  rate();
  const double alone = rate();

  const long sleepers = count(10'000);
  std::atomic<long> in_short{0};
  std::atomic<long> in_long{0};
  std::atomic<bool> long_naps{false};
  const auto nap = [](nanoseconds d) {
    magpie::blocking([length = window(d)] { block_thread(length); });
  };
  for (long i = 0; i < sleepers; ++i) {
    all.go([&] {
      ++in_short;
      while (!long_naps) nap(seconds(1));
      ++in_long;
      while (!stop) nap(seconds(5));
    });
  }
  const auto wait_for = [&](const std::atomic<long>& number) {
    magpie::blocking(magpie::hand_off_now, [&] {
      while (number < sleepers) block_thread(milliseconds(10));
      block_thread(milliseconds(100));
    });
  };
  wait_for(in_short);
  const double churn = rate();
  long_naps = true;
  wait_for(in_long);
  const double beside = rate();
  stop = true;
  all.wait();
  report("blocking10k", 100 * beside / alone, "percent");
  report("blocking10k_churn", 100 * churn / alone, "percent");
}

long number(const char* text) {
  char* end = nullptr;
  const long n = std::strtol(text, &end, 10);
  if (*end != 0 || n < 1) fail("procs and divisor are positive numbers");
  return n;
}

table all_workloads() {
  table all = {
      {"yield2", [] { yield("yield2", 2, 6'000'000); }},
      {"yield1000", [] { yield("yield1000", 1000, 3'000'000); }},
      {"spawn1000", [] { spawn("spawn1000", 1000); }},
      {"spawn_second_p", spawn_second_p},
      {"spawn_join", spawn_join},
      {"skynet", skynet_workload},
      {"fib", fib_workload},
      {"parked", parked},
      {"idle", idle},
      {"blocking10k", blocking},
  };
  add_channels(all);
  add_locks(all);
  add_timers(all);
  add_hogs(all);
  add_contexts(all);
  add_files(all);
  add_mixed(all);
  add_servers(all);
  return all;
}

int run(int argc, char** argv) {
  const table all = all_workloads();
  const auto chosen = all.find(argc > 1 ? argv[1] : "");
  if (argc < 3 || argc > 4 || chosen == all.end()) {
    std::fprintf(stderr, "usage: workloads <name> procs [divisor], where the name is one of");
    for (const auto& [name, workload] : all) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  g_procs = static_cast<int>(number(argv[2]));
  if (argc == 4) g_divisor = number(argv[3]);
  magpie::config config;
  config.procs = g_procs;
  config.max_threads = 20'000;  // as in the Go program: all of the 10,000 get their thread
  magpie::trace::flight_recorder recorder;
  if (std::getenv("MAGPIE_BENCH_FLIGHT") != nullptr) recorder.start();  // see bench/run --tracing
  magpie::run(config, chosen->second);
  return 0;
}

}  // namespace
}  // namespace workloads

int main(int argc, char** argv) { return workloads::run(argc, argv); }
