#include "os/code.h"

#include <link.h>

#include "base/atomic.h"

namespace magpie::rt::os {
namespace {

using range = code_look::range;

// Only ever added to: somebody may look at any time. All zero, so that nothing is in what is not
// there yet.
constexpr std::size_t k_most_ranges = 128;
range g_ranges[k_most_ranges];
constinit atomic<std::size_t> g_range_count{0};
constinit atomic<bool> g_noting{false};

void add_range(range found) {
  const std::size_t count = g_range_count.load(relaxed);  // relaxed: one writer at a time
  for (std::size_t i = 0; i < count; ++i) {
    if (g_ranges[i].low == found.low && g_ranges[i].high == found.high) return;
  }
  if (count == k_most_ranges) return;
  g_ranges[count] = found;
  g_range_count.store(count + 1, release);  // pairs with code_look()
}

int on_module(dl_phdr_info* info, std::size_t, void*) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    const std::uintptr_t low = info->dlpi_addr + part.p_vaddr;
    add_range({low, low + part.p_memsz});
  }
  return 0;
}

}  // namespace

void note_code() {
  // acquire, release: one at a time; who comes second need not wait.
  if (g_noting.exchange(true, acquire)) return;
  dl_iterate_phdr(on_module, nullptr);
  g_noting.store(false, release);  // pairs with the exchange
}

code_look::code_look() : all_(g_ranges), last_(g_ranges[0]) {
  end_ = all_ + g_range_count.load(acquire);  // pairs with add_range()
}

}  // namespace magpie::rt::os
