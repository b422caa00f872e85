#include "os/environment.h"

#include <stdlib.h>

namespace magpie::rt::os {

const char* environment(const char* name) { return secure_getenv(name); }

}  // namespace magpie::rt::os
