// Which blocking calls turned out to be long, by the place they are made from. A place whose calls
// were long of late gives its P away at once, instead of leaving it idle until the monitor comes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"

namespace magpie::rt {

class call_history {
 public:
  using site = std::uint8_t;  // two places may share one: a guess is all that is wanted

  static site site_of(const void* return_address) {
    const auto address = reinterpret_cast<std::uintptr_t>(return_address);
    return static_cast<site>((address * 0x9E3779B97F4A7C15u) >> 56);
  }

  // Any thread. Relaxed throughout: guesses, and a lost one is none of our concern.
  bool expects_long(site s) const { return sureness_[s].load(relaxed) >= k_enough; }
  void was_long(site s) {
    const std::uint8_t before = sureness_[s].load(relaxed);  // relaxed: see above
    if (before < k_most) sureness_[s].store(before + 1, relaxed);
  }
  void was_short(site s) {
    const std::uint8_t before = sureness_[s].load(relaxed);  // relaxed: see above
    if (before != 0) sureness_[s].store(before - 1, relaxed);
  }

 private:
  static constexpr std::uint8_t k_enough = 2, k_most = 3;
  atomic<std::uint8_t> sureness_[256] = {};
};

}  // namespace magpie::rt
