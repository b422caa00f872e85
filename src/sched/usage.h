// What the time of a P went into. It is in one of three uses at any moment, so that what was spent
// on them adds up to how long it has been there, to the tick.
#pragma once

#include <algorithm>
#include <cstdint>

#include "os/clock.h"

namespace magpie::rt {

// All of it under the scheduler's lock: a P changes its use where a thread falls asleep or is
// woken, and one more reading of the clock does not matter there.
class p_usage {
 public:
  enum class use : std::uint8_t {
    off,   // beyond the present number of Ps
    idle,  // on the list of those that nobody has
    busy,  // an M has it, or is about to
  };

  void become(use next) {
    const std::uint64_t now = std::max(os::ticks(), since_);  // counters may be apart
    spent_[index(now_)] += now - since_;
    since_ = now;
    now_ = next;
  }

  // In ticks, up to `now`, which is a reading under the lock.
  std::uint64_t spent(use on, std::uint64_t now) const {
    const std::uint64_t under_way = on == now_ ? std::max(now, since_) - since_ : 0;
    return spent_[index(on)] + under_way;
  }

 private:
  static std::size_t index(use u) { return static_cast<std::size_t>(u); }

  std::uint64_t spent_[3] = {};
  std::uint64_t since_ = os::ticks();
  use now_ = use::off;
};

}  // namespace magpie::rt
