// Contexts: how a piece of work learns that it is not wanted any more.
//
//   auto [ctx, cancel] = magpie::with_timeout(parent, 5s);
//   magpie::go([ctx = ctx] {
//     magpie::select(magpie::on_receive(jobs, ...),
//                    magpie::on_done(ctx, [] { return; }));
//   });
//   ...
//   cancel();
//
// A context is cancelled by its cancel_function, by its deadline, or with its parent; once, and
// for good. It is handed down by value, first parameter, and derived from: whoever gets one may
// pass on a shorter deadline or a value, but never more time than it has. Copying one costs a
// counter.
//
// Nothing has to be cancelled to be freed: a context that nobody refers to any more, neither a
// copy, its done(), a child nor a cancel_function, leaves its parent and takes its timer along.
// There is no goroutine behind a context; one is started when a deadline has passed, in the runtime
// where the deadline was set, and with that runtime the deadline goes.
//
// Everything here may be called from any thread, and at the same time.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include <magpie/channel.h>
#include <magpie/export.h>
#include <magpie/select.h>
#include <magpie/time.h>

namespace magpie {

class context;
class cancel_function;

// Names a value of type T in contexts. Keys are told apart by address: make them globals.
template <class T>
class context_key {
 public:
  explicit context_key(std::string_view name = {}) : name_(name) {}
  context_key(const context_key&) = delete;
  context_key& operator=(const context_key&) = delete;

  const std::string& name() const noexcept { return name_; }

 private:
  std::string name_;
};

namespace detail {

struct context_node;  // src/context/node.h

MAGPIE_API void retain_context(context_node*) noexcept;
MAGPIE_API void release_context(context_node*) noexcept;
MAGPIE_API const void* find_context_value(const context_node*, const void* key) noexcept;
// Takes the value over, also when it throws.
MAGPIE_API context with_any_value(context parent, const void* key, void* value,
                                  void (*destroy)(void*));
MAGPIE_API std::function<bool()> after_done_function(context, std::unique_ptr<timed_function>);

}  // namespace detail

class MAGPIE_API context {
 public:
  // The root: never cancelled, no deadline, no values.
  static context background() noexcept { return context(); }
  context() noexcept = default;

  context(const context& other) noexcept : node_(other.node_) {
    if (node_ != nullptr) detail::retain_context(node_);
  }
  context(context&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  context& operator=(context other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~context() {
    if (node_ != nullptr) detail::release_context(node_);
  }

  // Closed when the context is cancelled or past its deadline; keeps the context until then. Nil if
  // neither can happen.
  receiver<unit> done() const;

  // None, or std::errc::operation_canceled, or std::errc::timed_out. If there is one, done() is
  // ready.
  std::error_code error() const noexcept;

  // Why: what the cancel_function was given, here or above. Without that, a std::system_error of
  // error(). Null while error() is none.
  std::exception_ptr cause() const noexcept;

  std::optional<time_point> deadline() const noexcept;

  // The value of the nearest with_value() with this key; null: there is none. Valid as long as the
  // context.
  template <class T>
  const T* value(const context_key<T>& key) const noexcept {
    return static_cast<const T*>(detail::find_context_value(node_, &key));
  }

  // Requested when the context is cancelled, after done() is closed. Callbacks run in whoever
  // cancels. The token alone does not keep the context: if nothing else does, it is never
  // requested.
  std::stop_token stop_token() const;

  // Not for users. Takes over a reference.
  explicit context(detail::context_node* node) noexcept : node_(node) {}
  detail::context_node* node() const noexcept { return node_; }

 private:
  detail::context_node* node_ = nullptr;
};

// Cancels one context and all below it. Copies do the same; the first call counts. When a call
// returns, whoever made the first one, every context below is cancelled and its done() closed.
// Destroying it does nothing. A default-constructed one does nothing.
class MAGPIE_API cancel_function {
 public:
  cancel_function() noexcept = default;
  void operator()(std::exception_ptr cause = nullptr) const;

 private:
  friend std::pair<context, cancel_function> with_cancel(context);
  friend std::pair<context, cancel_function> with_deadline(context, time_point);
  friend std::pair<context, cancel_function> with_stop_token(context, std::stop_token);
  explicit cancel_function(context ctx) noexcept : ctx_(std::move(ctx)) {}

  context ctx_;
};

MAGPIE_API std::pair<context, cancel_function> with_cancel(context parent);

// Cancelled with timed_out at the deadline, or at the parent's if that is earlier. A deadline that
// has passed: at once.
MAGPIE_API std::pair<context, cancel_function> with_deadline(context parent, time_point);
MAGPIE_API std::pair<context, cancel_function> with_timeout(context parent, duration);
template <class Rep, class Period>
std::pair<context, cancel_function> with_timeout(context parent,
                                                 std::chrono::duration<Rep, Period> timeout) {
  return with_timeout(std::move(parent), detail::to_duration(timeout));
}

// Also cancelled when a stop is requested of the token, before request_stop() returns.
MAGPIE_API std::pair<context, cancel_function> with_stop_token(context parent, std::stop_token);

template <class T>
context with_value(context parent, const context_key<T>& key, std::type_identity_t<T> value) {
  return detail::with_any_value(std::move(parent), &key, new T(std::move(value)),
                                [](void* old) { delete static_cast<T*>(old); });
}

// The values of the parent, without its end: for what has to be done afterwards.
MAGPIE_API context without_cancel(context parent);

// Runs f() in a goroutine of its own once the context is cancelled; at once if it is. The goroutine
// belongs to the runtime of whoever cancels. The function that is returned prevents that: true, f
// will not run because of this call. Until one of both has happened, the context is kept.
template <class F>
std::function<bool()> after_done(context ctx, F f) {
  return detail::after_done_function(std::move(ctx),
                                     std::make_unique<detail::timed_function_of<F>>(std::move(f)));
}

// A case for select(): the context is cancelled. handler().
template <class F>
auto on_done(const context& ctx, F&& handler) {
  return on_receive(ctx.done(), [handler = std::decay_t<F>(std::forward<F>(handler))](
                                    const std::optional<unit>&) mutable { handler(); });
}

}  // namespace magpie
