// Uses something of the headers alone and something of the library, and prints the version.
#include <magpie/magpie.h>

#include <cstdio>
#include <stdexcept>

int main() {
  if (magpie::cpu_count() < 1) return 1;
  try {
    throw magpie::misuse("a rule");
  } catch (const std::logic_error&) {
  }
  std::printf("%s\n", magpie::version().data());
}
