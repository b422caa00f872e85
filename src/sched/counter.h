// Statistics that cost their writer an addition.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace magpie::rt {

// A number that one thread at a time adds to and any thread may read.
class counter {
 public:
  // Owner only.
  void add(std::uint64_t n = 1) {
    value_.store(value_.load(relaxed) + n, relaxed);  // relaxed: a statistic, nothing follows
  }
  // The same for a reader who concludes from the number that what came before is visible.
  void add_visibly() {
    value_.store(value_.load(relaxed) + 1, release);  // relaxed: own; pairs with read_and_see()
  }
  std::uint64_t read_and_see() const { return value_.load(acquire); }  // pairs with add_visibly()
  // Any thread.
  std::uint64_t read() const { return value_.load(relaxed); }  // relaxed: as above

 private:
  atomic<std::uint64_t> value_{0};
};

}  // namespace magpie::rt
