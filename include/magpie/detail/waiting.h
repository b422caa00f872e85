// What objects that goroutines wait in are made of: a lock of one word and lists of those who
// wait. Not for users; the logic is in src/sched/waiting.h.
#pragma once

#include <atomic>
#include <cstdint>

namespace magpie::rt {
struct wait_node;
struct poll_desc;
class scheduler;
}  // namespace magpie::rt

namespace magpie::detail {

// Guards one object, for a few dozen instructions at a time.
struct lock_word {
  std::atomic<std::uint32_t> value{0};
};

// First come, first served. Under the object's lock.
struct wait_list {
  rt::wait_node* first = nullptr;
  rt::wait_node* last = nullptr;
};

}  // namespace magpie::detail
