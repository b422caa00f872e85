// Lifetime. The owner and every operation under way use the record. close() marks it and wakes
// everybody; the kernel's descriptor is closed by the last operation that ends, so that its number
// cannot be used again under one that is still in a system call. The record goes back to the pool
// when it has no owner either. Closing may take a while, so it happens outside of the gate: the
// functions below that have something to close hand it to their caller's caller.

#include "io/descriptor.h"

#include <cerrno>
#include <utility>

#include "io/wait.h"
#include "os/record_pool.h"

namespace magpie::rt {
namespace {

// Of the whole process: a descriptor may outlive the runtime it was opened in.
constinit os::record_pool<descriptor, &descriptor::next_free> g_pool;

}  // namespace

struct descriptor::turn_waiter : waiter {
  wait_node node{*this};
  bool has_turn = false;
};

int descriptor::open(int fd, descriptor*& made) {
  descriptor* const d = g_pool.take();
  if (d == nullptr) return ENOMEM;
  {
    const entry inside;
    const object_guard held(d->lock);
    d->poll_desc::fd = fd;
    d->read = d->write = {};
    d->reading_ = d->writing_ = {};
    d->closing_ = d->uncertain = false;
    d->owned_ = true;
    d->registered_with_ = 0;
  }
  if (const int failed = d->register_with(home_of_wait(current_m()))) {
    d->poll_desc::fd = -1;  // stays the caller's
    d->destroy();
    return failed;
  }
  made = d;
  return 0;
}

// Runtimes that waited here before keep their registration: at worst they are told in vain.
int descriptor::register_with(scheduler& home) {
  if (const os::error failed = home.start_poller()) return failed.code;
  if (const os::error failed = home.descriptors.add(fd(), token_of(*this))) return failed.code;
  const entry inside;
  const object_guard held(lock);
  registered_with_ = home.descriptors.number();
  return 0;
}

// ---- Operations -------------------------------------------------------------------------------

// Why nothing may go on; 0: it may. Under the lock.
int descriptor::state(direction way) {
  if (closing_) return ECANCELED;
  const os::nanos deadline = turn_of(way).deadline;
  return deadline != os::k_never && os::now() >= deadline ? ETIMEDOUT : 0;
}

int descriptor::begin(direction way) {
  os::file_descriptor to_close;
  entry inside;
  object_guard held(lock);
  if (const int failed = state(way)) return failed;
  ++uses_;
  const int failed = begin_locked(inside, way, held);
  if (failed == 0) return 0;
  held.lock(lock);
  to_close = end_use_locked();
  return failed;
}

// Releases the lock. Not zero: the turn is not the caller's.
int descriptor::begin_locked(entry& inside, direction way, object_guard& held) {
  if (const int failed = wait_for_turn(inside, way, held)) return failed;
  side& s = of(way);
  const bool try_first = !std::exchange(s.drained, false) || s.ready || uncertain;
  int failed = 0;
  if (try_first) {
    s.ready = false;  // what comes after the call that follows counts
    held.unlock();
  } else {
    failed = wait_locked(inside, way, held);
  }
  if (failed == 0) return 0;
  held.lock(lock);
  waiter* const next = pass_turn_on_locked(way);
  held.unlock();
  if (next != nullptr) next->wake(inside.m());
  return failed;
}

// The lock is held afterwards if it was got, else not.
int descriptor::wait_for_turn(entry& inside, direction way, object_guard& held) {
  turn& t = turn_of(way);
  if (!std::exchange(t.taken, true)) return 0;
  for (;;) {
    turn_waiter me;
    const os::nanos deadline = t.deadline;
    me.contested = deadline != os::k_never;
    me.object = this;
    push_back(t.queue, me.node);
    if (deadline == os::k_never) {
      inside.block(me, wait_reason::io_turn, held);
    } else {
      (void)inside.block_until(me, wait_reason::io_turn, held, deadline);
    }
    held.lock(lock);
    remove(t.queue, me.node);
    if (me.has_turn) return 0;
    if (const int failed = state(way)) {
      held.unlock();
      return failed;
    }
  }
}

// Whoever gets it is to be woken. Under the lock.
waiter* descriptor::pass_turn_on_locked(direction way) {
  turn& t = turn_of(way);
  wait_node* const next = pop_front(t.queue);
  t.taken = next != nullptr;
  if (next == nullptr) return nullptr;
  static_cast<turn_waiter*>(next->who)->has_turn = true;
  return next->who;
}

void descriptor::end(direction way, bool drained) {
  os::file_descriptor to_close;
  const entry inside;
  object_guard held(lock);
  of(way).drained = drained;
  waiter* const next = pass_turn_on_locked(way);
  to_close = end_use_locked();
  held.unlock();
  if (next != nullptr) next->wake(inside.m());
}

int descriptor::begin_use() {
  const entry inside;
  const object_guard held(lock);
  if (closing_) return ECANCELED;
  ++uses_;
  return 0;
}

void descriptor::end_use() {
  os::file_descriptor to_close;
  const entry inside;
  const object_guard held(lock);
  to_close = end_use_locked();
}

int descriptor::wait(direction way) {
  entry inside;
  object_guard held(lock);
  return wait_locked(inside, way, held);
}

// Releases the lock.
int descriptor::wait_locked(entry& inside, direction way, object_guard& held) {
  scheduler& home = home_of_wait(inside.m());
  for (;;) {
    if (const int failed = state(way)) return held.unlock(), failed;
    if (std::exchange(of(way).ready, false)) return held.unlock(), 0;
    if (registered_with_ == home.descriptors.number()) break;
    held.unlock();
    if (const int failed = register_with(home)) return failed;
    held.lock(lock);
  }
  (void)wait_for_event(inside, *this, way, held, turn_of(way).deadline);
  // An event, or something to be told. A deadline that was only moved costs a call in vain.
  const object_guard again(lock);
  return state(way);
}

void descriptor::set_deadline(direction way, os::nanos deadline) {
  const entry inside;
  wake_list woken;
  {
    const object_guard held(lock);
    turn_of(way).deadline = deadline;
    woken.add_all(of(way).waiting);
    woken.add_all(turn_of(way).queue);
  }
  woken.wake_all(inside.m());
}

// ---- The end ----------------------------------------------------------------------------------

void descriptor::close() {
  os::file_descriptor to_close;
  const entry inside;
  wake_list woken;
  {
    const object_guard held(lock);
    closing_ = true;
    for (const direction way : {direction::read, direction::write}) {
      woken.add_all(of(way).waiting);
      woken.add_all(turn_of(way).queue);
    }
    to_close = settle_locked();
  }
  woken.wake_all(inside.m());
}

void descriptor::destroy() {
  close();
  os::file_descriptor to_close;
  const entry inside;
  const object_guard held(lock);
  owned_ = false;
  to_close = settle_locked();
}

os::file_descriptor descriptor::end_use_locked() {
  --uses_;
  return settle_locked();
}

os::file_descriptor descriptor::settle_locked() {
  if (!closing_ || uses_ != 0) return {};
  os::file_descriptor to_close(std::exchange(poll_desc::fd, -1));
  if (!owned_) {
    ++sequence;  // the kernel may still have events for it
    g_pool.give_back(this);
  }
  return to_close;
}

}  // namespace magpie::rt
