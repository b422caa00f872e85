// How those who look from outside read what belongs to somebody else.
#pragma once

namespace magpie::rt {

#if defined(__clang__)
#define MAGPIE_READS_RACILY __attribute__((noinline, no_sanitize("thread")))
#else
#define MAGPIE_READS_RACILY __attribute__((noinline, no_sanitize_thread))
#endif

// Of what its owner writes meanwhile: the caller finds out whether it can be used. A word at most.
template <class T>
MAGPIE_READS_RACILY T racy(const T& from) {
  return *const_cast<const volatile T*>(&from);
}

}  // namespace magpie::rt
