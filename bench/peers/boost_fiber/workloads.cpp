// Some workloads of bench/run with Boost.Fiber: one thread, round robin, pooled stacks, the
// quickest it can be set to. Its pool of stacks is not made for several threads.
//
//   workloads yield2|yield1000|spawn1000|spawn_join 1 [divisor]
//
// Prints as ../go/workloads.go does.

#include <algorithm>
#include <boost/fiber/all.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
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

std::chrono::nanoseconds yield_all(stacks& from, long goroutines, long yields) {
  counter all;
  all.add(goroutines);
  const instant begin = now();
  for (long i = 0; i < goroutines; ++i) {
    start(from, [&all, yields] {
      for (long n = 0; n < yields; ++n) boost::this_fiber::yield();
      all.done();
    }).detach();
  }
  all.wait();
  return now() - begin;
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
  const long rounds = std::max(1L, count(1'000'000) / batch);
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

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 2 && std::string(argv[2]) == "1" ? argv[1] : "";
  if (argc > 3) g_divisor = std::max(1L, std::atol(argv[3]));
  stacks from(16 * 1024, 64);
  if (name == "yield2") {
    yield("yield2", from, 2, 6'000'000);
  } else if (name == "yield1000") {
    yield("yield1000", from, 1000, 3'000'000);
  } else if (name == "spawn1000") {
    spawn("spawn1000", from, 1000);
  } else if (name == "spawn_join") {
    spawn_join(from);
  } else {
    std::fprintf(stderr, "usage: workloads yield2|yield1000|spawn1000|spawn_join 1 [divisor]\n");
    return 2;
  }
  return 0;
}
