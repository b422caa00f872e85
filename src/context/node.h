// The tree of contexts.
//
// A node is a context with something to it: a value, an end, or the absence of the end above. It
// has a reference to its parent, so the way up is always there. The way down is weak: a cancel_node
// lists those who follow its end, and whoever goes away takes itself off that list.
//
// Cancelling walks down. Each node is told first; it leaves its parent's list only when nothing
// is left in its own. So whoever comes second with the same wish walks over what is left, helps
// where the first one has not been yet, and when it finds an empty list the whole subtree has been
// told: nobody has to wait for anybody, and nothing is locked but one node at a time. Telling is
// therefore done in steps that may be done twice.
//
// A cancelled node gets no followers any more: that is decided under its lock.
#pragma once

#include <magpie/context.h>
#include <magpie/mutex.h>

#include <memory>

#include "base/atomic.h"
#include "base/intrusive.h"
#include "chan/chan.h"
#include "context/token_watch.h"
#include "time/alarm.h"

namespace magpie::detail {

class cancel_node;

// without_cancel() makes plain ones: nothing to find, nobody above to end it.
struct context_node {
  context_node(const context& up, cancel_node* whose_end, time_point end);
  virtual ~context_node() = default;
  context_node(const context_node&) = delete;
  context_node& operator=(const context_node&) = delete;

  // The last reference is gone. Before the destructor, while everything is still there.
  virtual void retire() {}

  // The value under this key, if it has that.
  virtual const void* find(const void* /*key*/) const { return nullptr; }

  // False: the last reference is gone already. Inside the gate, too.
  bool try_retain();

  rt::atomic<std::uint32_t> references{1};
  context_node* const parent;    // one reference; null: the background
  cancel_node* const canceller;  // the nearest at or above; null: it is never cancelled
  const time_point deadline;     // the earliest at or above
};

// Whose end is the context's; null: it never ends.
inline cancel_node* canceller_of(const context& c) {
  return c.node() != nullptr ? c.node()->canceller : nullptr;
}

struct value_node final : context_node {
  value_node(const context& up, const void* k, void* v, void (*d)(void*));
  ~value_node() override { destroy(value); }
  const void* find(const void* k) const override { return k == key ? value : nullptr; }

  const void* const key;
  void* const value;
  void (*const destroy)(void*);
};

// ---- What ends --------------------------------------------------------------------------------

// Who follows the end of a cancel_node: a child, or a function of after_done().
struct follower {
  enum class kind : std::uint8_t {
    child,
    function,
  };
  explicit follower(kind k) : what(k) {}

  const kind what;
  rt::list_links<follower> links;  // under the lock of whom it follows
};

struct done_function : follower {
  explicit done_function(std::unique_ptr<timed_function> f)
      : follower(kind::function), function(std::move(f)) {}

  std::unique_ptr<timed_function> function;
  // While it is listed: the list's share in it, and what keeps the context.
  std::shared_ptr<done_function> self;
  context keeps;
};

// How a context ended.
struct ending {
  int error = 0;  // a std::errc
  std::exception_ptr cause;

  // `cause` null: the error itself.
  static ending with(std::errc, std::exception_ptr cause = nullptr);
};

class cancel_node final : public context_node, public follower {
 public:
  // `site`: in the program, for dumps of the goroutine that a deadline starts.
  cancel_node(const context& up, time_point end, const void* site);
  ~cancel_node() override;
  void retire() override;

  // All below: the caller has a reference. No lock is held.

  // Once each, after it was made. Joins the node above: if that has ended, this one ends with it.
  void follow_parent();
  void watch_deadline();
  void watch_token(const std::stop_token&);

  // This one and all below it have ended when it returns. The first end counts.
  void cancel(const ending&);

  // 0: it has not. If it has, done() is ready.
  int error();
  std::exception_ptr cause() const;

  channel_handle done();
  std::stop_token token();

  // False: it has ended, and the function was not listed.
  bool add(const std::shared_ptr<done_function>&);
  // False: it is not listed any more.
  bool remove(done_function&);

 private:
  struct deadline_alarm : rt::alarm {
    deadline_alarm(cancel_node&, const void* site);
    static void run(void* closure);
    static bool claim(rt::alarm&);
    static const rt::task_type k_task;
    cancel_node& node;
  };

  bool has_ended() const { return error_.load(rt::acquire) != 0; }  // pairs with tell()
  ending end_so_far() const;
  void tell(const ending&);
  void close_done();
  cancel_node* next_child();
  bool forget(follower&);
  bool may_end_by_itself() const;

  cancel_node* const above_;  // whom it follows; null: nobody

  // Under the lock; error_ and done_ are only written under it.
  mutex lock_;
  rt::intrusive_list<follower, &follower::links> followers_;
  rt::atomic<int> error_{0};
  std::exception_ptr cause_;                     // written before the error, and never again
  rt::atomic<rt::channel_core*> done_{nullptr};  // made when somebody asks
  std::stop_source stop_{std::nostopstate};      // the same
  deadline_alarm alarm_;
  token_watch* watch_ = nullptr;  // not under the lock: before others know the node, and after
};

}  // namespace magpie::detail
