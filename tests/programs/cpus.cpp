// The CPUs that this process may use become fewer, and more again, while runtimes are there: who
// follows? Says what is wrong, and otherwise "fine".

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>

#include <magpie/magpie.h>

using namespace magpie;
using namespace std::chrono_literals;

namespace {

constexpr auto k_longer_than_two_looks = 2500ms;  // the number of CPUs is looked at once a second

cpu_set_t g_all;

// As `taskset -a -p` does. Threads made meanwhile have the mask of who made them: until all have
// it.
void allow(const cpu_set_t& mask) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      const pid_t thread = std::stoi(task.path().filename());
      cpu_set_t now;
      if (sched_getaffinity(thread, sizeof now, &now) != 0 || CPU_EQUAL(&now, &mask)) continue;
      changed |= sched_setaffinity(thread, sizeof mask, &mask) == 0;
    }
  }
}

void allow_one() {
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &g_all)) continue;
    CPU_SET(cpu, &one);
    break;
  }
  allow(one);
}

void expect(const char* what, int is, int should_be) {
  if (is == should_be) return;
  std::printf("%s: %d instead of %d\n", what, is, should_be);
  std::exit(1);
}

// The limit only ends a test that has failed.
void expect_to_become(const char* what, const runtime& r, int should_be) {
  const auto limit = clock::now() + 30s;
  while (r.procs() != should_be && clock::now() < limit) std::this_thread::sleep_for(1ms);
  expect(what, r.procs(), should_be);
}

void follow(bool busy) {
  std::atomic<bool> over{false};
  runtime r;
  const int all = r.procs();
  for (int i = 0; busy && i < 2 * all; ++i) {
    r.go([&] {
      while (!over) this_goroutine::yield();
    });
  }
  allow_one();
  expect_to_become("with one CPU", r, 1);
  expect("cpu_count() later", cpu_count(), all);
  allow(g_all);
  expect_to_become("with all CPUs again", r, all);
  over = true;
}

// Its number of Ps was asked for: nothing that follows the CPUs may change it.
void do_not_follow(const runtime& r) {
  const int wanted = 3;
  for (const bool narrow : {true, false}) {
    const auto start = clock::now();
    if (narrow) {
      allow_one();
    } else {
      allow(g_all);
    }
    while (clock::now() - start < k_longer_than_two_looks) {
      expect("a number that was asked for", r.procs(), wanted);
      std::this_thread::sleep_for(1ms);
    }
  }
}

void set_in_config() {
  runtime r({.procs = 3});
  do_not_follow(r);
}

void set_in_environment() {
  setenv("MAGPIE_PROCS", "3", 1);
  runtime r;
  unsetenv("MAGPIE_PROCS");
  do_not_follow(r);
}

void set_later() {
  runtime r;
  r.set_procs(0);  // only asks
  r.set_procs(3);
  do_not_follow(r);
}

// Nobody has asked before there was one CPU only.
void count_at_start(int all) {
  allow_one();
  expect("cpu_count() when first asked", cpu_count(), all);
  const runtime r;
  expect("a new runtime's", r.procs(), 1);
}

}  // namespace

int main(int, char** arguments) {
  const std::string_view what = arguments[1];
  sched_getaffinity(0, sizeof g_all, &g_all);
  const int all = runtime().procs();
  if (all < 2) {
    std::puts("needs two CPUs");
    return 0;
  }
  if (what == "idle") follow(false);
  if (what == "busy") follow(true);
  if (what == "config") set_in_config();
  if (what == "environment") set_in_environment();
  if (what == "set_procs") set_later();
  if (what == "count") count_at_start(all);
  std::puts("fine");
  return 0;
}
