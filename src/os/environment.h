// The environment, as far as it may be trusted.
#pragma once

namespace magpie::rt::os {

// The variable's value, or null when it is not set, or when the program runs with more rights
// than its user (setuid): whoever set it must not steer it then.
const char* environment(const char* name);

}  // namespace magpie::rt::os
