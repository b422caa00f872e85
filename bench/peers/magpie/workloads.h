// What the workloads have in common: how counts are cut, times taken and results printed.
#pragma once

#include <magpie/magpie.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>

#if __has_include(<magpie/wait_group.h>)
#include <magpie/wait_group.h>
#endif

namespace workloads {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using instant = std::chrono::steady_clock::time_point;

inline int g_procs = 1;
inline long g_divisor = 1;

inline long count(long n) { return std::max(1L, n / g_divisor); }

inline nanoseconds window(nanoseconds d) {
  return std::max<nanoseconds>(milliseconds(50), d / g_divisor);
}

inline instant now() { return std::chrono::steady_clock::now(); }

inline void report(const char* name, double value, const char* unit) {
  std::printf("workload=%s procs=%d value=%.3f unit=%s\n", name, g_procs, value, unit);
}

[[noreturn]] inline void fail(const char* what) {
  std::fprintf(stderr, "workloads: %s\n", what);
  std::_Exit(1);
}

inline double per_operation(nanoseconds elapsed, long operations) {
  return static_cast<double>(elapsed.count()) / static_cast<double>(operations);
}

inline double in_milliseconds(nanoseconds d) { return static_cast<double>(d.count()) / 1e6; }

nanoseconds cpu_time();  // of the process

#if __has_include(<magpie/wait_group.h>)

using completion = magpie::wait_group;

#else

// What a wait_group does, while there is none, with what futures are made of.
class completion {
 public:
  void add(long n) { left_.fetch_add(n); }
  void done() {
    magpie::detail::meeting& end = *end_;
    if (left_.fetch_sub(1) == 1) end.finish();
  }
  template <class F>
  void go(F&& f) {
    add(1);
    magpie::go([this, f = std::forward<F>(f)] {
      f();
      done();
    });
  }
  void wait() {
    done();
    end_->wait();
    end_.emplace();
    left_.store(1);
  }

 private:
  std::atomic<long> left_{1};  // the waiter counts as one: it does not fall to zero before wait()
  std::optional<magpie::detail::meeting> end_{std::in_place};
};

#endif

// How long it takes so many goroutines to do the work, all of them the same.
template <class F>
nanoseconds together(long goroutines, const F& work) {
  completion all;
  const instant start = now();
  for (long i = 0; i < goroutines; ++i) all.go([&work] { work(); });
  all.wait();
  return now() - start;
}

// The workloads by name.
using table = std::map<std::string, std::function<void()>>;

void add_channels(table& to);
void add_locks(table& to);
void add_timers(table& to);
void add_contexts(table& to);

// Workloads that magpie cannot do yet, for want of `what`. They print that in place of a result.
inline void add_absent(table& to, std::initializer_list<const char*> names, const char* what) {
  for (const char* const name : names) {
    to[name] = [name, what] { std::printf("workload=%s absent: no %s\n", name, what); };
  }
}

}  // namespace workloads
