#include "os/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"

namespace magpie::rt::os {

static_assert(sizeof(futex_word) == sizeof(std::uint32_t) && futex_word::is_always_lock_free);

futex_outcome futex_wait(futex_word& word, std::uint32_t expected, nanos deadline) {
  timespec until;
  const timespec* limit = nullptr;
  if (deadline != k_never) {
    if (deadline < 0) deadline = 0;
    until.tv_sec = static_cast<time_t>(deadline / 1'000'000'000);
    until.tv_nsec = static_cast<long>(deadline % 1'000'000'000);
    limit = &until;
  }
  // WAIT_BITSET takes an absolute time on CLOCK_MONOTONIC; plain WAIT takes a relative one, which
  // would have to be computed anew after each interruption.
  const int saved_errno = errno;
  const long failed = syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected,
                              limit, nullptr, FUTEX_BITSET_MATCH_ANY);
  const int failure = failed == 0 ? 0 : errno;
  errno = saved_errno;
  switch (failure) {
    case 0:
    case EINTR:
      return futex_outcome::woken;
    case EAGAIN:
      return futex_outcome::changed;
    case ETIMEDOUT:
      return futex_outcome::timed_out;
    default:
      MAGPIE_CHECK(false, "futex wait refused by the kernel");
      return futex_outcome::woken;
  }
}

int futex_wake(futex_word* word, int count) {
  const int saved_errno = errno;
  const long woken = syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count);
  // EFAULT: the word's memory is unmapped already, so nobody waits there.
  const bool gone = woken < 0 && errno == EFAULT;
  MAGPIE_CHECK(woken >= 0 || gone, "futex wake refused by the kernel");
  errno = saved_errno;
  return gone ? 0 : static_cast<int>(woken);
}

}  // namespace magpie::rt::os
