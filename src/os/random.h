// Where the seeds of the runtime's generators (base/random.h) come from.
#pragma once

#include <cstdint>

namespace magpie::rt::os {

// From the kernel's pool, or from the clock when the kernel has nothing to give (a sandbox that
// forbids getrandom, the first seconds of a boot). Never blocks. Not for secrets. Any thread.
std::uint64_t random_seed() noexcept;

// The second choice of random_seed(), separate so that it can be tested: differs from call to
// call, and from process to process as far as clock, address layout and pid do.
std::uint64_t seed_from_clock() noexcept;

}  // namespace magpie::rt::os
