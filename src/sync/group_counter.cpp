// group_counter.cpp: the waiting of group.

#include <magpie/detail/group_counter.h>

#include "sched/waiting.h"

namespace magpie::detail {

using namespace rt;

bool group_counter::try_begin() {
  const entry inside;
  const object_guard held(lock_);
  if (running_ >= limit_) return false;
  ++running_;
  return true;
}

void group_counter::begin() {
  entry inside;
  object_guard held(lock_);
  if (running_ < limit_) {
    ++running_;
    return;
  }
  waiter me;
  me.object = this;
  wait_node node{me};
  push_back(beginners_, node);
  inside.block(me, wait_reason::group_limit, held);  // whoever woke it has counted it
}

void group_counter::end() noexcept {
  const entry inside;
  wake_list woken;
  {
    const object_guard held(lock_);
    --running_;
    if (running_ < limit_) {
      if (wait_node* const next = pop_front(beginners_)) {
        ++running_;
        woken.add(*next->who);
      }
    }
    if (running_ == 0) woken.add_all(waiting_);
  }
  woken.wake_all(inside.m());
}

void group_counter::wait() noexcept {
  entry inside;
  object_guard held(lock_);
  if (running_ == 0) return;
  waiter me;
  me.object = this;
  wait_node node{me};
  push_back(waiting_, node);
  inside.block(me, wait_reason::wait_group_wait, held);
}

void group_counter::set_limit(std::size_t limit) {
  const entry inside;
  wake_list woken;
  {
    const object_guard held(lock_);
    limit_ = limit;
    while (running_ < limit_) {
      wait_node* const next = pop_front(beginners_);
      if (next == nullptr) break;
      ++running_;
      woken.add(*next->who);
    }
  }
  woken.wake_all(inside.m());
}

}  // namespace magpie::detail
