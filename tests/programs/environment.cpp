// Prints what the runtime sees of one environment variable. Run as a set-user-ID program by a
// test, to see that it then sees nothing.

#include <sys/auxv.h>

#include <cstdio>

#include "os/environment.h"

int main(int, char** arguments) {
  const char* const value = magpie::rt::os::environment(arguments[1]);
  std::printf("%s%s\n", getauxval(AT_SECURE) != 0 ? "with more rights: " : "",
              value != nullptr ? value : "unset");
  return 0;
}
