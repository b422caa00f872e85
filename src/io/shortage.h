// Out of descriptors: those who need one, and those who give one back.
//
// Of the whole process, as descriptors are. Whoever is refused one says so, tries once more, and
// waits; whoever closes one looks whether somebody waits, which costs a load. Others may close
// descriptors that we never hear of: so nobody should wait for ever.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "os/clock.h"

namespace magpie::rt {

// As long as one lives its owner needs a descriptor.
class shortage {
 public:
  shortage();
  ~shortage();
  shortage(const shortage&) = delete;
  shortage& operator=(const shortage&) = delete;

  // Until a descriptor was closed since it was made, or since the last wait; or until somebody
  // says look_again(), or the time is over.
  void wait_until(os::nanos deadline);

  // A descriptor was given back to the kernel. Any thread, outside of the gate.
  static void descriptor_closed() {
    // seq_cst: either it sees who was refused before, or that one's next try is after the close.
    if (seekers_.load(std::memory_order_seq_cst) != 0) [[unlikely]]
      wake_one();
  }

  // There is another reason to look: for all of them. Any thread, outside of the gate.
  static void look_again() {
    // seq_cst: the same, with what the caller has changed before, by a seq_cst operation too.
    if (seekers_.load(std::memory_order_seq_cst) != 0) [[unlikely]]
      wake_all();
  }

 private:
  static void wake_one();
  static void wake_all();
  static atomic<std::uint32_t> seekers_;

  std::uint64_t seen_;
};

}  // namespace magpie::rt
