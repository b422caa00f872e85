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

  // Those that should have run before now. While there are others, too, every second that is taken
  // is one of these: where they keep coming, the others must not wait for ever.
  void push_urgent(G* const* from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) urgent_.push_back(from[i]);
    publish_length();
  }

  G* pop() {
    G* const g = take();
    publish_length();
    return g;
  }
  // An urgent one if there is any.
  G* pop_urgent() {
    urgent_is_next_ = true;
    return pop();
  }

  // One that is locked to a thread, if there is any.
  G* pop_locked() {
    const auto is_locked = [](const G& g) { return g.locked; };
    G* g = urgent_.take_first_if(is_locked);
    if (g == nullptr) g = queue_.take_first_if(is_locked);
    publish_length();
    return g;
  }

  // A fair share for one of `procs` Ps, at most `most`. Returns how many it is.
  std::size_t pop_batch(std::size_t procs, std::size_t most, G** out) {
    const std::size_t all = queue_.size() + urgent_.size();
    const std::size_t count = std::min({most, all, all / procs + 1});
    for (std::size_t i = 0; i < count; ++i) out[i] = take();
    publish_length();
    return count;
  }

 private:
  // relaxed: the fence in wake_p() and the one before a thread's last look order it.
  void publish_length() { length_.store(queue_.size() + urgent_.size(), relaxed); }

  G* take() {
    const bool urgent = urgent_.size() != 0 && (urgent_is_next_ || queue_.size() == 0);
    urgent_is_next_ = !urgent;
    return urgent ? urgent_.pop_front() : queue_.pop_front();
  }

  goroutine_ring queue_;
  goroutine_ring urgent_;
  bool urgent_is_next_ = true;
  atomic<std::size_t> length_{0};
};

}  // namespace magpie::rt
