#include "os/random.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"

namespace magpie::rt::os {
namespace {

// A bijection that spreads every input bit over all output bits (the finalizer of splitmix64).
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t random_seed() noexcept {
  std::uint64_t seed = 0;
  // Eight bytes come whole or not at all; GRND_NONBLOCK, because a seed is not worth waiting for.
  if (::getrandom(&seed, sizeof seed, GRND_NONBLOCK) == sizeof seed) return seed;
  return seed_from_clock();
}

std::uint64_t seed_from_clock() noexcept {
  static atomic<std::uint64_t> calls{0};
  timespec now{};
  (void)::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::uint64_t nanoseconds = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
                                    static_cast<std::uint64_t>(now.tv_nsec);
  // The sum grows with every call even where the clock does not, so that no two seeds of a
  // thread are equal. relaxed because only the number matters: no data travels with it.
  const std::uint64_t moment = nanoseconds + calls.fetch_add(1, relaxed);
  // The address differs between processes (ASLR), the pid between those forked from one.
  const auto process =
      mix(reinterpret_cast<std::uintptr_t>(&calls)) + mix(static_cast<std::uint64_t>(::getpid()));
  return mix(moment + process);
}

}  // namespace magpie::rt::os
