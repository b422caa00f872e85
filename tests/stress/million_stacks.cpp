// A million guarded stacks at once: what they cost, that each guard is real, and that the memory
// comes back.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "fiber/stack_pool.h"
#include "os/memory.h"
#include "support/subprocess.h"

namespace magpie::rt {
namespace {

constexpr std::size_t k_million = 1'000'000;
constexpr std::size_t k_fewest = 20'000;
constexpr size_class k_class = class_for(256 << 10);

// A line "Name:   1234 kB" of a file below /proc.
double kib(const char* file_name, const char* name) {
  std::FILE* const file = std::fopen(file_name, "r");
  if (file == nullptr) return 0;
  char line[256];
  double found = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    const std::size_t length = std::strlen(name);
    if (std::strncmp(line, name, length) == 0 && line[length] == ':') {
      found = std::strtod(line + length + 1, nullptr);
    }
  }
  std::fclose(file);
  return found;
}

// The number in a file of one; `otherwise` when there is none.
double number_in(const char* path, double otherwise) {
  std::FILE* const file = std::fopen(path, "r");
  if (file == nullptr) return otherwise;
  double number = 0;
  if (std::fscanf(file, "%lf", &number) != 1) number = otherwise;  // "max"
  std::fclose(file);
  return number;
}

struct usage {
  double resident = kib("/proc/self/status", "VmRSS");
  double page_tables = kib("/proc/self/status", "VmPTE");
  std::size_t mappings = os::mapping_count();
};

// Whether reading there faults, asked through the kernel.
bool faults(const void* address) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const bool refused = write(ends[1], address, 1) < 0 && errno == EFAULT;
  close(ends[0]);
  close(ends[1]);
  return refused;
}

// Kernels with CONFIG_PT_RECLAIM (6.14 and later) return page tables together with the memory they
// map; others keep them until the mapping goes.
bool kernel_returns_page_tables() {
  constexpr std::size_t k_size = std::size_t{512} << 20;
  void* const space = mmap(nullptr, k_size, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) return false;
  madvise(space, k_size, MADV_NOHUGEPAGE);
  for (std::size_t i = 0; i < k_size; i += 1 << 20) static_cast<char*>(space)[i] = 1;
  const double with = usage().page_tables;
  madvise(space, k_size, MADV_DONTNEED);
  const double without = usage().page_tables;
  munmap(space, k_size);
  return with - without > 512;
}

// How many stacks the memory of this machine allows: all, or fewer with a word.
std::size_t affordable() {
  // A page and a record each, page tables for a slot of 256 KiB, and our list of them.
  constexpr double k_kib_each = 4.0 + 0.07 + 0.52 + 0.01;
  const double machine = kib("/proc/meminfo", "MemAvailable");
  const double container = (number_in("/sys/fs/cgroup/memory.max", 1e18) -
                            number_in("/sys/fs/cgroup/memory.current", 0)) /
                           1024;
  const double available = std::min(machine, container);
  const auto can = static_cast<std::size_t>(std::max(0.0, available * 0.8 / k_kib_each));
  if (can >= k_million) return k_million;
  std::printf("%.0f MiB of memory are free here: %zu stacks instead of a million\n",
              available / 1024, can);
  return can;
}

// Fills `stacks` and touches one page of each. Returns how many there were.
std::size_t take_and_touch(stack_pool& pool, std::vector<stack*>& stacks) {
  std::size_t have = 0;
  while (have < stacks.size()) {
    const std::size_t got =
        pool.take(k_class, std::min<std::size_t>(32, stacks.size() - have), &stacks[have]);
    if (got == 0) break;
    for (std::size_t i = have; i < have + got; ++i) stacks[i]->high[-1] = 1;
    have += got;
  }
  return have;
}

void expect_guards(const std::vector<stack*>& stacks) {
  for (std::size_t i = 0; i < stacks.size(); i += 10'000) {
    const char* const low = stacks[i]->low;
    EXPECT_TRUE(faults(low - 1)) << "stack " << i;
    EXPECT_TRUE(faults(low - k_guard_size)) << "stack " << i;
    EXPECT_FALSE(faults(low)) << "stack " << i;
  }
}

TEST(MillionStacks, LiveAtOnceAndComeBack) {
  if (sanitizer::k_address || sanitizer::k_thread) {
    GTEST_SKIP() << "a sanitizer's own memory per stack would be measured";
  }
  if (!os::guard_markers_work()) {
    GTEST_SKIP() << "no MADV_GUARD_INSTALL here: vm.max_map_count ends it far below a million";
  }
  const std::size_t wanted = affordable();
  if (wanted < k_fewest) GTEST_SKIP() << "not enough memory for a test that says something";
  const bool page_tables_return = kernel_returns_page_tables();
  if (!page_tables_return) std::printf("this kernel keeps page tables: not looked at\n");

  stack_pool pool(guard_kind::markers);
  std::vector<stack*> stacks(wanted);
  const usage start;
  for (int round = 1; round <= 2; ++round) {
    const auto began = std::chrono::steady_clock::now();
    ASSERT_EQ(take_and_touch(pool, stacks), wanted);
    const usage full;
    const double each = (full.resident - start.resident) / static_cast<double>(wanted);
    EXPECT_LE(each, 4.3) << "KiB of memory per stack";
    EXPECT_LT(full.mappings, 200u);
    expect_guards(stacks);
    const auto middle = std::chrono::steady_clock::now();

    pool.give(stacks.data(), stacks.size());
    pool.trim(0);
    const usage end;
    // What stays is the table of chunks: 2 bytes per stack.
    EXPECT_LT(end.resident - start.resident, 3 * 1024) << "KiB left in round " << round;
    if (page_tables_return) {
      EXPECT_LT(end.page_tables - start.page_tables, 2 * 1024) << "KiB left in round " << round;
    }
    const auto seconds = [](auto from, auto to) {
      return std::chrono::duration<double>(to - from).count();
    };
    std::printf(
        "round %d: %zu stacks in %.1f s, %.2f KiB each and %.0f MiB of page tables, %zu mappings; "
        "back in %.1f s, %.1f MiB and %.1f MiB of page tables left\n",
        round, wanted, seconds(began, middle), each, (full.page_tables - start.page_tables) / 1024,
        full.mappings, seconds(middle, std::chrono::steady_clock::now()),
        (end.resident - start.resident) / 1024, (end.page_tables - start.page_tables) / 1024);
  }
}

// As on kernels before 6.13, chosen as a user would.
TEST(MillionStacks, TwentyThousandWithoutMarkersAndWordsAtTheLimit) {
  if (sanitizer::k_thread) GTEST_SKIP() << "TSan keeps a fiber of its own for every stack";
  if (os::mapping_limit() > 100'000) {
    GTEST_SKIP() << "vm.max_map_count is raised here (" << os::mapping_limit()
                 << "): the limit is too far away to be reached in a test";
  }
  const testing::program_end some =
      testing::run_program("many_stacks", {"20000"}, {"MAGPIE_STACK_GUARDS=mprotect"});
  EXPECT_EQ(some.exit_code, 0) << some.output;
  EXPECT_EQ(some.output, "20000 stacks, all guarded\n");

  const testing::program_end too_many =
      testing::run_program("many_stacks", {"1000000"}, {"MAGPIE_STACK_GUARDS=mprotect"});
  EXPECT_EQ(too_many.exit_code, 1) << "the limit must be an answer, not a crash";
  EXPECT_THAT(too_many.output,
              ::testing::ContainsRegex("no stack for another goroutine: [0-9]+ are in use, and the "
                                       "process runs out of memory mappings"));
  EXPECT_THAT(too_many.output, ::testing::HasSubstr("sysctl -w vm.max_map_count=1000000"));
}

TEST(MillionStacks, WhoInsistsOnMarkersGetsThemOrWords) {
  const testing::program_end end =
      testing::run_program("many_stacks", {"100"}, {"MAGPIE_STACK_GUARDS=madvise"});
  EXPECT_THAT(end.output,
              ::testing::HasSubstr(os::guard_markers_work() ? "100 stacks, all guarded"
                                                            : "no MADV_GUARD_INSTALL here"));
}

}  // namespace
}  // namespace magpie::rt
