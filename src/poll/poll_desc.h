// What the runtime knows about one descriptor that somebody may wait for: who waits, and whether
// something has happened since they last looked.
//
// The kernel may report an event after the descriptor was closed, and its number used again. So a
// record is never freed, only recycled, and what the kernel carries for us is its address together
// with a number that changes with every use: an event for an earlier use is recognised.
#pragma once

#include <cstdint>

#include <magpie/detail/waiting.h>

#include "base/cacheline.h"

namespace magpie::rt {

enum class direction : std::uint8_t {
  read,
  write,
};

struct alignas(k_cache_line) poll_desc {
  struct side {
    detail::wait_list waiting;
    bool ready = false;    // an event came while nobody waited
    bool drained = false;  // nothing is there until the next event; see io/descriptor.h
  };

  side& of(direction way) { return way == direction::read ? read : write; }

  bool is_awaited() const {
    return read.waiting.first != nullptr || write.waiting.first != nullptr;
  }

  // All below under the lock, which is an object's lock: see sched/waiting.h.
  detail::lock_word lock;
  int fd = -1;
  std::uint16_t sequence = 0;
  bool guest = false;      // of another library; see io/guest.h
  bool uncertain = false;  // the peer has ended, or worse: an event is not followed by another
  side read;
  side write;
};

// 48 bits of address, 16 of sequence.
inline std::uint64_t token_of(const poll_desc& d) {
  return reinterpret_cast<std::uintptr_t>(&d) << 16 | d.sequence;
}
inline poll_desc* desc_of(std::uint64_t token) { return reinterpret_cast<poll_desc*>(token >> 16); }
inline std::uint16_t sequence_of(std::uint64_t token) { return static_cast<std::uint16_t>(token); }

}  // namespace magpie::rt
