#include "context/token_watch.h"

#include <magpie/blocking.h>
#include <magpie/go.h>

#include <mutex>
#include <utility>

#include "context/node.h"

namespace magpie::detail {

using rt::acq_rel;

// The watches whose callbacks this goroutine, or plain thread, has run last. A callback may lead
// to others, through the token of a context that it cancels: they are all kept until the outermost
// has been left.
struct token_watch::calls {
  int depth = 0;
  token_watch* kept = nullptr;

  ~calls() { forget(); }
  void forget() {
    while (token_watch* const watch = kept) {
      kept = watch->next_;
      watch->give_back();
    }
  }
};

token_watch::calls& token_watch::calls_of_caller() {
  static goroutine_local<calls> mine;
  return mine.get();
}

token_watch* token_watch::start(cancel_node& node, const std::stop_token& token) {
  return new token_watch(node, token);
}

token_watch::token_watch(cancel_node& node, const std::stop_token& token)
    : token_(token), node_(&node), callback_(token, on_stop{this}) {}

// The last share: the callback has been left, or never was and never will be called.
void token_watch::give_back() {
  // acq_rel: what others did with it comes before its end.
  if (shares_.fetch_sub(1, acq_rel) == 1) delete this;
}

void token_watch::end() {
  // The callback may have to be waited for, and may wait for a P.
  if (blocking([this] { return leave_before_the_call(); })) return;
  {
    const std::scoped_lock hold(lock_);
    node_ = nullptr;
    if (stage_ == stage::listening) {
      stage_ = stage::abandoned;
      return;
    }
  }
  give_back();
}

// On one thread from the look at the token to the end. False: too late.
bool token_watch::leave_before_the_call() {
  if (token_.stop_requested()) return false;
  {
    const std::scoped_lock hold(lock_);
    if (stage_ != stage::listening) return false;
    stage_ = stage::leaving;
  }
  delete this;
  return true;
}

void token_watch::stop_requested() {
  cancel_node* node = nullptr;
  {
    const std::scoped_lock hold(lock_);
    if (stage_ == stage::leaving) return;
    if (stage_ == stage::listening) {
      stage_ = stage::called;
      shares_.fetch_add(1, acq_rel);  // as in give_back()
    }
    if (node_ != nullptr && node_->try_retain()) node = node_;
  }
  calls& mine = calls_of_caller();
  if (mine.depth == 0) mine.forget();
  next_ = std::exchange(mine.kept, this);
  if (node == nullptr) return;
  ++mine.depth;
  node->cancel(ending::with(std::errc::operation_canceled));
  release_context(node);
  --mine.depth;
}

}  // namespace magpie::detail
