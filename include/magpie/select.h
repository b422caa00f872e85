// select: waits for the first of several things, and does exactly one.
//
//   magpie::select(
//       magpie::on_receive(jobs, [&](std::optional<job> j) { ... }),   // nullopt: closed
//       magpie::on_send(results, answer, [&] { ... }),
//       magpie::on_timeout(5s, [&] { ... }));
//
// One case that can go on is done, its handler is called, and its index is returned. Among those
// that are ready each is picked with equal chance. If none is, the call waits; with otherwise() it
// does not, and at no moment of the call was another case ready. Nil channels are never picked.
// A send case whose channel is closed throws closed_channel.
//
// All arguments are evaluated before anything is chosen. Handlers run on the caller's stack with
// no lock held; what they throw goes to the caller.
//
// The cases are small objects; nothing is allocated. One made from a channel that has a name
// refers to that, and must not outlive it.
//
// A number of cases that is known at run time only:
//
//   std::vector<magpie::select_case> cases;
//   for (auto& worker : workers) cases.push_back(magpie::on_receive(worker, ...));
//   int which = magpie::select(cases);
//
// A select_case keeps its channel alive, and may be used again and again: a timeout counts from
// each call; a value to send is copied for each call if it can be copied, otherwise the case is
// spent once it was done, and using it again throws misuse.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include <magpie/channel.h>
#include <magpie/detail/duration.h>
#include <magpie/detail/select_core.h>
#include <magpie/errors.h>

namespace magpie {

class select_case;

namespace detail {

// A channel that the caller of select() keeps alive.
class borrowed_channel {
 public:
  explicit borrowed_channel(channel_core* core) noexcept : core_(core) {}
  channel_core* core() const noexcept { return core_; }
  channel_handle handle() const noexcept {
    if (core_ != nullptr) retain_channel(core_);
    return channel_handle(core_);
  }

 private:
  channel_core* core_;
};

class owned_channel {
 public:
  explicit owned_channel(channel_handle handle) noexcept : handle_(std::move(handle)) {}
  channel_core* core() const noexcept { return handle_.core(); }
  const channel_handle& handle() const noexcept { return handle_; }

 private:
  channel_handle handle_;
};

template <class Channel>
using held_channel =
    std::conditional_t<std::is_lvalue_reference_v<Channel>, borrowed_channel, owned_channel>;

template <class Channel>
held_channel<Channel> hold(const Channel& channel) {
  if constexpr (std::is_lvalue_reference_v<Channel>) {
    return borrowed_channel(channel.core());
  } else {
    return owned_channel(channel.handle());
  }
}

// Whether a case is used this once or may be used again.
enum class case_use {
  once,
  again,
};

// Where the value of a receive case arrives. Empty but between its arrival and take().
template <class T>
class arrival {
 public:
  arrival() = default;
  arrival(const arrival&) noexcept {}  // a copy of the case waits for a value of its own
  arrival& operator=(const arrival&) = delete;

  void describe(select_entry& e) {
    e.slot = &place_;
    if constexpr (throws) e.deliver = deliver_by_emplace<T>;
  }

  std::optional<T> take() {
    std::optional<T> out;
    if constexpr (throws) {
      out.swap(place_);
    } else {
      place_.take_into(out);
    }
    return out;
  }

 private:
  static constexpr bool throws = element_kind_of<T> == element_kind::throwing;
  std::conditional_t<throws, std::optional<T>, landing_place<T>> place_;
};

template <class T, class F, class Held>
class receive_case {
 public:
  receive_case(Held channel, F handler)
      : channel_(std::move(channel)), handler_(std::move(handler)) {}

  auto owned() && {
    return receive_case<T, F, owned_channel>(owned_channel(channel_.handle()), std::move(handler_));
  }

  void prepare(select_entry& e, case_use) {
    e.what = select_entry::kind::receive;
    e.channel = channel_.core();
    arrival_.describe(e);
  }

  void finish(channel_result result) {
    std::optional<T> received;
    if (result == channel_result::ok) received = arrival_.take();
    if constexpr (std::is_invocable_v<F&, std::optional<T>>) {
      handler_(std::move(received));
    } else {
      handler_();
    }
  }

 private:
  Held channel_;
  F handler_;
  arrival<T> arrival_;
};

template <class T, class F, class Held>
class send_case {
 public:
  send_case(Held channel, T value, F handler)
      : channel_(std::move(channel)), value_(std::move(value)), handler_(std::move(handler)) {}

  auto owned() && {
    return send_case<T, F, owned_channel>(owned_channel(channel_.handle()), std::move(value_),
                                          std::move(handler_));
  }

  void prepare(select_entry& e, case_use use) {
    e.what = select_entry::kind::send;
    e.channel = channel_.core();
    e.slot = std::addressof(value_);
    if (use == case_use::again) prepare_again(e);
  }

  void finish(channel_result) {
    sent_.after();
    handler_();
  }

 private:
  // What is needed to send more than once: nothing for bytes, which are still there; a copy of
  // the value that may be moved from; or the memory that there is nothing left to send.
  struct bytes {
    void after() {}
  };
  struct copies {
    std::optional<T> copy;
    void after() { copy.reset(); }
  };
  struct only_once {
    bool spent = false;
    void after() { spent = true; }
  };
  static constexpr bool is_bytes = std::is_trivially_copyable_v<T>;
  static constexpr bool can_copy = std::is_copy_constructible_v<T>;

  void prepare_again(select_entry& e) {
    if constexpr (is_bytes) return;
    if constexpr (!is_bytes && can_copy) {
      if (!sent_.copy) sent_.copy.emplace(value_);
      e.slot = std::addressof(*sent_.copy);
    }
    if constexpr (!is_bytes && !can_copy) {
      if (sent_.spent) throw misuse("select: a value that cannot be copied was sent already");
    }
  }

  Held channel_;
  T value_;
  F handler_;
  [[no_unique_address]] std::conditional_t<is_bytes, bytes,
                                           std::conditional_t<can_copy, copies, only_once>>
      sent_;
};

// The cases that are about time, or about nothing at all.
template <class F>
class plain_case {
 public:
  plain_case(select_entry::kind what, duration time, F handler)
      : what_(what), time_(time), handler_(std::move(handler)) {}

  plain_case&& owned() && { return std::move(*this); }

  void prepare(select_entry& e, case_use) {
    e.what = what_;
    e.time = time_;
  }
  void finish(channel_result) { handler_(); }

 private:
  select_entry::kind what_;
  duration time_;
  F handler_;
};

template <class F>
class otherwise_case : public plain_case<F> {
 public:
  explicit otherwise_case(F handler)
      : plain_case<F>(select_entry::kind::otherwise, {}, std::move(handler)) {}
  otherwise_case&& owned() && { return std::move(*this); }
};

template <class Case>
concept selectable = requires(std::remove_cvref_t<Case>& c, select_entry& e) {
  c.prepare(e, case_use::once);
  c.finish(channel_result::ok);
};

template <class Case>
inline constexpr bool is_otherwise = false;
template <class F>
inline constexpr bool is_otherwise<otherwise_case<F>> = true;

// At most one otherwise(), and that the last.
template <class... Cases>
constexpr bool otherwise_is_last() {
  constexpr std::size_t count = sizeof...(Cases);
  constexpr bool each[count + 1] = {is_otherwise<std::remove_cvref_t<Cases>>...};
  for (std::size_t i = 0; i + 1 < count; ++i) {
    if (each[i]) return false;
  }
  return true;
}

template <class Case>
constexpr case_use use_of = std::is_lvalue_reference_v<Case> ? case_use::again : case_use::once;

// A case of any type.
class any_case {
 public:
  virtual ~any_case() = default;
  virtual void prepare(select_entry&) = 0;
  virtual void finish(channel_result) = 0;
  virtual std::unique_ptr<any_case> clone() const = 0;
};

template <class Case>
class some_case final : public any_case {
 public:
  explicit some_case(Case&& c) : case_(std::move(c)) {}
  void prepare(select_entry& e) override { case_.prepare(e, case_use::again); }
  void finish(channel_result result) override { case_.finish(result); }
  std::unique_ptr<any_case> clone() const override {
    if constexpr (std::is_copy_constructible_v<Case>) {
      return std::make_unique<some_case>(Case(case_));
    } else {
      throw misuse("select_case: a copy of a case that can only be moved");
    }
  }

 private:
  Case case_;
};

}  // namespace detail

// ---- Cases ------------------------------------------------------------------------------------

// handler(std::optional<T>): what was received; nullopt when the channel is closed and drained.
template <class Channel, class F, class T = typename std::remove_cvref_t<Channel>::value_type>
requires std::convertible_to < const std::remove_cvref_t<Channel>
&, receiver < T >> auto on_receive(Channel&& channel, F&& handler) {
  return detail::receive_case<T, std::decay_t<F>, detail::held_channel<Channel>>(
      detail::hold<Channel>(channel), std::forward<F>(handler));
}

// handler(): the value was sent.
template <class Channel, class F, class T = typename std::remove_cvref_t<Channel>::value_type>
requires std::convertible_to < const std::remove_cvref_t<Channel>
&, sender < T >> auto on_send(Channel&& channel, std::type_identity_t<T> value, F&& handler) {
  return detail::send_case<T, std::decay_t<F>, detail::held_channel<Channel>>(
      detail::hold<Channel>(channel), std::move(value), std::forward<F>(handler));
}

// handler(): so much time has passed since the call of select(), and no other case was ready.
template <class Rep, class Period, class F>
auto on_timeout(std::chrono::duration<Rep, Period> timeout, F&& handler) {
  return detail::plain_case<std::decay_t<F>>(
      detail::select_entry::kind::timeout, detail::to_duration(timeout), std::forward<F>(handler));
}

// handler(): the point of time is reached. Once it is over, the case is ready like any other.
template <class F>
auto on_deadline(time_point deadline, F&& handler) {
  return detail::plain_case<std::decay_t<F>>(detail::select_entry::kind::deadline,
                                             deadline.time_since_epoch(), std::forward<F>(handler));
}

// handler(): nothing else is ready. The last case.
template <class F>
auto otherwise(F&& handler) {
  return detail::otherwise_case<std::decay_t<F>>(std::forward<F>(handler));
}

// Any of them. Copies are cases of their own.
class select_case {
 public:
  template <class Case>
  requires(detail::selectable<Case> && !std::is_lvalue_reference_v<Case>)
      select_case(Case&& c) {  // NOLINT: implicit
    using owned = std::remove_cvref_t<decltype(std::move(c).owned())>;
    case_ = std::make_unique<detail::some_case<owned>>(std::move(c).owned());
  }
  template <class Case>
  requires(detail::selectable<Case>&& std::is_copy_constructible_v<Case>) select_case(const Case& c)
      : select_case(Case(c)) {}  // NOLINT: implicit

  select_case(const select_case& other) : case_(other.case_->clone()) {}
  select_case(select_case&&) noexcept = default;
  select_case& operator=(select_case other) noexcept {
    case_ = std::move(other.case_);
    return *this;
  }

 private:
  friend int select(std::span<select_case>);

  std::unique_ptr<detail::any_case> case_;
};

// ---- The call ---------------------------------------------------------------------------------

// Does one of the cases and returns its index. No case at all: waits for ever.
template <class... Cases>
requires(detail::selectable<Cases>&&...) int select(Cases&&... cases) {
  static_assert(detail::otherwise_is_last<Cases...>(), "otherwise() is the last case");
  constexpr std::size_t count = sizeof...(Cases);
  detail::select_entry entries[count == 0 ? 1 : count];
  std::size_t at = 0;
  (cases.prepare(entries[at++], detail::use_of<Cases>), ...);
  const detail::select_outcome chosen = detail::select_among(entries, count);
  at = 0;
  // One after the other, until the chosen one has been dealt with.
  (void)((at++ == chosen.index ? (cases.finish(chosen.result), true) : false) || ...);
  return static_cast<int>(chosen.index);
}

// The same for any number of cases.
inline int select(std::span<select_case> cases) {
  constexpr std::size_t few = 8;
  detail::select_entry on_stack[few];
  std::unique_ptr<detail::select_entry[]> on_heap;
  if (cases.size() > few) on_heap = std::make_unique<detail::select_entry[]>(cases.size());
  detail::select_entry* const entries = on_heap ? on_heap.get() : on_stack;
  for (std::size_t i = 0; i < cases.size(); ++i) cases[i].case_->prepare(entries[i]);
  const detail::select_outcome chosen = detail::select_among(entries, cases.size());
  cases[chosen.index].case_->finish(chosen.result);
  return static_cast<int>(chosen.index);
}

}  // namespace magpie
