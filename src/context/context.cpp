// context.cpp: the public doors to the tree of contexts.

#include <magpie/context.h>
#include <magpie/go.h>

#include "context/node.h"

namespace magpie {
namespace {

using detail::cancel_node;
using detail::canceller_of;
using detail::context_node;
using detail::ending;

context derive(const context& parent, time_point deadline, const void* site) {
  auto* const node = new cancel_node(parent, deadline, site);
  context made(node);
  node->follow_parent();
  node->watch_deadline();
  return made;
}

}  // namespace

// ---- context ----------------------------------------------------------------------------------

receiver<unit> context::done() const {
  cancel_node* const node = canceller_of(*this);
  return node != nullptr ? receiver<unit>(node->done()) : receiver<unit>();
}

std::error_code context::error() const noexcept {
  cancel_node* const node = canceller_of(*this);
  const int error = node != nullptr ? node->error() : 0;
  return error != 0 ? make_error_code(static_cast<std::errc>(error)) : std::error_code();
}

std::exception_ptr context::cause() const noexcept {
  const cancel_node* const node = canceller_of(*this);
  return node != nullptr ? node->cause() : nullptr;
}

std::optional<time_point> context::deadline() const noexcept {
  if (node_ == nullptr || node_->deadline == never) return std::nullopt;
  return node_->deadline;
}

std::stop_token context::stop_token() const {
  cancel_node* const node = canceller_of(*this);
  return node != nullptr ? node->token() : std::stop_token();
}

// ---- Derived ones -----------------------------------------------------------------------------

void cancel_function::operator()(std::exception_ptr cause) const {
  if (cancel_node* const node = canceller_of(ctx_)) {
    node->cancel(ending::with(std::errc::operation_canceled, std::move(cause)));
  }
}

std::pair<context, cancel_function> with_cancel(context parent) {
  context made = derive(parent, never, nullptr);
  cancel_function cancel(made);
  return {std::move(made), std::move(cancel)};
}

std::pair<context, cancel_function> with_deadline(context parent, time_point deadline) {
  context made = derive(parent, deadline, __builtin_return_address(0));
  cancel_function cancel(made);
  return {std::move(made), std::move(cancel)};
}

std::pair<context, cancel_function> with_timeout(context parent, duration timeout) {
  return with_deadline(std::move(parent), detail::deadline_after(clock::now(), timeout));
}

std::pair<context, cancel_function> with_stop_token(context parent, std::stop_token token) {
  context made = derive(parent, never, nullptr);
  if (token.stop_possible()) made.node()->canceller->watch_token(token);
  cancel_function cancel(made);
  return {std::move(made), std::move(cancel)};
}

context without_cancel(context parent) { return context(new context_node(parent, nullptr, never)); }

namespace detail {

context with_any_value(context parent, const void* key, void* value, void (*destroy)(void*)) {
  try {
    return context(new value_node(parent, key, value, destroy));
  } catch (...) {
    destroy(value);
    throw;
  }
}

std::function<bool()> after_done_function(context ctx, std::unique_ptr<timed_function> f) {
  auto pending = std::make_shared<done_function>(std::move(f));
  cancel_node* const node = canceller_of(ctx);
  if (node == nullptr) {  // never, and that can be prevented once
    return [left = std::make_shared<rt::atomic<bool>>(true)] { return left->exchange(false); };
  }
  if (!node->add(pending)) {
    go([f = std::move(pending->function)] { f->call(); });
    return [] { return false; };
  }
  return [ctx = std::move(ctx), pending] { return canceller_of(ctx)->remove(*pending); };
}

}  // namespace detail
}  // namespace magpie
