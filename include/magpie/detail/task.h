// How the templates of the public headers hand a callable to the scheduler. Not for users.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include <magpie/export.h>

namespace magpie::rt {
class scheduler;
struct G;
}  // namespace magpie::rt

namespace magpie::detail {

class meeting;

// Of the function that a callable calls, if it keeps its address; null: not known.
struct code_address {
  const void* at = nullptr;
};

// What the scheduler knows of a callable.
struct task_type {
  void (*run)(void* closure);  // calls and destroys it
  // Where somebody waits for its end; null for tasks that nobody waits for.
  const meeting* (*end)(const void* closure);
  bool is_function = false;  // the closure is the address of one
  // For one that only passes on arguments, or the outcome: what to call the goroutine after.
  code_address (*function)(const void* closure) = nullptr;
};

// The object this_goroutine::exit() throws. Only catch (...) sees it, and must rethrow it.
struct goroutine_exit {};

inline constexpr std::size_t inline_closure_size = 48;
inline constexpr std::size_t inline_closure_alignment = 16;

// Where and how to spawn; `where` null: the caller's runtime, or the default one.
struct spawn_request {
  rt::scheduler* where = nullptr;
  std::size_t stack_size = 0;
  std::string_view name = {};
};

// For callables that a copy of their bytes moves, see is_relocatable: in one step.
MAGPIE_API void spawn_copy(const spawn_request&, const task_type&, const void* closure,
                           std::size_t size);

// For others: the callable is constructed in between, by code that may throw.
MAGPIE_API rt::G* begin_spawn(const spawn_request&);
MAGPIE_API void* closure_of(rt::G*) noexcept;
MAGPIE_API void finish_spawn(rt::G*, const task_type&) noexcept;
MAGPIE_API void cancel_spawn(rt::G*) noexcept;

// By its type, over() of a task is told from one of the user's.
struct end_told {};

// The values of goroutine_local that the goroutine with this closure has.
MAGPIE_API void destroy_locals(void* closure) noexcept;

// The locals end before the callable does, and before its over(), if it has one: by either,
// somebody may learn that the goroutine has ended.
template <class F>
[[gnu::always_inline]] inline void call_to_the_end(F& f, void* closure) {
  struct end_of_locals {
    void* closure;
    ~end_of_locals() { destroy_locals(closure); }
  };
  if constexpr (requires {
                  { f.over() } -> std::same_as<end_told>;
                }) {
    try {
      const end_of_locals locals{closure};
      std::move(f)();
    } catch (const goroutine_exit&) {
      f.over();
      throw;
    }
    f.over();
  } else {
    const end_of_locals locals{closure};
    std::move(f)();
  }
}

template <class F>
void call_inline(void* closure) {
  struct destroyer {
    F& f;
    ~destroyer() { f.~F(); }
  } guard{*std::launder(static_cast<F*>(closure))};
  call_to_the_end(guard.f, closure);
}

template <class F>
void call_on_heap(void* closure) {
  F* block;
  __builtin_memcpy(&block, closure, sizeof block);
  const std::unique_ptr<F> guard(block);
  call_to_the_end(*block, closure);
}

template <class F>
const meeting* end_inline(const void* closure) {
  return std::launder(static_cast<const F*>(closure))->end();
}

template <class F>
const meeting* end_on_heap(const void* closure) {
  F* block;
  __builtin_memcpy(&block, closure, sizeof block);
  return block->end();
}

// Of a pointer to a member function; null for a virtual one.
MAGPIE_API code_address code_of_member(const void* pointer) noexcept;

// Wrappers have a member function() for this.
template <class F>
inline constexpr bool has_function = std::is_member_function_pointer_v<F> ||
                                     (std::is_pointer_v<F> &&
                                      std::is_function_v<std::remove_pointer_t<F>>) ||
                                     requires(const F& f) {
  { f.function() } -> std::same_as<code_address>;
};

template <class F>
code_address function_in(const F& f) noexcept {
  if constexpr (std::is_member_function_pointer_v<F>) {
    return code_of_member(&f);
  } else if constexpr (std::is_pointer_v<F>) {
    return {reinterpret_cast<const void*>(f)};
  } else {
    return f.function();
  }
}

template <class F>
code_address function_inline(const void* closure) {
  return function_in(*std::launder(static_cast<const F*>(closure)));
}

template <class F>
code_address function_on_heap(const void* closure) {
  F* block;
  __builtin_memcpy(&block, closure, sizeof block);
  return function_in(*block);
}

template <class F>
constexpr task_type make_task_type(bool on_heap) {
  task_type type{on_heap ? &call_on_heap<F> : &call_inline<F>, nullptr};
  if constexpr (requires(const F& f) {
                  { f.end() } -> std::same_as<const meeting*>;
                }) {
    type.end = on_heap ? &end_on_heap<F> : &end_inline<F>;
  }
  type.is_function = std::is_pointer_v<F>;
  if constexpr (!std::is_pointer_v<F> && has_function<F>) {
    type.function = on_heap ? &function_on_heap<F> : &function_inline<F>;
  }
  return type;
}

template <class F>
inline constexpr task_type inline_task = make_task_type<F>(false);
template <class F>
inline constexpr task_type heap_task = make_task_type<F>(true);

// Ends the process: there is nothing to run.
[[noreturn, gnu::cold]] MAGPIE_API void go_of_nil() noexcept;

// Before a callable is hidden in another one: a null pointer to a function, or an empty
// std::function, is an error at the place of the spawn, where its maker can be seen.
template <class F>
[[gnu::always_inline]] inline void check_callable(const F& f) {
  if constexpr (!std::is_function_v<F> && std::is_constructible_v<F, std::nullptr_t> &&
                requires { f == nullptr; }) {
    if (f == nullptr) [[unlikely]]
      go_of_nil();
  }
}

// Whether a copy of its bytes is the object from then on, and the original need not be destroyed.
template <class F>
inline constexpr bool is_relocatable = std::is_trivially_copyable_v<F>;

// One on its way into a goroutine: destroyed here only if it does not get there.
template <class F>
struct in_transit {
  template <class From>
  explicit in_transit(From&& from) : callable(std::forward<From>(from)) {}
  ~in_transit() {
    if (!arrived) callable.~F();
  }
  in_transit(const in_transit&) = delete;
  in_transit& operator=(const in_transit&) = delete;

  union {
    F callable;
  };
  bool arrived = false;
};

// F is a decayed callable without parameters. Always inlined, so that the return address which
// the library takes for the place of the spawn is the user's.
template <class F>
[[gnu::always_inline]] inline void spawn(const spawn_request& request, F&& f) {
  using callable = std::decay_t<F>;
  check_callable(f);
  constexpr bool fits =
      sizeof(callable) <= inline_closure_size && alignof(callable) <= inline_closure_alignment;
  if constexpr (fits && is_relocatable<callable>) {
    in_transit<callable> sent(std::forward<F>(f));
    spawn_copy(request, inline_task<callable>, &sent.callable, sizeof sent.callable);
    sent.arrived = true;
  } else if constexpr (fits) {
    rt::G* const g = begin_spawn(request);
    struct unless_finished {
      rt::G* g;
      ~unless_finished() {
        if (g != nullptr) cancel_spawn(g);
      }
    } guard{g};
    ::new (closure_of(g)) callable(std::forward<F>(f));
    guard.g = nullptr;
    finish_spawn(g, inline_task<callable>);
  } else {
    auto block = std::make_unique<callable>(std::forward<F>(f));
    callable* const raw = block.get();
    spawn_copy(request, heap_task<callable>, &raw, sizeof raw);
    block.release();
  }
}

// The callable stands apart from what calls it with its arguments: it names the goroutine.
template <class F, class Call>
struct bound_call {
  F f;
  Call call;

  decltype(auto) operator()() { return call(std::move(f)); }
  code_address function() const noexcept requires has_function<F> { return function_in(f); }
};
template <class F, class Call>
bound_call(F, Call) -> bound_call<F, Call>;

// f(args...) with everything decay-copied, as std::thread does.
template <class F, class... Args>
auto bind_decayed(F&& f, Args&&... args) {
  check_callable(f);
  if constexpr (sizeof...(Args) == 0) {
    return std::decay_t<F>(std::forward<F>(f));
  } else {
    return bound_call{std::decay_t<F>(std::forward<F>(f)),
                      [... args = std::decay_t<Args>(std::forward<Args>(args))](
                          std::decay_t<F>&& g) mutable -> decltype(auto) {
                        return std::invoke(std::move(g), std::move(args)...);
                      }};
  }
}

}  // namespace magpie::detail
