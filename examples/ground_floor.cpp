// What the scheduler stands on: a context switch, a million stacks, an overflow in words.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <magpie/magpie.h>

#include "fiber/fault.h"
#include "fiber/fiber.h"
#include "fiber/stack_pool.h"
#include "os/clock.h"
#include "os/memory.h"
#include "os/signal.h"

// All of this is below the public API: the program looks at the runtime's inside.
using namespace magpie::rt;

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

// A line "Name:   1234 kB" of a file of /proc, in MiB.
double line_mib(const char* path, const char* name) {
  std::FILE* const file = std::fopen(path, "r");
  if (file == nullptr) return 0;
  char line[256];
  long kib = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strncmp(line, name, std::strlen(name)) == 0) {
      kib = std::strtol(line + std::strlen(name) + 1, nullptr, 10);
    }
  }
  std::fclose(file);
  return static_cast<double>(kib) / 1024;
}

double status_mib(const char* name) { return line_mib("/proc/self/status", name); }

// The number in a file of one; `otherwise` when there is none.
double number_in(const char* path, double otherwise) {
  std::FILE* const file = std::fopen(path, "r");
  if (file == nullptr) return otherwise;
  double number = 0;
  if (std::fscanf(file, "%lf", &number) != 1) number = otherwise;  // "max"
  std::fclose(file);
  return number;
}

// What may still be taken, of this machine's memory and of a container's share.
double gib_left() {
  const double machine = line_mib("/proc/meminfo", "MemAvailable") / 1024;
  const double limit = number_in("/sys/fs/cgroup/memory.max", 1e18);
  const double taken = number_in("/sys/fs/cgroup/memory.current", 0);
  return std::max(0.0, std::min(machine, (limit - taken) / (1 << 30)));
}

// ---- a fiber that hands the ball back -------------------------------------------------------

struct ball_game {
  fiber here;
  fiber there;
  long rounds = 0;
};
ball_game g_game;

departure return_the_ball(fiber*, thread_state* thread) {
  while (g_game.rounds > 0) {
    --g_game.rounds;
    thread = switch_to(g_game.there, g_game.here, thread);
  }
  return {&g_game.here, thread};
}

[[gnu::noinline]] void throw_the_ball(thread_state* thread) {
  while (g_game.rounds > 0) thread = switch_to(g_game.here, g_game.there, thread);
  switch_to(g_game.here, g_game.there, thread);  // sees that the game is over, and ends
}

void show_switch(stack_pool& pool, thread_state* thread) {
  station("A context switch");
  constexpr long k_rounds = 10'000'000;
  stack* on = nullptr;
  pool.take(class_for(256 << 10), 1, &on);
  prepare(g_game.there, *on, return_the_ball);
  g_game.rounds = k_rounds;
  const stopwatch watch;
  throw_the_ball(thread);
  const double seconds = watch.seconds();
  pool.give(&on, 1);
  std::printf("   %ld times to another stack and back: %.1f ns each way.\n", k_rounds,
              seconds / static_cast<double>(2 * k_rounds) * 1e9);
}

// ---- a million stacks -----------------------------------------------------------------------

void show_stacks(stack_pool& pool) {
  station("A million stacks, each with guard pages below");
  std::size_t wanted = 1'000'000;
  if (const double left = gib_left(); left < 6) {
    wanted = static_cast<std::size_t>(left * 150'000);
    std::printf("   (%.1f GiB of memory are free here: %zu stacks instead)\n", left, wanted);
  }
  if (sanitizer::k_thread) {
    wanted = std::min<std::size_t>(wanted, 100'000);
    std::printf("   (ThreadSanitizer makes each one dear: %zu stacks instead)\n", wanted);
  }
  std::vector<stack*> stacks(wanted);
  const double before = status_mib("VmRSS");
  const stopwatch watch;
  std::size_t have = 0;
  while (have < wanted) {
    const std::size_t got = pool.take(
        class_for(256 << 10), std::min<std::size_t>(32, wanted - have), stacks.data() + have);
    if (got == 0) {
      printer() << "   stopped early: ";
      printer out;
      pool.explain_shortage(out);
      out << '\n';
      break;
    }
    for (std::size_t i = 0; i < got; ++i) stacks[have + i]->high[-1] = 1;
    have += got;
  }
  const double resident = status_mib("VmRSS") - before;
  std::printf("   %zu stacks of 256 KiB in %.1f s: %.0f MiB of memory, %.2f KiB each,\n", have,
              watch.seconds(), resident, resident * 1024 / static_cast<double>(have));
  std::printf("   %.0f MiB of page tables, %zu memory mappings (the limit here is %zu).\n",
              status_mib("VmPTE"), os::mapping_count(), os::mapping_limit());
  const stopwatch back;
  pool.give(stacks.data(), have);
  pool.trim(0);
  std::printf("   All given back in %.1f s: %.0f MiB of memory, %.0f MiB of page tables left.\n",
              back.seconds(), status_mib("VmRSS") - before, status_mib("VmPTE"));
}

// ---- an overflow ----------------------------------------------------------------------------

extern "C" [[gnu::noinline]] int endless(int depth) {
  volatile char frame[300] = {static_cast<char>(depth)};
  return depth < 0 ? 0 : endless(depth + 1) + frame[0];
}

departure overflow(fiber*, thread_state*) { std::exit(endless(0)); }

[[gnu::noinline]] void run_into_overflow(stack_pool& pool, thread_state* thread) {
  install_fault_reporter();
  const os::alternate_stack for_signals;
  stack* on = nullptr;
  pool.take(class_for(256 << 10), 1, &on);
  fiber here, there;
  prepare(there, *on, overflow);
  switch_to(here, there, thread);
}

void show_overflow(stack_pool& pool, thread_state* thread) {
  station("A stack overflow, in a child process: said in words, not silently");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core{};
    setrlimit(RLIMIT_CORE, &no_core);
    run_into_overflow(pool, thread);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    std::printf("   The child ended by signal %d (%s).\n", WTERMSIG(status),
                strsignal(WTERMSIG(status)));
  } else {  // a sanitizer's handler stood behind ours
    std::printf("   The child ended with exit code %d.\n", WEXITSTATUS(status));
  }
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("magpie %s\n", std::string(magpie::version()).c_str());

  station("This machine");
  std::printf("   %d CPUs may be used, by affinity and cgroup quota.\n", magpie::cpu_count());
  if (os::ticks_are_cheap()) {
    std::printf("   Time stamps come from the processor's counter, %.3f GHz.\n",
                static_cast<double>(os::ticks_per_second()) / 1e9);
  } else {
    std::printf("   The processor's counter is no clock here: time stamps come from the kernel.\n");
  }
  std::printf("   Guard pages: %s.\n",
              default_guard_kind() == guard_kind::markers
                  ? "markers in the page table, no limit"
                  : "a mapping each, limited by vm.max_map_count (Linux before 6.13)");

  stack_pool pool;
  thread_state thread;
  show_switch(pool, &thread);
  show_stacks(pool);
  show_overflow(pool, &thread);
  return 0;
}
