// Address space and memory, as two things: a range is reserved once, pages are committed when
// they may be touched, and given back without losing the addresses.
#pragma once

#include <cstddef>
#include <span>

#include "os/error.h"

namespace magpie::rt::os {

struct memory_range {
  void* start = nullptr;
  std::size_t size = 0;
};

std::size_t page_size();

// Address space only; touching it faults. `alignment` is a power of two.
result<void*> reserve(std::size_t size, std::size_t alignment);

// Makes reserved pages usable; each takes memory when it is first touched. ENOMEM where the
// kernel counts promises (vm.overcommit_memory = 2) or has no mappings left.
error commit(memory_range);

// Gives the memory of committed pages back; they read as zero when touched again. Guards stay.
error give_back(memory_range);

// Gives up to 64 committed ranges their memory now, which costs less than a fault for each page
// later. False: not all of them have it, and nothing is lost.
bool populate(std::span<const memory_range>);

// Gives the address space back too.
error unmap(memory_range);

// Zeroed memory for the runtime's own records, taken page by page as it is touched, never from
// the heap. Lives until unmap().
result<void*> allocate_records(std::size_t size);

// Whether a page of the range becomes a huge one: never for stacks (a single touched byte would
// take 2 MiB), gladly for dense records. Advice: failure is not reported.
void forbid_huge_pages(memory_range);
void prefer_huge_pages(memory_range);

// Guards fault when touched. Two kinds:
//   markers    MADV_GUARD_INSTALL: an entry in the page table, the mapping stays one.
//              Linux 6.13 and later, not on locked memory.
//   mappings   mprotect: each guard splits its mapping, and vm.max_map_count is soon reached.
bool guard_markers_work();
error install_guard_markers(std::span<const memory_range>);
error remove_guard_markers(memory_range);  // of all guards in the range
error install_guard_mapping(memory_range);

// vm.max_map_count, or the kernel's default when it cannot be read.
std::size_t mapping_limit();
// How many mappings the process has now. Slow: reads /proc.
std::size_t mapping_count();

}  // namespace magpie::rt::os
