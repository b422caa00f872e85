// Uses something of the headers alone and something of the library, and prints the version.
#include <magpie/magpie.h>

#include <cstdio>
#include <stdexcept>

// Before main(), and before the library's own globals where those come later in the link.
const int g_early = magpie::run([] { return magpie::async([] { return 7; }).get(); });

int main() {
  if (magpie::cpu_count() < 1 || g_early != 7) return 1;
  try {
    throw magpie::misuse("a rule");
  } catch (const std::logic_error&) {
  }
  std::printf("%s\n", magpie::version().data());
}
