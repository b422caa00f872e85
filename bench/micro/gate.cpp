// What a call into the runtime costs before it has done anything: the way in and the way out.

#include <benchmark/benchmark.h>

#include <magpie/magpie.h>

#include "report.h"
#include "sched/gate.h"

namespace magpie::bench {
namespace {

using namespace rt;

constexpr int k_operations = 1000;

// The body of each benchmark runs in a goroutine: a plain thread has no gate.
template <class F>
void measure(benchmark::State& state, F operation) {
  runtime r({.procs = 1});
  r.run([&] {
    for ([[maybe_unused]] auto _ : state) {
      for (int i = 0; i < k_operations; ++i) operation();
    }
  });
}

// A function call that the compiler does not look into, for comparison.
[[gnu::noinline]] void nothing() { asm volatile(""); }

}  // namespace
}  // namespace magpie::bench

int main(int count, char** arguments) {
  using namespace magpie;
  using namespace magpie::bench;
  const auto add = [](const char* name, auto operation) {
    benchmark::RegisterBenchmark(name, [operation](benchmark::State& state) {
      measure(state, operation);
    })->MeasureProcessCPUTime();
  };
  add("enter and leave/magpie", [] { rt::leave(rt::enter()); });
  add("enter and leave/a call", [] { nothing(); });
  add("checkpoint/magpie", [] { this_goroutine::checkpoint(); });
  return run_and_print(count, arguments, k_operations);
}
