// What the templates of channel.h and select.h stand on: one channel for all element types. Not
// for users; the logic is in src/chan/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include <magpie/detail/duration.h>
#include <magpie/detail/waiting.h>
#include <magpie/export.h>

namespace magpie {

// What became of an operation that does not wait for ever.
enum class channel_result {
  ok,
  would_block,  // or the time is up
  closed,
};

}  // namespace magpie

namespace magpie::detail {

struct channel_core;

// How the channel may treat its elements.
enum class element_kind : std::uint8_t {
  trivial,   // copied as bytes
  quiet,     // moving does not throw: done under the channel's lock
  throwing,  // moving may throw, or do anything else: done outside of every lock
};

struct element_type {
  std::size_t size;  // 0: there is nothing to copy
  std::size_t alignment;
  element_kind kind;
  void (*move)(void* to, void* from);  // constructs *to; *from lives on, moved from
  void (*destroy)(void*);
};

// Puts a value where a receiver wants it. Only for throwing elements: the others are constructed
// in the raw memory that the receiver offers.
using deliver_function = void (*)(void* slot, void* from);

template <class T>
inline constexpr element_kind element_kind_of =
    std::is_trivially_copyable_v<T>           ? element_kind::trivial
    : std::is_nothrow_move_constructible_v<T> ? element_kind::quiet
                                              : element_kind::throwing;

template <class T>
inline constexpr element_type element_type_of{
    std::is_empty_v<T> && std::is_trivially_copyable_v<T> ? 0 : sizeof(T),
    alignof(T),
    element_kind_of<T>,
    [](void* to, void* from) { ::new (to) T(std::move(*static_cast<T*>(from))); },
    [](void* value) { static_cast<T*>(value)->~T(); },
};

// ---- Operations -------------------------------------------------------------------------------
//
// `channel_core*` null is the nil channel. Values are passed by address: what is sent is moved
// from *value, what is received goes to slot. Sending to a closed channel throws closed_channel.

MAGPIE_API channel_core* make_channel(const element_type&, std::size_t capacity);
MAGPIE_API void retain_channel(channel_core*) noexcept;
MAGPIE_API void release_channel(channel_core*) noexcept;

[[noreturn]] MAGPIE_API void throw_bad_capacity();

MAGPIE_API void channel_send(channel_core*, void* value);
MAGPIE_API bool channel_try_send(channel_core*, void* value);
MAGPIE_API bool channel_send_for(channel_core*, void* value, duration);

MAGPIE_API channel_result channel_receive(channel_core*, void* slot, deliver_function);
MAGPIE_API channel_result channel_try_receive(channel_core*, void* slot, deliver_function);
MAGPIE_API channel_result channel_receive_for(channel_core*, void* slot, deliver_function,
                                              duration);

MAGPIE_API void channel_close(channel_core*);
MAGPIE_API std::size_t channel_size(const channel_core*) noexcept;
MAGPIE_API std::size_t channel_capacity(const channel_core*) noexcept;

// A counted reference to a channel, or to none.
class channel_handle {
 public:
  channel_handle() noexcept = default;
  // Takes over a reference.
  explicit channel_handle(channel_core* core) noexcept : core_(core) {}
  channel_handle(const channel_handle& other) noexcept : core_(other.core_) {
    if (core_ != nullptr) retain_channel(core_);
  }
  channel_handle(channel_handle&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  channel_handle& operator=(channel_handle other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~channel_handle() {
    if (core_ != nullptr) release_channel(core_);
  }

  channel_core* core() const noexcept { return core_; }

 private:
  channel_core* core_ = nullptr;
};

// Raw memory for one T, into which a channel of trivial or quiet elements delivers.
template <class T>
union landing_place {
  landing_place() {}  // NOLINT: empty until something was delivered
  ~landing_place() {}
  T value;

  // What was delivered, and the place is empty again. Outside of every lock.
  void take_into(std::optional<T>& to) {
    to.emplace(std::move(value));
    value.~T();
  }
  void take_into(T& to) {
    if constexpr (std::is_nothrow_move_assignable_v<T>) {
      to = std::move(value);
    } else {  // an assignment that throws would lose the value
      to.~T();
      ::new (static_cast<void*>(&to)) T(std::move(value));
    }
    value.~T();
  }
};

template <class T>
void deliver_by_emplace(void* slot, void* from) {
  static_cast<std::optional<T>*>(slot)->emplace(std::move(*static_cast<T*>(from)));
}

template <class T>
void deliver_by_assignment(void* slot, void* from) {
  *static_cast<T*>(slot) = std::move(*static_cast<T*>(from));
}

// Calls operation(slot, deliver) such that what it receives ends up in `out`, which is a T or an
// empty std::optional<T>.
template <class T, class Out, class Operation>
[[gnu::always_inline]] inline channel_result receive_into(Out& out, Operation operation) {
  if constexpr (element_kind_of<T> == element_kind::throwing) {
    if constexpr (std::is_same_v<Out, T>) {
      return operation(&out, deliver_by_assignment<T>);
    } else {
      return operation(&out, deliver_by_emplace<T>);
    }
  } else {
    landing_place<T> place;
    const channel_result result = operation(&place, nullptr);
    if (result == channel_result::ok) place.take_into(out);
    return result;
  }
}

}  // namespace magpie::detail
