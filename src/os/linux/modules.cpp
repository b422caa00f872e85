#include "os/modules.h"

#include <link.h>
#include <string.h>

#include <algorithm>

#include "os/memory.h"

namespace magpie::rt::os {
namespace {

struct collector {
  loaded_module* to;
  std::size_t count;
};

void take_segments(loaded_module& m, const dl_phdr_info& info) {
  m.low = ~std::uintptr_t{0};
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& segment = info.dlpi_phdr[i];
    const std::uintptr_t start = info.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD) {
      m.low = std::min(m.low, start);
      m.high = std::max(m.high, start + segment.p_memsz);
    } else if (segment.p_type == PT_GNU_EH_FRAME) {
      m.unwind_table = start;
    }
  }
  for (int i = 0; i < info.dlpi_phnum && m.unwind_table != 0; ++i) {
    const auto& segment = info.dlpi_phdr[i];
    const std::uintptr_t start = info.dlpi_addr + segment.p_vaddr;
    const bool holds_table = segment.p_type == PT_LOAD && m.unwind_table >= start &&
                             m.unwind_table < start + segment.p_memsz;
    if (holds_table) m.unwind_end = start + segment.p_memsz;
  }
  if (m.unwind_end == 0) m.unwind_table = 0;
}

int add_module(dl_phdr_info* info, std::size_t, void* raw) {
  auto& list = *static_cast<collector*>(raw);
  if (list.count == module_table::k_most) return 1;
  loaded_module& m = list.to[list.count];
  m = {};
  const bool is_program = info->dlpi_name == nullptr || info->dlpi_name[0] == '\0';
  strncpy(m.path, is_program ? "/proc/self/exe" : info->dlpi_name, sizeof m.path - 1);
  m.bias = info->dlpi_addr;
  take_segments(m, *info);
  if (m.low < m.high) ++list.count;
  return 0;
}

}  // namespace

module_table::module_table() {
  const auto memory = allocate_records(k_most * sizeof(loaded_module));
  if (!memory) return;
  modules_ = static_cast<loaded_module*>(*memory);
  collector list{modules_, 0};
  dl_iterate_phdr(add_module, &list);
  count_ = list.count;
}

module_table::~module_table() {
  if (modules_ != nullptr) (void)unmap({modules_, k_most * sizeof(loaded_module)});
}

const loaded_module* module_table::find(std::uintptr_t address) const {
  const loaded_module* const found =
      std::find_if(begin(), end(), [&](const loaded_module& m) { return m.contains(address); });
  return found != end() ? found : nullptr;
}

}  // namespace magpie::rt::os
