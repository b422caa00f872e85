// A context's ear at a std::stop_token.
//
// A std::stop_callback judges who destroys it by the thread. On the one where the stop was
// requested it takes that for its own callback, and does not wait for it; on any other it waits
// until the callback has ended. Goroutines change threads, in a callback, too, and so it can be
// wrong both ways: go away below a callback that still runs, or wait for ever for itself. A
// callback that looks into a mutex, or one of somebody else's that ran before it, is enough.
//
// So it is destroyed only when it does not matter what it thinks:
//
//   No stop has been requested when the node retires: at once. If one is requested just then, it
//   is on another thread, since this one is busy here; to wait is right.
//
//   A stop has been requested: not before its callback has returned into the library that called
//   it. Whoever ran the callback, or is still going to, has a share in the watch, and gives it
//   back when it runs another one or ends: both show that it has left this one behind. The node
//   has the other share, and waits for nothing.
//
// What is kept a little longer that way is this object, not the node; and only by goroutines that
// requested a stop, what they told the last time.
#pragma once

#include <magpie/mutex.h>

#include <cstdint>
#include <stop_token>

#include "base/atomic.h"

namespace magpie::detail {

class cancel_node;

class token_watch {
 public:
  // Cancels the node when a stop is requested: now, if it has been.
  static token_watch* start(cancel_node&, const std::stop_token&);

  // When the node retires. It is left alone from here on, and the watch not the caller's any more.
  void end();

 private:
  enum class stage : std::uint8_t {
    listening,
    called,     // the callback has begun: two shares
    abandoned,  // the node has gone, and the callback is about to come: one share, its own
    leaving,    // the node has gone, and takes the callback off: nothing to do for it
  };
  struct on_stop {
    token_watch* watch;
    void operator()() const { watch->stop_requested(); }
  };
  struct calls;  // of one goroutine

  token_watch(cancel_node&, const std::stop_token&);
  ~token_watch() = default;
  bool leave_before_the_call();
  void stop_requested();
  void give_back();

  static calls& calls_of_caller();

  const std::stop_token token_;
  rt::atomic<int> shares_{1};
  token_watch* next_ = nullptr;  // in the calls of a goroutine

  mutex lock_;
  cancel_node* node_;  // null: it has gone
  stage stage_ = stage::listening;

  std::stop_callback<on_stop> callback_;  // last: it may be called while it is made
};

}  // namespace magpie::detail
