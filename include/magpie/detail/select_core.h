// What the templates of select.h stand on. Not for users; the logic is in src/chan/select.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include <magpie/detail/channel_core.h>
#include <magpie/detail/duration.h>
#include <magpie/detail/waiting.h>
#include <magpie/export.h>

namespace magpie::detail {

// Something other than a channel that a select can wait for. All functions are called inside the
// gate with `lock` held. Whoever makes it ready takes the first node off its list by
// rt::pop_front() and wakes; see src/sched/waiting.h.
struct select_source {
  lock_word* lock;
  bool (*take)(select_source&);  // whether it is ready; if so, this select has it now
  void (*enlist)(select_source&, rt::wait_node&);
  void (*withdraw)(select_source&, rt::wait_node&);  // the node may be off the list already
};

// One case, as select_among() sees it.
struct select_entry {
  enum class kind : std::uint8_t {
    never,  // a nil channel
    send,
    receive,
    source,
    timeout,   // counted from the call
    deadline,  // a point of time
    otherwise,
  };

  kind what = kind::never;
  channel_core* channel = nullptr;
  select_source* source = nullptr;
  void* slot = nullptr;  // the value to send, or where the received one goes; see channel_core.h
  deliver_function deliver = nullptr;
  duration time{};  // how long, or since the clock's beginning

  // Scratch of select_among().
  lock_word* lock;
  std::uint32_t by_lock;    // [i]: the entry whose lock is the i-th to take
  std::uint32_t candidate;  // [i]: an entry worth trying
  alignas(void*) std::byte node[64];
};

struct select_outcome {
  std::size_t index;
  channel_result result;  // of a receive: ok or closed
};

// Waits until one case can go on and does it. Throws closed_channel when that is a send to a closed
// channel, and what moving a value throws.
MAGPIE_API select_outcome select_among(select_entry* cases, std::size_t count);

}  // namespace magpie::detail
