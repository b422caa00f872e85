// Contexts.

#include "workloads.h"

#include <magpie/context.h>

#include <vector>

namespace workloads {
namespace {

// Context: a tree of a thousand below one root, ten branches with 99 each, made and cancelled.
constexpr long k_branches = 10;
constexpr long k_leaves = 99;
constexpr long k_tree = k_branches * (1 + k_leaves);

nanoseconds cancel_trees(long rounds) {
  std::vector<magpie::context> contexts;
  contexts.reserve(static_cast<std::size_t>(k_tree));
  const instant start = now();
  for (long r = 0; r < rounds; ++r) {
    contexts.clear();
    const auto [root, cancel] = magpie::with_cancel(magpie::context::background());
    for (long b = 0; b < k_branches; ++b) {
      const magpie::context branch = magpie::with_cancel(root).first;
      contexts.push_back(branch);
      for (long l = 0; l < k_leaves; ++l) {
        contexts.push_back(magpie::with_cancel(branch).first);
      }
    }
    cancel();
    if (!contexts.back().error()) fail("context: the last leaf is not cancelled");
  }
  return now() - start;
}

void context() {
  const long rounds = count(1000);
  cancel_trees(std::max(1L, rounds / 10));
  report("context", per_operation(cancel_trees(rounds), rounds * k_tree), "ns/op");
}

}  // namespace

void add_contexts(table& to) { to["context"] = context; }

}  // namespace workloads
