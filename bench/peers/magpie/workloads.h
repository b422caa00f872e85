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

#include <magpie/wait_group.h>

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

using completion = magpie::wait_group;

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
void add_hogs(table& to);
void add_contexts(table& to);
void add_files(table& to);
void add_mixed(table& to);
void add_servers(table& to);

}  // namespace workloads
