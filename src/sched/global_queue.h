// Goroutines that belong to no P: overflow of full rings, those readied by threads without a P,
// those whose P was taken away. Every P looks here now and then, so nothing waits for ever.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/atomic.h"
#include "goroutine/g.h"
#include "sched/goroutine_ring.h"

namespace magpie::rt {

class global_queue {
 public:
  // Any thread: worth taking the lock?
  std::size_t length() const { return length_.load(relaxed); }  // relaxed: looked at again inside

  // All below under the scheduler's lock.

  void push(G* g) {
    queue_.push_back(g);
    publish_length();
  }
  void push_all(goroutine_queue& from) {
    while (G* const g = from.pop_front()) queue_.push_back(g);
    publish_length();
  }
  void push_all(G* const* from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) queue_.push_back(from[i]);
    publish_length();
  }

  // Before all others, in their order.
  void push_all_first(G* const* from, std::size_t count) {
    for (std::size_t i = count; i-- > 0;) queue_.push_front(from[i]);
    publish_length();
  }

  G* pop() {
    G* const g = queue_.pop_front();
    publish_length();
    return g;
  }

  // A fair share for one of `procs` Ps, at most `most`. Returns how many it is.
  std::size_t pop_batch(std::size_t procs, std::size_t most, G** out) {
    const std::size_t count = std::min({most, queue_.size(), queue_.size() / procs + 1});
    for (std::size_t i = 0; i < count; ++i) out[i] = queue_.pop_front();
    publish_length();
    return count;
  }

 private:
  // relaxed: the fence in wake_p() and the one before a thread's last look order it.
  void publish_length() { length_.store(queue_.size(), relaxed); }

  goroutine_ring queue_;
  atomic<std::size_t> length_{0};
};

}  // namespace magpie::rt
