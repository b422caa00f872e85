// Exceptions of the library itself.
//
// Errors of the world, such as a refused connection, are std::system_error. What is declared
// here reports a mistake in the calling program.
#pragma once

#include <magpie/export.h>

#include <stdexcept>

namespace magpie {

// The caller broke a rule that can be reported without ending the process, where Go would panic:
// a wait_group counted below zero, the value of a future asked for twice. what() names the call
// and the rule. The object the call was made on is as it was before.
//
// Rules whose breach leaves nothing to go on with, such as unlocking an unlocked mutex, end the
// process with a report instead.
class MAGPIE_API misuse : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// A send on a closed channel, or a close of a closed or nil one. The value was not sent.
class MAGPIE_API closed_channel : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace magpie
