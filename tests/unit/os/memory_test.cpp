#include "os/memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "refuse_syscall.h"
#include "support/subprocess.h"

namespace magpie::rt::os {
namespace {

const std::size_t k_page = page_size();

// The kernel is asked to touch the byte, so that a fault is an answer and not the end.
class pipe_to_the_kernel {
 public:
  pipe_to_the_kernel() {
    if (pipe2(ends_, O_CLOEXEC | O_NONBLOCK) != 0) std::abort();
  }
  ~pipe_to_the_kernel() {
    close(ends_[0]);
    close(ends_[1]);
  }
  bool can_read(const void* from) const { return done(::write(ends_[1], from, 1)); }
  bool can_write(void* to) const {
    (void)!::write(ends_[1], "x", 1);
    return done(::read(ends_[0], to, 1));
  }

 private:
  static bool done(ssize_t transferred) {
    if (transferred == 1) return true;
    EXPECT_EQ(errno, EFAULT);
    return false;
  }
  int ends_[2];
};

bool readable(const void* address) { return pipe_to_the_kernel().can_read(address); }
bool writable(void* address) { return pipe_to_the_kernel().can_write(address); }

// Pages of address space, committed or not, for one test.
class pages {
 public:
  explicit pages(std::size_t count) : size_(count * k_page) {
    const result<void*> made = reserve(size_, k_page);
    if (!made) std::abort();
    start_ = static_cast<char*>(*made);
  }
  ~pages() { EXPECT_FALSE(unmap(all())); }
  pages(const pages&) = delete;
  pages& operator=(const pages&) = delete;

  char* operator[](std::size_t page) const { return start_ + page * k_page; }
  memory_range range(std::size_t first, std::size_t count = 1) const {
    return {start_ + first * k_page, count * k_page};
  }
  memory_range all() const { return {start_, size_}; }

 private:
  char* start_;
  std::size_t size_;
};

std::size_t lines_in_maps() {
  std::ifstream file("/proc/self/maps");
  std::string line;
  std::size_t count = 0;
  while (std::getline(file, line)) ++count;
  return count;
}

// The VmFlags of the mapping that starts with `start`.
std::string mapping_flags(const void* start) {
  std::ostringstream prefix;
  prefix << std::hex << reinterpret_cast<std::uintptr_t>(start) << '-';
  std::ifstream file("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(prefix.str())) inside = true;
    if (inside && line.starts_with("VmFlags:")) return line + ' ';
  }
  return "no such mapping";
}

TEST(Memory, PageSizeIsTheKernels) {
  EXPECT_EQ(page_size(), static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
}

TEST(Memory, ReservedPagesCannotBeTouched) {
  const pages space(4);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_FALSE(readable(space[i])) << i;
    EXPECT_FALSE(writable(space[i])) << i;
  }
}

TEST(Memory, CommittedPagesAreZeroAndUsableAndTheOthersStayClosed) {
  const pages space(4);
  ASSERT_FALSE(commit(space.range(1, 2)));
  EXPECT_FALSE(readable(space[1] - 1));
  EXPECT_FALSE(readable(space[3]));
  for (std::size_t i = 0; i < 2 * k_page; ++i) ASSERT_EQ(space[1][i], 0);
  std::memset(space[1], 0x5a, 2 * k_page);
  EXPECT_EQ(space[2][k_page - 1], 0x5a);
}

TEST(Memory, CommittingAgainKeepsTheContent) {
  const pages space(2);
  ASSERT_FALSE(commit(space.range(0)));
  space[0][0] = 1;
  ASSERT_FALSE(commit(space.all()));
  EXPECT_EQ(space[0][0], 1);
}

TEST(Memory, ReservationsAreAlignedAsAsked) {
  for (const std::size_t alignment :
       {std::size_t{1}, std::size_t{64}, k_page, 2 * k_page, 16 * k_page, std::size_t{2} << 20,
        std::size_t{64} << 20, std::size_t{1} << 30}) {
    for (const std::size_t size : {k_page, 3 * k_page, std::size_t{4} << 20}) {
      const result<void*> made = reserve(size, alignment);
      ASSERT_TRUE(made) << alignment;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*made) % alignment, 0u) << alignment;
      auto* const start = static_cast<char*>(*made);
      ASSERT_FALSE(commit({start, size})) << "all of it must be ours";
      start[0] = 1;
      start[size - 1] = 1;
      EXPECT_FALSE(unmap({start, size}));
    }
  }
}

// What an alignment costs is given back: otherwise hundred gigabytes would be gone in a moment.
TEST(Memory, AlignmentTakesNoAddressSpace) {
  const auto virtual_pages = [] {
    std::size_t count = 0;
    std::ifstream("/proc/self/statm") >> count;
    return count;
  };
  constexpr std::size_t k_alignment = std::size_t{1} << 30;
  std::vector<void*> made;
  made.reserve(16);
  const std::size_t before = virtual_pages();
  for (int i = 0; i < 16; ++i) made.push_back(*reserve(4 * k_page, k_alignment));
  EXPECT_LT(virtual_pages() - before, k_alignment / k_page);
  for (void* start : made) EXPECT_FALSE(unmap({start, 4 * k_page}));
}

TEST(Memory, TooMuchAddressSpaceIsAnError) {
  EXPECT_EQ(reserve(SIZE_MAX / 2, k_page).error(), error{ENOMEM});
  EXPECT_EQ(reserve(SIZE_MAX - k_page, std::size_t{1} << 30).error(), error{ENOMEM})
      << "size and alignment together overflow";
  EXPECT_FALSE(allocate_records(SIZE_MAX / 2));
}

TEST(Memory, OddAlignmentIsReported) {
  const auto end = testing::run_program("misuse", {"odd_alignment"});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_THAT(end.output, ::testing::HasSubstr("alignment must be a power of two"));
}

TEST(Memory, PagesGivenBackReadAsZero) {
  const pages space(3);
  ASSERT_FALSE(commit(space.all()));
  std::memset(space[0], 0x5a, 3 * k_page);
  ASSERT_FALSE(give_back(space.range(1)));
  EXPECT_EQ(space[0][k_page - 1], 0x5a);
  for (std::size_t i = 0; i < k_page; ++i) ASSERT_EQ(space[1][i], 0);
  EXPECT_EQ(space[2][0], 0x5a);
  space[1][0] = 1;
  EXPECT_EQ(space[1][0], 1);
}

TEST(Memory, PagesGivenBackTakeNoMemory) {
  constexpr std::size_t k_count = 64;
  const pages space(k_count);
  ASSERT_FALSE(commit(space.all()));
  forbid_huge_pages(space.all());
  const auto resident = [&] {
    std::vector<unsigned char> present(k_count);
    EXPECT_EQ(syscall(SYS_mincore, space[0], k_count * k_page, present.data()), 0);
    std::size_t count = 0;
    for (const unsigned char page : present) count += page & 1;
    return count;
  };
  EXPECT_EQ(resident(), 0u) << "untouched pages must not take any either";
  std::memset(space[0], 1, k_count * k_page);
  EXPECT_EQ(resident(), k_count);
  ASSERT_FALSE(give_back(space.all()));
  EXPECT_EQ(resident(), 0u);
}

TEST(Memory, UnmappedMemoryIsGone) {
  const result<void*> records = allocate_records(2 * k_page);
  ASSERT_TRUE(records);
  auto* const bytes = static_cast<char*>(*records);
  bytes[0] = 1;
  ASSERT_FALSE(unmap({bytes, 2 * k_page}));
  EXPECT_FALSE(readable(bytes));
  EXPECT_EQ(commit({bytes, 2 * k_page}), error{ENOMEM});
  EXPECT_EQ(install_guard_mapping({bytes, 2 * k_page}), error{ENOMEM});
#ifndef MAGPIE_EMULATOR  // which takes advice about anything
  EXPECT_EQ(give_back({bytes, 2 * k_page}), error{ENOMEM});
#endif
}

TEST(Memory, NonsenseIsAnError) {
  const pages space(2);
  EXPECT_EQ(commit({space[0] + 1, k_page}), error{EINVAL});
  EXPECT_EQ(give_back({space[0] + 1, k_page}), error{EINVAL});
  EXPECT_EQ(unmap({space[0] + 1, k_page}), error{EINVAL});
}

TEST(Memory, RecordsAreZeroToTheLastByte) {
  const std::size_t size = 10 * k_page;
  const result<void*> records = allocate_records(size);
  ASSERT_TRUE(records);
  auto* const bytes = static_cast<char*>(*records);
  for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(bytes[i], 0);
  std::memset(bytes, 1, size);
  EXPECT_FALSE(unmap({bytes, size}));
}

TEST(Memory, HugePagesAreForbiddenAndPreferred) {
#ifdef MAGPIE_EMULATOR
  GTEST_SKIP() << "the emulator keeps advice about huge pages from the kernel";
#endif
  if (access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0) {
    GTEST_SKIP() << "a kernel without transparent huge pages takes no advice about them";
  }
  const result<void*> made = reserve(4 << 20, 2 << 20);
  ASSERT_TRUE(made);
  const memory_range range{*made, 4 << 20};
  ASSERT_FALSE(commit(range));
  forbid_huge_pages(range);
  EXPECT_THAT(mapping_flags(range.start), ::testing::HasSubstr(" nh "));
  prefer_huge_pages(range);
  EXPECT_THAT(mapping_flags(range.start), ::testing::HasSubstr(" hg "));
  EXPECT_FALSE(unmap(range));
}

// ---- guards ----

TEST(MemoryGuardMappings, FaultAndSparePagesAround) {
  const pages space(3);
  ASSERT_FALSE(commit(space.all()));
  space[1][0] = 1;
  ASSERT_FALSE(install_guard_mapping(space.range(1)));
  EXPECT_TRUE(writable(space[1] - 1));
  EXPECT_FALSE(readable(space[1]));
  EXPECT_FALSE(writable(space[1] + k_page - 1));
  EXPECT_TRUE(writable(space[2]));
}

TEST(MemoryGuardMappings, StayWhenMemoryIsGivenBackAndGoWhenCommitted) {
  const pages space(3);
  ASSERT_FALSE(commit(space.all()));
  ASSERT_FALSE(install_guard_mapping(space.range(1)));
  ASSERT_FALSE(give_back(space.all()));
  EXPECT_FALSE(readable(space[1]));
  ASSERT_FALSE(commit(space.range(1)));
  EXPECT_TRUE(writable(space[1]));
}

class MemoryGuardMarkers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!guard_markers_work()) GTEST_SKIP() << "a kernel without MADV_GUARD_INSTALL";
  }
};

TEST_F(MemoryGuardMarkers, FaultAndSparePagesAround) {
  const pages space(3);
  ASSERT_FALSE(commit(space.all()));
  space[1][0] = 1;
  const memory_range guard = space.range(1);
  ASSERT_FALSE(install_guard_markers({&guard, 1}));
  EXPECT_TRUE(writable(space[1] - 1));
  EXPECT_FALSE(readable(space[1]));
  EXPECT_FALSE(writable(space[1] + k_page - 1));
  EXPECT_TRUE(writable(space[2]));
}

// The kernel takes only so many in one call; the numbers around that limit are the ones to try.
TEST_F(MemoryGuardMarkers, AnyNumberIsInstalledAtOnce) {
  for (const std::size_t count : {0U, 1U, 2U, 63U, 64U, 65U, 128U, 129U, 200U}) {
    const pages space(2 * count + 1);
    ASSERT_FALSE(commit(space.all()));
    std::vector<memory_range> guards;
    for (std::size_t i = 0; i < count; ++i) guards.push_back(space.range(2 * i));
    ASSERT_FALSE(install_guard_markers(guards)) << count;
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_FALSE(readable(space[2 * i])) << i << " of " << count;
      ASSERT_TRUE(writable(space[2 * i + 1])) << i << " of " << count;
    }
  }
}

TEST_F(MemoryGuardMarkers, AreInstalledOneByOneWhereTheKernelRefusesToDoItAtOnce) {
  for (const int refused : {SYS_pidfd_open, SYS_process_madvise}) {
    const pages space(6);
    ASSERT_FALSE(commit(space.all()));
    const memory_range guards[] = {space.range(0), space.range(2), space.range(4)};
    error failure{-1};
    if (!run_refused(static_cast<unsigned>(refused), EPERM,
                     [&] { failure = install_guard_markers(guards); })) {
      GTEST_SKIP() << "no seccomp filters here to refuse system calls with";
    }
    EXPECT_FALSE(failure);
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(readable(space[i]), i % 2 == 1) << i;
  }
}

TEST_F(MemoryGuardMarkers, InstallingTwiceIsInstallingOnce) {
  const pages space(4);
  ASSERT_FALSE(commit(space.all()));
  const memory_range guards[] = {space.range(0), space.range(2)};
  ASSERT_FALSE(install_guard_markers(guards));
  ASSERT_FALSE(install_guard_markers(guards));
  EXPECT_FALSE(readable(space[0]));
  ASSERT_FALSE(remove_guard_markers(space.all()));
  EXPECT_TRUE(writable(space[0]));
  EXPECT_TRUE(writable(space[2]));
}

TEST_F(MemoryGuardMarkers, StayWhenMemoryIsGivenBack) {
  const pages space(3);
  ASSERT_FALSE(commit(space.all()));
  const memory_range guard = space.range(1);
  ASSERT_FALSE(install_guard_markers({&guard, 1}));
  ASSERT_FALSE(give_back(space.all()));
  EXPECT_FALSE(readable(space[1]));
  EXPECT_TRUE(writable(space[0]));
}

TEST_F(MemoryGuardMarkers, AreRemovedFromTheRangeOnlyAndTheRestKeepsItsContent) {
  const pages space(4);
  ASSERT_FALSE(commit(space.all()));
  std::memset(space[0], 0x5a, 4 * k_page);
  const memory_range guards[] = {space.range(0), space.range(2)};
  ASSERT_FALSE(install_guard_markers(guards));
  ASSERT_FALSE(remove_guard_markers(space.range(1, 3)));
  EXPECT_FALSE(readable(space[0]));
  EXPECT_EQ(space[1][0], 0x5a);
  EXPECT_EQ(space[2][0], 0) << "a guard forgets what was there";
  EXPECT_EQ(space[3][0], 0x5a);
}

TEST_F(MemoryGuardMarkers, RangeThatIsRefusedIsAnError) {
  const pages space(2);
  ASSERT_FALSE(commit(space.all()));
  const memory_range misaligned{space[0] + 1, k_page};
  EXPECT_EQ(install_guard_markers({&misaligned, 1}), error{EINVAL});
  const memory_range good_and_bad[] = {space.range(0), {space[0] + 1, k_page}};
  EXPECT_EQ(install_guard_markers(good_and_bad), error{EINVAL});
  EXPECT_EQ(remove_guard_markers(misaligned), error{EINVAL});
}

// ---- mappings ----

constexpr std::size_t k_guards = 100;
// What the test's own allocations, or a sanitizer's, may change meanwhile.
constexpr std::size_t k_noise = 20;

TEST(MemoryMappings, CountIsTheKernels) {
  const std::size_t before = mapping_count();
  EXPECT_GT(before, 3u) << "at least the program, its stack and libc";
  EXPECT_LT(before, mapping_limit());
  const std::size_t lines = lines_in_maps();
  EXPECT_LE(std::max(lines, before) - std::min(lines, before), k_noise);
}

TEST(MemoryMappings, GuardMappingsSplitTheirMapping) {
  const std::size_t before = mapping_count();
  const pages space(2 * k_guards);
  ASSERT_FALSE(commit(space.all()));
  for (std::size_t i = 0; i < k_guards; ++i) {
    ASSERT_FALSE(install_guard_mapping(space.range(2 * i)));
  }
  const std::size_t after = mapping_count();
  EXPECT_GE(after + k_noise, before + 2 * k_guards);
  EXPECT_LE(after, before + 2 * k_guards + k_noise);
}

TEST(MemoryMappings, GuardMarkersDoNot) {
  if (!guard_markers_work()) GTEST_SKIP() << "a kernel without MADV_GUARD_INSTALL";
  const std::size_t before = mapping_count();
  const pages space(2 * k_guards);
  ASSERT_FALSE(commit(space.all()));
  std::vector<memory_range> guards;
  for (std::size_t i = 0; i < k_guards; ++i) guards.push_back(space.range(2 * i));
  ASSERT_FALSE(install_guard_markers(guards));
  EXPECT_LE(mapping_count(), before + k_noise);
}

TEST(MemoryMappings, LimitIsTheKernels) {
  std::size_t limit = 65530;
  if (std::ifstream file("/proc/sys/vm/max_map_count"); file) file >> limit;
  EXPECT_EQ(mapping_limit(), limit);
}

TEST(MemoryMappings, WithoutProcTheDefaultIsAssumed) {
  std::size_t limit = 0;
  std::size_t count = 1;
  if (!run_refused(SYS_openat, EACCES, [&] {
        limit = mapping_limit();
        count = mapping_count();
      })) {
    GTEST_SKIP() << "no seccomp filters here to refuse openat with";
  }
  EXPECT_EQ(limit, 65530u);
  EXPECT_EQ(count, 0u);
}

}  // namespace
}  // namespace magpie::rt::os
