// What the reader of the trace believes about one goroutine or one P, so far: kept with it, in one
// word, together with the generation it was last mentioned in and its sequence number there.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace magpie::rt::trace {

enum class belief : std::uint8_t {
  nothing,   // never heard of it; or it has ended
  unborn,    // made by a thread without a P, which cannot tell: whoever starts it does
  runnable,  // a goroutine, all four
  running,   // ... or a P that a thread holds
  waiting,
  syscall,  // both a goroutine and its P
  idle,     // a P
};

struct mark_value {
  std::uint64_t generation;
  belief state;
  std::uint32_t sequence;
};

class mark {
 public:
  // Any thread. acquire: what belongs to the state was written before.
  std::uint64_t load() const { return word_.load(acquire); }
  // The owner, once it is mentioned in the generation.
  void set(const mark_value& value) { word_.store(pack(value), release); }  // pairs with load()
  // The first mention in a generation, by the owner or by the recorder: one of them does it.
  bool claim(std::uint64_t before, const mark_value& value) {
    // acq_rel: as for load() and set(). relaxed: the loser looks again.
    return word_.compare_exchange_strong(before, pack(value), acq_rel, relaxed);
  }

  static mark_value unpack(std::uint64_t word) {
    return {word >> 36, static_cast<belief>((word >> 32) & 15U), static_cast<std::uint32_t>(word)};
  }

 private:
  static std::uint64_t pack(const mark_value& value) {
    return (value.generation << 36) | (static_cast<std::uint64_t>(value.state) << 32) |
           value.sequence;
  }

  atomic<std::uint64_t> word_{0};
};
static_assert(sizeof(mark) == 8);

}  // namespace magpie::rt::trace
