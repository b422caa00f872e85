// Channels: values from one goroutine to another, in order, each to exactly one receiver.
//
//   magpie::channel<int> numbers(16);
//   magpie::go([numbers] {
//     for (int i = 0; i < 100; ++i) numbers.send(i);
//     numbers.close();
//   });
//   for (int n : numbers) use(n);
//
// A channel of capacity 0 hands values over directly: send() returns when a receiver has the
// value. One with a capacity keeps that many; send() waits only while it is full. Those who wait
// are served in the order in which they came.
//
// close() says that nothing more will come: receivers get what is left, then nullopt, for ever;
// send() throws closed_channel, also one that waits already.
//
// T needs to be movable only. If moving a T cannot throw, values are moved inside of the channel,
// with a lock held: such a move must not use the channel. If it can throw, it is done outside,
// one operation after the other; whoever moves sees the exception, the channel is as before and
// the partner still waits.
//
// A send happens before the matching receive returns. Everything here may be called from any
// thread: outside of a goroutine it blocks the thread.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include <magpie/detail/channel_core.h>
#include <magpie/detail/duration.h>
#include <magpie/errors.h>

namespace magpie {

// The element of channels that only signal.
struct unit {
  bool operator==(const unit&) const = default;
};

namespace detail {

// The values of a channel as a range: ends when the channel is closed and drained.
template <class T>
class channel_iterator {
 public:
  using value_type = T;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::input_iterator_tag;

  channel_iterator() = default;
  explicit channel_iterator(channel_handle from) : from_(std::move(from)) { receive(); }

  T& operator*() const { return *current_; }
  T* operator->() const { return &*current_; }
  channel_iterator& operator++() {
    current_.reset();
    receive();
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return !current_.has_value(); }

 private:
  void receive() {
    receive_into<T>(current_, [this](void* slot, deliver_function deliver) {
      return channel_receive(from_.core(), slot, deliver);
    });
  }

  channel_handle from_;
  mutable std::optional<T> current_;
};

// What channel and its halves have in common.
class channel_base {
 public:
  // How many values wait in the buffer, and how many fit in. 0 and 0 for a nil channel and for
  // the channel of a timer.
  std::size_t size() const noexcept { return channel_size(core()); }
  std::size_t capacity() const noexcept { return channel_capacity(core()); }

  // False: nil.
  explicit operator bool() const noexcept { return core() != nullptr; }

  // Not for users.
  channel_core* core() const noexcept { return handle_.core(); }
  const channel_handle& handle() const noexcept { return handle_; }

 protected:
  channel_base() noexcept = default;
  explicit channel_base(channel_handle handle) noexcept : handle_(std::move(handle)) {}

 private:
  channel_handle handle_;
};

// The operations; a class on top of another, so that a channel has both kinds.
template <class T, class Base>
class sending : public Base {
 public:
  // Waits until the value is taken or has its place in the buffer. Throws closed_channel.
  void send(T value) const { channel_send(this->core(), std::addressof(value)); }

  // False: it would have to wait, and `value` is untouched. Throws closed_channel.
  bool try_send(T& value) const { return channel_try_send(this->core(), std::addressof(value)); }
  bool try_send(T&& value) const { return try_send(value); }

  // False: the time was up before, and `value` is untouched. Throws closed_channel.
  template <class Rep, class Period>
  bool send_for(T& value, std::chrono::duration<Rep, Period> timeout) const {
    return channel_send_for(this->core(), std::addressof(value), to_duration(timeout));
  }
  template <class Rep, class Period>
  bool send_for(T&& value, std::chrono::duration<Rep, Period> timeout) const {
    return send_for(value, timeout);
  }

  // Wakes everybody who waits. Throws closed_channel if the channel is closed already, or nil.
  void close() const { channel_close(this->core()); }

 protected:
  using Base::Base;
};

template <class T, class Base>
class receiving : public Base {
 public:
  using iterator = channel_iterator<T>;
  using sentinel = std::default_sentinel_t;

  // Waits for a value; nullopt: the channel is closed and drained.
  std::optional<T> receive() const {
    std::optional<T> out;
    receive_into<T>(out, [this](void* slot, deliver_function deliver) {
      return channel_receive(this->core(), slot, deliver);
    });
    return out;
  }

  // Without waiting. `out` changes only if the result is ok.
  channel_result try_receive(T& out) const {
    return receive_into<T>(out, [this](void* slot, deliver_function deliver) {
      return channel_try_receive(this->core(), slot, deliver);
    });
  }

  // Waits so long at most; would_block: the time is up.
  template <class Rep, class Period>
  channel_result receive_for(T& out, std::chrono::duration<Rep, Period> timeout) const {
    return receive_into<T>(out, [&](void* slot, deliver_function deliver) {
      return channel_receive_for(this->core(), slot, deliver, to_duration(timeout));
    });
  }

  // begin() and each ++ receive, until the channel is closed and drained.
  iterator begin() const { return iterator(this->handle()); }
  sentinel end() const noexcept { return {}; }

 protected:
  using Base::Base;
};

// The kinds of characters and bool are integral, too, but std::in_range() takes neither.
template <std::integral Integer>
std::size_t checked_capacity(Integer capacity) {
  if (capacity < Integer{} || static_cast<std::uintmax_t>(capacity) > UINT32_MAX) {
    throw_bad_capacity();
  }
  return static_cast<std::size_t>(capacity);
}

}  // namespace detail

// A handle: copies mean the same channel, which lives as long as one of them.
template <class T>
class channel : public detail::sending<T, detail::receiving<T, detail::channel_base>> {
  using base = detail::sending<T, detail::receiving<T, detail::channel_base>>;

 public:
  using value_type = T;

  channel() : channel(0) {}
  // Throws std::length_error when it is negative or absurd.
  explicit channel(std::integral auto capacity)
      : base(detail::channel_handle(detail::make_channel(detail::element_type_of<T>,
                                                         detail::checked_capacity(capacity)))) {}
  // Nil: send and receive wait for ever, select never picks it.
  channel(std::nullptr_t) noexcept {}

  // The same channel?
  bool operator==(const channel& other) const noexcept { return this->core() == other.core(); }
};

// The half that sends: send, try_send, send_for, close. Nil when default-constructed.
template <class T>
class sender : public detail::sending<T, detail::channel_base> {
  using base = detail::sending<T, detail::channel_base>;

 public:
  using value_type = T;

  sender() noexcept = default;
  sender(std::nullptr_t) noexcept {}
  sender(const channel<T>& whole) noexcept : base(whole.handle()) {}

  bool operator==(const sender& other) const noexcept { return this->core() == other.core(); }
};

// The half that receives: receive, try_receive, receive_for, range-for. Nil when
// default-constructed.
template <class T>
class receiver : public detail::receiving<T, detail::channel_base> {
  using base = detail::receiving<T, detail::channel_base>;

 public:
  using value_type = T;

  receiver() noexcept = default;
  receiver(std::nullptr_t) noexcept {}
  receiver(const channel<T>& whole) noexcept : base(whole.handle()) {}
  // Not for users.
  explicit receiver(detail::channel_handle handle) noexcept : base(std::move(handle)) {}

  bool operator==(const receiver& other) const noexcept { return this->core() == other.core(); }
};

}  // namespace magpie
