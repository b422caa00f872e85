#include "os/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "base/atomic.h"
#include "base/check.h"
#include "os/fault.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

namespace magpie::rt::os {
namespace {

error to_error(int failed) { return failed == 0 ? error{} : last_error(); }

error advise(memory_range range, int advice) {
  return to_error(
      faulty(fault_call::madvise, [&] { return madvise(range.start, range.size, advice); }));
}

void* map(std::size_t size, int access) {
  constexpr int k_kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (fault(fault_call::mmap)) return MAP_FAILED;
  return mmap(nullptr, size, access, k_kind, -1, 0);
}

error protect(memory_range range, int access) {
  return to_error(
      faulty(fault_call::mmap, [&] { return mprotect(range.start, range.size, access); }));
}

// Whether the kernel refuses to read from `page`. Asked through a system call, so that a guard
// that does not work costs nothing but the answer.
bool faults_when_touched(const void* page) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  const bool refused = write(ends[1], page, 1) < 0 && errno == EFAULT;
  close(ends[0]);
  close(ends[1]);
  return refused;
}

// An emulated kernel may answer yes to advice it does not know, so the effect is what counts.
bool probe_guard_markers() {
  const std::size_t size = page_size();
  void* const page =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  const bool works = madvise(page, size, MADV_GUARD_INSTALL) == 0 && faults_when_touched(page);
  munmap(page, size);
  return works;
}

// From Linux 6.15 on this process has a pidfd that needs no opening. Before that one is opened
// each time: a kept one would mean the parent after a fork.
constexpr int k_this_process = -10001;  // PIDFD_SELF_THREAD_GROUP

long advise_this_process(std::span<const iovec> ranges, int advice) {
  const auto call = [&](int process) {
    return faulty(fault_call::madvise, [&] {
      return syscall(SYS_process_madvise, process, ranges.data(), ranges.size(), advice, 0);
    });
  };
  const long advised = call(k_this_process);
  if (advised >= 0 || errno != EBADF) return advised;
  const int opened = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  if (opened < 0) return -1;
  const long advised_at_last = call(opened);
  close(opened);
  return advised_at_last;
}

// All ranges in one system call.
bool advise_in_one_call(std::span<const memory_range> all, int advice) {
  constexpr std::size_t k_most = 64;
  if (all.size() < 2 || all.size() > k_most) return false;
  iovec ranges[k_most];
  std::size_t total = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ranges[i] = {all[i].start, all[i].size};
    total += all[i].size;
  }
  return advise_this_process({ranges, all.size()}, advice) == static_cast<long>(total);
}

// Reads a file of /proc into `text`; returns the bytes read.
std::size_t read_file(int file, char* text, std::size_t size) {
  for (;;) {
    const ssize_t got = read(file, text, size);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) return 0;
  }
}

}  // namespace

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

result<void*> reserve(std::size_t size, std::size_t alignment) {
  MAGPIE_CHECK((alignment & (alignment - 1)) == 0, "alignment must be a power of two");
  const std::size_t slack = alignment > page_size() ? alignment : 0;
  if (size + slack < size) return error{ENOMEM};
  void* const mapped = map(size + slack, PROT_NONE);
  if (mapped == MAP_FAILED) return last_error();
  if (slack == 0) return mapped;

  const auto address = reinterpret_cast<std::uintptr_t>(mapped);
  const std::uintptr_t aligned = (address + alignment - 1) & ~(alignment - 1);
  const std::size_t before = aligned - address;
  if (before != 0) munmap(mapped, before);
  if (slack != before) munmap(reinterpret_cast<void*>(aligned + size), slack - before);
  return reinterpret_cast<void*>(aligned);
}

error commit(memory_range range) { return protect(range, PROT_READ | PROT_WRITE); }

error give_back(memory_range range) { return advise(range, MADV_DONTNEED); }

// The kernel takes whole pages; a sanitizer that is not told so keeps what it knew of the last one,
// and takes it for a race when another thread gets that page.
error unmap(memory_range range) {
  const std::size_t whole_pages = (range.size + page_size() - 1) & ~(page_size() - 1);
  return to_error(munmap(range.start, whole_pages));
}

result<void*> allocate_records(std::size_t size) {
  void* const mapped = map(size, PROT_READ | PROT_WRITE);
  if (mapped == MAP_FAILED) return last_error();
  return mapped;
}

void forbid_huge_pages(memory_range range) { (void)advise(range, MADV_NOHUGEPAGE); }
void prefer_huge_pages(memory_range range) { (void)advise(range, MADV_HUGEPAGE); }

bool guard_markers_work() {
  static const bool works = probe_guard_markers();
  return works;
}

error install_guard_markers(std::span<const memory_range> guards) {
  while (!guards.empty()) {
    const std::span<const memory_range> part =
        guards.first(std::min<std::size_t>(guards.size(), 64));
    guards = guards.subspan(part.size());
    if (advise_in_one_call(part, MADV_GUARD_INSTALL)) continue;
    // One by one: an older process_madvise, no descriptor left, or a range that is refused, which
    // is then known by its error. A guard installed twice is one guard.
    for (const memory_range guard : part) {
      if (const error failure = advise(guard, MADV_GUARD_INSTALL)) return failure;
    }
  }
  return {};
}

bool populate(std::span<const memory_range> ranges) {
#ifndef MADV_POPULATE_WRITE
  constexpr int MADV_POPULATE_WRITE = 23;
#endif
  return advise_in_one_call(ranges, MADV_POPULATE_WRITE);
}

error remove_guard_markers(memory_range range) { return advise(range, MADV_GUARD_REMOVE); }

error install_guard_mapping(memory_range range) { return protect(range, PROT_NONE); }

std::size_t mapping_limit() {
  constexpr std::size_t k_kernel_default = 65530;
  const int file = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
  if (file < 0) return k_kernel_default;
  char text[32];
  const std::size_t size = read_file(file, text, sizeof text);
  close(file);
  std::size_t limit = 0;
  for (std::size_t i = 0; i < size && text[i] >= '0' && text[i] <= '9'; ++i) {
    limit = limit * 10 + static_cast<std::size_t>(text[i] - '0');
  }
  return limit != 0 ? limit : k_kernel_default;
}

std::size_t mapping_count() {
  const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[4096];
  std::size_t lines = 0;
  while (const std::size_t size = read_file(file, text, sizeof text)) {
    lines += static_cast<std::size_t>(std::count(text, text + size, '\n'));
  }
  close(file);
  return lines;
}

}  // namespace magpie::rt::os
