// A fiber that runs a function and can pause back to whoever resumed it: the smallest scheduler
// one can test switches with.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "fiber/fiber.h"
#include "fiber/stack_pool.h"

namespace magpie::rt::testing {

class test_fiber : public fiber {
 public:
  using body = std::function<void(test_fiber&)>;

  test_fiber(stack_pool& pool, body function, std::size_t stack_size = 256 << 10)
      : pool_(pool), body_(std::move(function)) {
    rt::stack* on = nullptr;
    if (pool_.take(class_for(stack_size), 1, &on) != 1) std::abort();
    prepare(*this, *on, &run);
  }
  ~test_fiber() { pool_.give(&stack, 1); }

  // Runs the body on the calling thread until it pauses or ends.
  [[gnu::noinline]] void resume(thread_state* thread) {
    fiber here;
    resumer_ = &here;
    switch_to(here, *this, thread);
  }

  // Inside the body: back to the resumer. Returns the state of the thread that resumed it next.
  [[gnu::noinline]] thread_state* pause() {
    thread_ = switch_to(*this, *resumer_, thread_);
    return thread_;
  }

  // Inside the body: straight to `other`, which goes on where it stopped and inherits our
  // resumer.
  [[gnu::noinline]] thread_state* hand_over(test_fiber& other) {
    other.resumer_ = resumer_;
    other.thread_ = thread_;
    thread_ = switch_to(*this, other, thread_);
    return thread_;
  }

  bool done() const { return done_; }

 private:
  static departure run(fiber* self, thread_state* thread) {
    auto* const me = static_cast<test_fiber*>(self);
    me->thread_ = thread;
    me->body_(*me);
    me->done_ = true;
    return {me->resumer_, me->thread_};
  }

  stack_pool& pool_;
  body body_;
  fiber* resumer_ = nullptr;
  thread_state* thread_ = nullptr;
  bool done_ = false;
};

}  // namespace magpie::rt::testing
