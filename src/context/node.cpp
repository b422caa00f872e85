#include "context/node.h"

#include <magpie/go.h>

#include <mutex>

namespace magpie::detail {

using rt::acq_rel;
using rt::acquire;
using rt::channel_core;
using rt::close_if_open;
using rt::destroy_channel;
using rt::is_closed;
using rt::relaxed;
using rt::release;
using rt::task_type;

// ---- References -------------------------------------------------------------------------------

namespace {

// The parents may go with it: one after the other, since there may be many.
void bury(context_node* node) {
  for (;;) {
    context_node* const parent = node->parent;
    node->retire();
    delete node;
    // acq_rel: the last one sees what all others did before.
    if (parent == nullptr || parent->references.fetch_sub(1, acq_rel) != 1) return;
    node = parent;
  }
}

context_node* another_reference(const context& c) {
  if (c.node() != nullptr) retain_context(c.node());
  return c.node();
}

}  // namespace

void retain_context(context_node* node) noexcept {
  node->references.fetch_add(1, relaxed);  // relaxed: the caller has a reference
}

void release_context(context_node* node) noexcept {
  if (node->references.fetch_sub(1, acq_rel) == 1) bury(node);  // as in bury()
}

bool context_node::try_retain() {
  std::uint32_t seen = references.load(relaxed);  // relaxed: the exchange decides
  while (seen != 0) {
    // relaxed: what leads to the node was published with it.
    if (references.compare_exchange_weak(seen, seen + 1, relaxed)) return true;
  }
  return false;
}

// ---- Nodes ------------------------------------------------------------------------------------

context_node::context_node(const context& up, cancel_node* whose_end, time_point end)
    : parent(another_reference(up)), canceller(whose_end), deadline(end) {}

value_node::value_node(const context& up, const void* k, void* v, void (*d)(void*))
    : context_node(up, canceller_of(up), up.deadline().value_or(never)),
      key(k),
      value(v),
      destroy(d) {}

const void* find_context_value(const context_node* node, const void* key) noexcept {
  for (; node != nullptr; node = node->parent) {
    if (const void* const found = node->find(key)) return found;
  }
  return nullptr;
}

ending ending::with(std::errc error, std::exception_ptr cause) {
  if (cause == nullptr) {
    static const std::exception_ptr canceled = std::make_exception_ptr(
        std::system_error(make_error_code(std::errc::operation_canceled), "context"));
    static const std::exception_ptr timed_out = std::make_exception_ptr(
        std::system_error(make_error_code(std::errc::timed_out), "context"));
    cause = error == std::errc::timed_out ? timed_out : canceled;
  }
  return {static_cast<int>(error), std::move(cause)};
}

// ---- The life of what ends --------------------------------------------------------------------

cancel_node::cancel_node(const context& up, time_point end, const void* site)
    : context_node(up, this, std::min(end, up.deadline().value_or(never))),
      follower(kind::child),
      above_(canceller_of(up)),
      alarm_(*this, site) {}

void cancel_node::follow_parent() {
  if (above_ == nullptr) return;
  {
    const std::scoped_lock hold(above_->lock_);
    if (!above_->has_ended()) return above_->followers_.push_back(this);
  }
  tell(above_->end_so_far());
}

void cancel_node::watch_deadline() {
  if (deadline == never || (parent != nullptr && parent->deadline <= deadline)) return;
  if (deadline <= clock::now()) return tell(ending::with(std::errc::timed_out));
  const std::scoped_lock hold(lock_);
  if (!has_ended()) alarm_.start(deadline);
}

void cancel_node::watch_token(const std::stop_token& token) {
  watch_ = token_watch::start(*this, token);
}

// Whoever finds the node from here on, in the list above, by the alarm or by the token, cannot
// get a reference.
void cancel_node::retire() {
  if (above_ != nullptr) above_->forget(*this);
  alarm_.stop();
  alarm_.wait_until_landed();
  if (watch_ != nullptr) watch_->end();
  // Children would have a reference; functions that nobody can start any more.
  while (follower* const left = followers_.pop_front()) {
    static_cast<done_function*>(left)->self.reset();
  }
}

cancel_node::~cancel_node() {
  if (channel_core* const done = done_.load(relaxed)) destroy_channel(done);  // relaxed: the last
}

cancel_node::deadline_alarm::deadline_alarm(cancel_node& n, const void* set_by)
    : alarm(k_task, claim, set_by), node(n) {}

constexpr task_type cancel_node::deadline_alarm::k_task{run, nullptr};

bool cancel_node::deadline_alarm::claim(rt::alarm& self) {
  return static_cast<deadline_alarm&>(self).node.try_retain();
}

void cancel_node::deadline_alarm::run(void* closure) {
  cancel_node& node = static_cast<deadline_alarm&>(from_closure(closure)).node;
  node.cancel(ending::with(std::errc::timed_out));
  release_context(&node);
}

// ---- The end ----------------------------------------------------------------------------------

void cancel_node::cancel(const ending& how) {
  tell(how);
  cancel_node* node = this;
  for (;;) {
    if (cancel_node* const child = node->next_child()) {
      child->tell(node->end_so_far());
      node = child;
      continue;
    }
    if (node == this) return;
    cancel_node* const above = node->above_;
    above->forget(*node);
    release_context(node);
    node = above;
  }
}

void cancel_node::tell(const ending& how) {
  std::stop_source stop(std::nostopstate);
  {
    const std::scoped_lock hold(lock_);
    if (!has_ended()) {
      cause_ = how.cause;
      error_.store(how.error, release);  // pairs with has_ended(), error() and end_so_far()
      alarm_.stop();
    }
    stop = stop_;
  }
  close_done();
  stop.request_stop();
}

// May be called again and again.
void cancel_node::close_done() {
  channel_core* const done = done_.load(acquire);  // pairs with the store in done()
  if (done != nullptr && !is_closed(*done)) close_if_open(*done);
}

// The first child, with a reference for the caller; it stays in the list. Functions that come
// before it are started. Null: nobody follows any more.
cancel_node* cancel_node::next_child() {
  for (;;) {
    std::shared_ptr<done_function> due;
    {
      const std::scoped_lock hold(lock_);
      follower* const first = followers_.front();
      if (first == nullptr) return nullptr;
      if (first->what == kind::child) {
        auto* const child = static_cast<cancel_node*>(first);
        if (child->try_retain()) return child;
      } else {
        due = std::move(static_cast<done_function*>(first)->self);
      }
      followers_.remove(first);
    }
    if (due == nullptr) continue;
    go([f = std::move(due->function)] { f->call(); });
    due->keeps = {};
  }
}

// False: it is in the list no more.
bool cancel_node::forget(follower& who) {
  const std::scoped_lock hold(lock_);
  if (!followers_.contains(&who)) return false;
  followers_.remove(&who);
  return true;
}

int cancel_node::error() {
  const int error = error_.load(acquire);  // pairs with tell()
  if (error != 0) close_done();
  return error;
}

ending cancel_node::end_so_far() const {
  const int error = error_.load(acquire);  // pairs with tell()
  return {error, error != 0 ? cause_ : nullptr};
}

std::exception_ptr cancel_node::cause() const { return end_so_far().cause; }

// ---- Who wants to know ------------------------------------------------------------------------

// The channel belongs to the node. Its references are those of the users' handles, which together
// have one reference to the node: whoever takes them from none to one brings it, whoever takes
// them from one to none gives it back.
channel_handle cancel_node::done() {
  channel_core* channel = done_.load(acquire);  // pairs with the store below
  if (channel == nullptr) {
    channel_core* made = make_channel(element_type_of<unit>, 0);
    made->references.store(0, relaxed);  // relaxed: nobody else knows it
    made->last_handle_gone = [](channel_core*, void* node) {
      release_context(static_cast<cancel_node*>(node));
    };
    made->last_handle_argument = this;
    {
      const std::scoped_lock hold(lock_);
      channel = done_.load(relaxed);  // relaxed: under the lock
      if (channel == nullptr) {
        channel = std::exchange(made, nullptr);
        done_.store(channel, release);  // pairs with the acquires
      }
    }
    if (made != nullptr) destroy_channel(made);
  }
  if (has_ended()) close_done();  // it may have been told before there was a channel
  retain_context(this);
  // relaxed: the caller has a reference to the node.
  if (channel->references.fetch_add(1, relaxed) != 0) release_context(this);
  return channel_handle(channel);
}

std::stop_token cancel_node::token() {
  std::stop_source mine(std::nostopstate);
  const auto look = [&] {
    const std::scoped_lock hold(lock_);
    if (!stop_.stop_possible()) stop_.swap(mine);
    mine = stop_;
  };
  look();
  if (!mine.stop_possible()) {
    mine = std::stop_source();
    look();
  }
  if (has_ended()) mine.request_stop();  // as in done()
  return mine.get_token();
}

bool cancel_node::may_end_by_itself() const {
  return deadline != never || above_ != nullptr || watch_ != nullptr;
}

bool cancel_node::add(const std::shared_ptr<done_function>& f) {
  const std::scoped_lock hold(lock_);
  if (has_ended()) return false;
  f->self = f;
  // Otherwise only those who refer to it can end it, and when there are none nobody waits for it.
  if (may_end_by_itself()) {
    retain_context(this);
    f->keeps = context(this);
  }
  followers_.push_back(f.get());
  return true;
}

bool cancel_node::remove(done_function& f) {
  if (!forget(f)) return false;
  // The caller has a share in it, and a reference to this: nothing ends here.
  f.self.reset();
  f.keeps = {};
  return true;
}

}  // namespace magpie::detail
