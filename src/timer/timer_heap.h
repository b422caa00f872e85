// The pending timers of one P, the earliest at hand.
//
// A heap with four children per entry. An entry has a copy of the time, so that finding its place
// touches nothing else, and leads to a node, which leads to the timer. Nothing leads back: a
// timer that is cancelled, and most are, only takes itself out of its node. Such nodes are dropped
// when they come up, or all at once when every fourth entry is one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "os/lock.h"
#include "timer/timer.h"

namespace magpie::rt {

class timer_heap {
 public:
  timer_heap() = default;
  ~timer_heap();
  timer_heap(const timer_heap&) = delete;
  timer_heap& operator=(const timer_heap&) = delete;

  // All for any thread.

  enum class addition {
    refused,  // nobody agreed: it is idle again
    later,    // than another one
    earliest,
  };

  // `t` is idle and has its time. It does not fire before agree(argument) has returned, if there is
  // such a thing; when that says no, it never does. Nothing of `t` is touched afterwards.
  using agreement = bool (*)(void* argument);
  addition add(timer& t, agreement agree = nullptr, void* argument = nullptr);

  // Fires what is due, earliest first. Returns how many did.
  std::size_t run_expired(os::nanos now, harvest&);

  // When something is due next, or a cancelled timer would have been; k_never: nothing.
  os::nanos next() const { return next_.load(relaxed); }  // relaxed: see sched/timers.cpp

  // How many are pending; too many while one is being cancelled.
  std::size_t pending() const {
    // relaxed: a number; who concludes something from it comes again.
    // acquire pairs with pop_locked(): what was done before a timer was taken out is visible.
    const auto all = static_cast<std::int64_t>(size_.load(acquire));
    const std::int64_t gone = std::max(cancelled_.load(relaxed), 0);  // as above
    return static_cast<std::size_t>(std::max<std::int64_t>(all - gone, 0));
  }

  // Takes all of `other`'s.
  void absorb(timer_heap& other);

  // While paused nothing fires, and nothing is due. Beginning with the return of pause(); what
  // has fired before is with whoever has the harvest.
  void pause();
  void resume();

  // Makes all idle that are pending, without firing them, and says farewell.
  void clear();

 private:
  friend struct timer;

  struct entry {
    os::nanos when;
    timer_node* node;
  };
  struct node_chunk;

  timer* take_any();

  bool fire_locked(timer_node*, os::nanos now, harvest&);
  void push_locked(entry);
  void pop_locked();
  void sift_up_locked(std::uint32_t at, entry);
  void sift_down_locked(std::uint32_t at, entry);
  void drop_cancelled_locked();
  void grow_locked();
  timer_node* new_node_locked();
  void free_node_locked(timer_node*);
  void publish_next_locked();
  std::uint32_t size_locked() const { return size_.load(relaxed); }  // relaxed: under the lock

  os::member_lock lock_{os::lock_rank::leaf};
  entry* entries_ = nullptr;
  std::uint32_t capacity_ = 0;
  bool paused_ = false;
  atomic<std::uint32_t> size_{0};
  // How many of those are cancelled. A hint: one cancelled while the heap is moved is missed.
  atomic<std::int32_t> cancelled_{0};
  atomic<os::nanos> next_{os::k_never};
  timer_node* free_nodes_ = nullptr;
  node_chunk* chunks_ = nullptr;
};

}  // namespace magpie::rt
