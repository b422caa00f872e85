// Some workloads of bench/run with Boost.Fiber: one thread, round robin, pooled stacks, the
// quickest it can be set to. Its pool of stacks is not made for several threads.
//
//   workloads <name> 1 [divisor]
//
// The names, and what is printed, are those of ../go.

#include <algorithm>
#include <boost/fiber/all.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace fibers = boost::fibers;
using instant = std::chrono::steady_clock::time_point;

long g_divisor = 1;

long count(long n) { return std::max(1L, n / g_divisor); }

instant now() { return std::chrono::steady_clock::now(); }

void report(const char* name, std::chrono::nanoseconds elapsed, long operations) {
  std::printf("workload=%s procs=1 value=%.3f unit=ns/op\n", name,
              static_cast<double>(elapsed.count()) / static_cast<double>(operations));
}

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "workloads: %s\n", what);
  std::_Exit(1);
}

class counter {  // Boost.Fiber has no wait group; one thread needs no atomics in it
 public:
  void add(long n) { left_ += n; }
  void done() {
    if (--left_ == 0) zero_.notify_one();
  }
  void wait() {
    std::unique_lock<fibers::mutex> lock(mutex_);
    zero_.wait(lock, [this] { return left_ == 0; });
  }

 private:
  long left_ = 0;
  fibers::mutex mutex_;
  fibers::condition_variable zero_;
};

using stacks = fibers::pooled_fixedsize_stack;

template <class F>
fibers::fiber start(stacks& from, F&& f) {
  return fibers::fiber(fibers::launch::post, std::allocator_arg, from, std::forward<F>(f));
}

// Runs the work in so many fibers, all of them the same.
template <class F>
std::chrono::nanoseconds together(stacks& from, long goroutines, const F& work) {
  counter all;
  all.add(goroutines);
  const instant begin = now();
  for (long i = 0; i < goroutines; ++i) {
    start(from, [&all, &work] {
      work();
      all.done();
    }).detach();
  }
  all.wait();
  return now() - begin;
}

std::chrono::nanoseconds yield_all(stacks& from, long goroutines, long yields) {
  return together(from, goroutines, [yields] {
    for (long n = 0; n < yields; ++n) boost::this_fiber::yield();
  });
}

void yield(const char* name, stacks& from, long goroutines, long total) {
  const long yields = std::max(1L, count(total) / goroutines);
  yield_all(from, goroutines, std::max(1L, yields / 10));
  report(name, yield_all(from, goroutines, yields), goroutines * yields);
}

std::chrono::nanoseconds spawn_all(stacks& from, long batch, long rounds) {
  counter all;
  const instant begin = now();
  for (long r = 0; r < rounds; ++r) {
    all.add(batch);
    for (long i = 0; i < batch; ++i) start(from, [&all] { all.done(); }).detach();
    all.wait();
  }
  return now() - begin;
}

void spawn(const char* name, stacks& from, long batch) {
  const long rounds = std::max(1L, count(4'000'000) / batch);
  spawn_all(from, batch, std::max(1L, rounds / 10));
  report(name, spawn_all(from, batch, rounds), batch * rounds);
}

std::chrono::nanoseconds join_all(stacks& from, long rounds) {
  const instant begin = now();
  for (long r = 0; r < rounds; ++r) start(from, [] {}).join();
  return now() - begin;
}

void spawn_join(stacks& from) {
  const long rounds = count(1'000'000);
  join_all(from, std::max(1L, rounds / 10));
  report("spawn_join", join_all(from, rounds), rounds);
}

std::chrono::nanoseconds pingpong_all(stacks& from, long rounds) {
  fibers::unbuffered_channel<long> ping;
  fibers::unbuffered_channel<long> pong;
  fibers::fiber other = start(from, [&ping, &pong] {
    for (const long ball : ping) pong.push(ball);
  });
  const instant begin = now();
  for (long r = 0; r < rounds; ++r) {
    ping.push(r);
    if (pong.value_pop() != r) fail("pingpong: not the ball that was sent");
  }
  const std::chrono::nanoseconds elapsed = now() - begin;
  ping.close();
  other.join();
  return elapsed;
}

void pingpong(stacks& from) {
  const long rounds = count(1'000'000);
  pingpong_all(from, std::max(1L, rounds / 10));
  report("pingpong", pingpong_all(from, rounds), rounds);
}

std::chrono::nanoseconds pass_all(stacks& from, long producers, long consumers, long each) {
  fibers::buffered_channel<long> line(128);
  counter sent;
  counter received;
  sent.add(producers);
  received.add(consumers);
  long sum = 0;
  const instant begin = now();
  for (long i = 0; i < producers; ++i) {
    start(from, [&line, &sent, each] {
      for (long item = 0; item < each; ++item) line.push(item);
      sent.done();
    }).detach();
  }
  for (long i = 0; i < consumers; ++i) {
    start(from, [&line, &received, &sum] {
      for (const long item : line) sum += item;
      received.done();
    }).detach();
  }
  sent.wait();
  line.close();
  received.wait();
  const std::chrono::nanoseconds elapsed = now() - begin;
  if (sum != producers * (each * (each - 1) / 2)) fail("channel: wrong sum");
  return elapsed;
}

void pass(const char* name, stacks& from, long producers, long consumers) {
  const long each = std::max(1L, count(4'000'000) / producers);
  pass_all(from, producers, consumers, std::max(1L, each / 10));
  report(name, pass_all(from, producers, consumers, each), producers * each);
}

constexpr long k_lockers = 100;

std::chrono::nanoseconds count_all(stacks& from, long each) {
  fibers::mutex mutex;
  long counted = 0;
  const auto elapsed = together(from, k_lockers, [&mutex, &counted, each] {
    for (long i = 0; i < each; ++i) {
      const std::lock_guard lock(mutex);
      ++counted;
    }
  });
  if (counted != k_lockers * each) fail("mutex: wrong count");
  return elapsed;
}

void mutex(stacks& from) {
  const long each = count(20'000);
  count_all(from, std::max(1L, each / 10));
  report("mutex", count_all(from, each), k_lockers * each);
}

std::chrono::nanoseconds count_all_yielding(stacks& from, long each) {
  fibers::mutex mutex;
  long counted = 0;
  const auto elapsed = together(from, k_lockers, [&mutex, &counted, each] {
    for (long i = 0; i < each; ++i) {
      const std::lock_guard lock(mutex);
      ++counted;
      boost::this_fiber::yield();
    }
  });
  if (counted != k_lockers * each) fail("mutex_park: wrong count");
  return elapsed;
}

void mutex_park(stacks& from) {
  const long each = count(5'000);
  count_all_yielding(from, std::max(1L, each / 10));
  report("mutex_park", count_all_yielding(from, each), k_lockers * each);
}

void short_sleep() {
  std::vector<std::chrono::nanoseconds> lengths(static_cast<std::size_t>(count(2000)));
  for (auto& length : lengths) {
    const instant begin = now();
    boost::this_fiber::sleep_for(std::chrono::microseconds(50));
    length = now() - begin;
  }
  std::sort(lengths.begin(), lengths.end());
  std::printf("workload=short_sleep procs=1 value=%.3f unit=us\n",
              static_cast<double>(lengths[lengths.size() / 2].count()) / 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  stacks from(16 * 1024, 64);
  const std::map<std::string, std::function<void()>> workloads = {
      {"yield2", [&] { yield("yield2", from, 2, 6'000'000); }},
      {"yield1000", [&] { yield("yield1000", from, 1000, 3'000'000); }},
      {"spawn1000", [&] { spawn("spawn1000", from, 1000); }},
      {"spawn_join", [&] { spawn_join(from); }},
      {"pingpong", [&] { pingpong(from); }},
      {"chan_1p1c", [&] { pass("chan_1p1c", from, 1, 1); }},
      {"chan_4p4c", [&] { pass("chan_4p4c", from, 4, 4); }},
      {"mutex", [&] { mutex(from); }},
      {"mutex_park", [&] { mutex_park(from); }},
      {"short_sleep", short_sleep},
  };
  const auto chosen = workloads.find(argc > 1 ? argv[1] : "");
  if (argc < 3 || argc > 4 || chosen == workloads.end() || std::string(argv[2]) != "1") {
    std::fprintf(stderr, "usage: workloads <name> 1 [divisor], where the name is one of");
    for (const auto& [name, workload] : workloads) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  if (argc > 3) g_divisor = std::max(1L, std::atol(argv[3]));
  chosen->second();
  return 0;
}
