// Takes as many stacks as its argument says, with the guards that the environment asks for, and
// tells how far it came.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "base/print.h"
#include "fiber/stack_pool.h"

using namespace magpie::rt;

namespace {

bool faults(int pipe_end, const void* address) {
  return write(pipe_end, address, 1) < 0 && errno == EFAULT;
}

}  // namespace

int main(int, char** arguments) {
  const auto wanted = static_cast<std::size_t>(std::atol(arguments[1]));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return 2;
  stack_pool pool;
  std::vector<stack*> stacks(wanted);
  std::size_t have = 0;
  while (have < wanted) {
    const std::size_t got = pool.take(class_for(256 << 10), wanted - have, &stacks[have]);
    if (got == 0) break;
    for (std::size_t i = have; i < have + got; ++i) {
      stacks[i]->low[0] = 1;
      stacks[i]->high[-1] = 1;
      if (!faults(ends[1], stacks[i]->low - 1)) {
        printer() << "stack " << i << " has no guard\n";
        return 3;
      }
    }
    have += got;
  }
  printer out;
  if (have < wanted) {
    pool.explain_shortage(out);
    out << '\n';
  } else {
    out << have << " stacks, all guarded\n";
  }
  pool.give(stacks.data(), have);
  return have < wanted ? 1 : 0;
}
