// Lifetime. The owner and every operation under way use the record. close() marks it, wakes
// everybody, and waits until they have ended; then it closes the kernel's descriptor, whose number
// therefore cannot be used again under one that is still in a system call. The record goes back to
// the pool when it has no owner either. Closing may take a while, so it happens outside of the
// gate, when a `remains` goes out of scope.
//
// An address is free again when the last reference to the socket is gone, and the kernel has one of
// its own while a thread collects the socket's events from the poller. That thread would be the one
// who closes it, a moment after our close(2). A socket with an address leaves the poller before.

#include "io/descriptor.h"

#include <cerrno>
#include <utility>

#include "io/shortage.h"
#include "io/wait.h"
#include "os/fork.h"
#include "os/record_pool.h"

namespace magpie::rt {
namespace {

// Of the whole process: a descriptor may outlive the runtime it was opened in.
constinit os::record_pool<descriptor, &descriptor::next_free> g_pool;

}  // namespace

descriptor::remains::~remains() {
  if (!fd) return;
  if (has_address && !os::in_forked_child()) poller::forget(fd.get());
  (void)fd.close();
  shortage::descriptor_closed();
}

int descriptor::open(int fd, descriptor*& made) {
  descriptor* const d = g_pool.take();
  if (d == nullptr) return ENOMEM;
  {
    const entry inside;
    const object_guard held(d->lock);
    d->poll_desc::fd = fd;
    d->read = d->write = {};
    d->reading_ = d->writing_ = {};
    d->closing_ = d->uncertain = d->has_address_ = false;
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
  remains to_close;
  entry inside;
  object_guard held(lock);
  if (const int failed = state(way)) return failed;
  ++uses_;
  const int failed = begin_locked(inside, way, held);
  if (failed == 0) return 0;
  held.lock(lock);
  waiter* const closer = end_use_locked(to_close);
  held.unlock();
  if (closer != nullptr) closer->wake(inside.m());
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
  place mine;
  t.queue.push_back(&mine);
  for (;;) {
    waiter me;
    const os::nanos deadline = t.deadline;
    me.contested = deadline != os::k_never;
    me.object = this;
    mine.asleep = &me;
    if (deadline == os::k_never) {
      inside.block(me, wait_reason::io_turn, held);
    } else {
      (void)inside.block_until(me, wait_reason::io_turn, held, deadline);
    }
    held.lock(lock);
    mine.asleep = nullptr;
    if (mine.has_turn) return 0;
    if (const int failed = state(way)) {
      t.queue.remove(&mine);
      held.unlock();
      return failed;
    }
  }
}

// Whoever gets it is to be woken; null: it is awake, or there is nobody. Under the lock.
waiter* descriptor::pass_turn_on_locked(direction way) {
  turn& t = turn_of(way);
  place* const next = t.queue.pop_front();
  t.taken = next != nullptr;
  if (next == nullptr) return nullptr;
  next->has_turn = true;
  waiter* const asleep = std::exchange(next->asleep, nullptr);
  return asleep != nullptr && asleep->decide(next) ? asleep : nullptr;
}

// They look what has changed. Those who wait for their turn keep their places.
void descriptor::wake_all_locked(direction way, wake_list& woken) {
  woken.add_all(of(way).waiting);
  auto& queue = turn_of(way).queue;
  for (place* p = queue.front(); p != nullptr; p = queue.next(p)) {
    waiter* const asleep = std::exchange(p->asleep, nullptr);
    if (asleep != nullptr && asleep->decide(p)) woken.add(*asleep);
  }
}

void descriptor::end(direction way, bool drained) {
  remains to_close;
  const entry inside;
  object_guard held(lock);
  of(way).drained = drained;
  waiter* const next = pass_turn_on_locked(way);
  waiter* const closer = end_use_locked(to_close);
  held.unlock();
  if (next != nullptr) next->wake(inside.m());
  if (closer != nullptr) closer->wake(inside.m());
}

int descriptor::begin_use() {
  const entry inside;
  const object_guard held(lock);
  if (closing_) return ECANCELED;
  ++uses_;
  return 0;
}

void descriptor::end_use() {
  remains to_close;
  const entry inside;
  object_guard held(lock);
  waiter* const closer = end_use_locked(to_close);
  held.unlock();
  if (closer != nullptr) closer->wake(inside.m());
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
    wake_all_locked(way, woken);
  }
  woken.wake_all(inside.m());
}

// ---- The end ----------------------------------------------------------------------------------

// Its own use keeps the record while it waits. In a child made by fork() those who are inside will
// never end; the descriptor stays open there.
void descriptor::close() {
  remains to_close;
  entry inside;
  wake_list woken;
  object_guard held(lock);
  const bool first = !std::exchange(closing_, true);
  if (uses_ == 0 || !first || os::in_forked_child()) return settle_locked(to_close);
  ++uses_;
  wake_all_locked(direction::read, woken);
  wake_all_locked(direction::write, woken);
  held.unlock();
  woken.wake_all(inside.m());
  held.lock(lock);
  if (uses_ != 1) {
    waiter me;
    me.object = this;
    closer_ = &me;
    inside.block(me, wait_reason::io_close, held);
    held.lock(lock);
  }
  (void)end_use_locked(to_close);
}

void descriptor::destroy() {
  close();
  remains to_close;
  const entry inside;
  const object_guard held(lock);
  owned_ = false;
  settle_locked(to_close);
}

// Returns the closer, if that is the only one left now: it is to be woken.
waiter* descriptor::end_use_locked(remains& to_close) {
  --uses_;
  settle_locked(to_close);
  if (uses_ != 1 || closer_ == nullptr) return nullptr;
  waiter* const closer = std::exchange(closer_, nullptr);
  return closer->decide(this) ? closer : nullptr;
}

void descriptor::settle_locked(remains& to_close) {
  if (!closing_ || uses_ != 0) return;
  to_close.fd = os::file_descriptor(std::exchange(poll_desc::fd, -1));
  to_close.has_address = has_address_;
  if (!owned_) {
    ++sequence;  // the kernel may still have events for it
    g_pool.give_back(this);
  }
}

}  // namespace magpie::rt
