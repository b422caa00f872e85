// Faults made on purpose: system calls that fail although the kernel would have done them, to test
// what happens then. In debug builds only; elsewhere nothing is left of it.
//
//   MAGPIE_FAULT=accept:EMFILE:1/100,read:EINTR:1/3
//
// Each rule names a call, the error and how often on average. A call may have several rules.
// Not EAGAIN: the kernel would not tell that it is over.
#pragma once

#include <cstdint>
#include <utility>

namespace magpie::rt::os {

enum class fault_call : std::uint8_t {
  accept,
  connect,
  read,
  write,
  epoll_ctl,
  epoll_wait,
  mmap,
  madvise,
  clone,
  count_,
};

#ifdef NDEBUG
inline constexpr bool k_faults = false;
inline bool fault(fault_call) noexcept { return false; }
#else
inline constexpr bool k_faults = true;

// Whether the call is to fail now; errno says how. Any thread, signal-safe.
bool fault(fault_call) noexcept;
#endif

// The system call, or its failure. `call` returns -1 and errno when it fails.
template <class Call>
auto faulty(fault_call which, Call&& call) noexcept -> decltype(call()) {
  if (fault(which)) [[unlikely]]
    return static_cast<decltype(call())>(-1);
  return std::forward<Call>(call)();
}

// For tests: other rules than the environment's, in its words; null or "" for none. Ends the
// process when it cannot read them. One thread at a time.
void set_faults(const char* rules) noexcept;

// How many have been made, of all kinds, or of one.
std::uint64_t faults_made() noexcept;
std::uint64_t faults_made(fault_call) noexcept;

}  // namespace magpie::rt::os
