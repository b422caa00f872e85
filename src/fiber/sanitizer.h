// All that AddressSanitizer, ThreadSanitizer, LeakSanitizer and Valgrind are told about stacks
// and switches. In a plain build every function here is empty, except that Valgrind, which needs
// no special build, is still told about stacks when the program runs under it.
//
// AddressSanitizer keeps "fake frames" per stack, so it must know before and after each switch.
// ThreadSanitizer keeps a call stack and a vector clock per fiber; one such fiber belongs to each
// of our stacks and is recycled with it, since making one is dear (g++ 12: a millisecond). A
// switch is told as a synchronisation: the runtime's P-local state is handed from fiber to fiber
// on one thread without atomics, and rightly so.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define MAGPIE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MAGPIE_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define MAGPIE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MAGPIE_TSAN 1
#endif
#endif

#if defined(MAGPIE_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif
#if defined(MAGPIE_TSAN)
#include <sanitizer/tsan_interface.h>
#endif
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#define MAGPIE_VALGRIND 1
#endif

namespace magpie::rt::sanitizer {

#if defined(MAGPIE_ASAN)
inline constexpr bool k_address = true;
#else
inline constexpr bool k_address = false;
#endif
#if defined(MAGPIE_TSAN)
inline constexpr bool k_thread = true;
#else
inline constexpr bool k_thread = false;
#endif

// One per stack: a goroutine's, or a thread's own.
struct stack_note {
  void* tsan_fiber = nullptr;
  unsigned valgrind_id = 0;
};

inline bool under_valgrind() {
#if defined(MAGPIE_VALGRIND)
  static const bool answer = RUNNING_ON_VALGRIND != 0;
  return answer;
#else
  return false;
#endif
}

inline void adopt_thread_stack([[maybe_unused]] stack_note& note) {
#if defined(MAGPIE_TSAN)
  note.tsan_fiber = __tsan_get_current_fiber();
#endif
}

// A slot becomes a stack, or stops being one.
inline void stack_made([[maybe_unused]] stack_note& note, [[maybe_unused]] void* low,
                       [[maybe_unused]] void* high) {
#if defined(MAGPIE_TSAN)
  note.tsan_fiber = __tsan_create_fiber(0);
#endif
#if defined(MAGPIE_VALGRIND)
  if (under_valgrind()) note.valgrind_id = VALGRIND_STACK_REGISTER(low, high);
#endif
}

inline void stack_unmade([[maybe_unused]] stack_note& note) {
#if defined(MAGPIE_TSAN)
  __tsan_destroy_fiber(note.tsan_fiber);
#endif
#if defined(MAGPIE_VALGRIND)
  if (under_valgrind()) VALGRIND_STACK_DEREGISTER(note.valgrind_id);
#endif
  note = {};
}

// What only this memory points to is not a leak. For the end of the process: LeakSanitizer searches
// its list of such regions from the front, so taking some out again would be quadratic.
inline void memory_holds_objects([[maybe_unused]] const void* low,
                                 [[maybe_unused]] const void* high) {
#if defined(MAGPIE_ASAN)
  __lsan_register_root_region(low, static_cast<std::size_t>(static_cast<const char*>(high) -
                                                            static_cast<const char*>(low)));
#endif
}

// This object is known to a thread that has not begun.
inline void is_no_leak([[maybe_unused]] const void* object) {
#if defined(MAGPIE_ASAN)
  __lsan_ignore_object(object);
#endif
}

// A stack is about to serve a new fiber: what frames of the last one left poisoned is free again.
inline void stack_reused([[maybe_unused]] void* low, [[maybe_unused]] void* high) {
#if defined(MAGPIE_ASAN)
  __asan_unpoison_memory_region(
      low, static_cast<std::size_t>(static_cast<char*>(high) - static_cast<char*>(low)));
#endif
}

// For a function that switches for good: ThreadSanitizer must not be told that it returned, since
// by then that would pop a frame of the next fiber's call stack.
#if defined(MAGPIE_TSAN) && defined(__clang__)
#define MAGPIE_NOT_INSTRUMENTED __attribute__((disable_sanitizer_instrumentation))
#elif defined(MAGPIE_TSAN)
#define MAGPIE_NOT_INSTRUMENTED __attribute__((no_sanitize("thread")))
#else
#define MAGPIE_NOT_INSTRUMENTED
#endif

// Kept by the leaving side, in its own frame, until it is switched to again.
struct switch_note {
  void* fake_frames = nullptr;
};

// Right before a switch to the stack [low, high). `leaving` is null when nobody will come back.
[[gnu::always_inline]] inline void before_switch([[maybe_unused]] switch_note* leaving,
                                                 [[maybe_unused]] const stack_note& to,
                                                 [[maybe_unused]] const void* low,
                                                 [[maybe_unused]] const void* high) {
#if defined(MAGPIE_ASAN)
  __sanitizer_start_switch_fiber(
      leaving != nullptr ? &leaving->fake_frames : nullptr, low,
      static_cast<std::size_t>(static_cast<const char*>(high) - static_cast<const char*>(low)));
#endif
#if defined(MAGPIE_TSAN)
  __tsan_switch_to_fiber(to.tsan_fiber, 0);
#endif
}

// First thing after a switch, on the new stack. `arriving` is null on a fresh stack.
[[gnu::always_inline]] inline void after_switch([[maybe_unused]] const switch_note* arriving) {
#if defined(MAGPIE_ASAN)
  __sanitizer_finish_switch_fiber(arriving != nullptr ? arriving->fake_frames : nullptr, nullptr,
                                  nullptr);
#endif
}

}  // namespace magpie::rt::sanitizer
