// Getting a stack and giving it back.
//
//   warm      from the owner's cache, the path of every spawn that follows a finish
//   pool      from the shared pool, under its lock, 32 at a time
//   cold      a stack never used before: its share of the guard call, and the first page fault
//   malloc    what a fiber library without a pool pays, for comparison (64 KiB, touched)
//   mmap      the same with mmap, a guard by mprotect, and munmap

#include <sys/mman.h>

#include <cstdlib>

#include "fiber/stack_pool.h"
#include "report.h"

namespace {

using namespace magpie::rt;

constexpr int k_batch = 1024;
constexpr size_class k_class = class_for(256 << 10);

void warm(benchmark::State& run) {
  stack_pool pool;
  stack_cache cache(pool);
  for (auto _ : run) {
    for (int i = 0; i < k_batch; ++i) {
      stack* const s = cache.take(k_class);
      benchmark::DoNotOptimize(s->high);
      cache.give(s);
    }
  }
}

void shared_pool(benchmark::State& run) {
  stack_pool pool;
  stack* batch[32];
  for (auto _ : run) {
    for (int i = 0; i < k_batch; i += 32) {
      const std::size_t got = pool.take(k_class, 32, batch);
      pool.give(batch, got);
    }
  }
}

void cold(benchmark::State& run) {
  for (auto _ : run) {
    run.PauseTiming();
    stack_pool pool;
    stack* stacks[k_batch];
    run.ResumeTiming();
    std::size_t have = 0;
    while (have < k_batch) have += pool.take(k_class, 32, stacks + have);
    for (stack* s : stacks) s->high[-1] = 1;
    run.PauseTiming();
    pool.give(stacks, k_batch);
    run.ResumeTiming();
  }
}

void by_malloc(benchmark::State& run) {
  for (auto _ : run) {
    for (int i = 0; i < k_batch; ++i) {
      auto* const s = static_cast<char*>(std::malloc(256 << 10));
      s[(256 << 10) - 1] = 1;
      benchmark::DoNotOptimize(s);
      std::free(s);
    }
  }
}

void by_mmap(benchmark::State& run) {
  for (auto _ : run) {
    for (int i = 0; i < k_batch; ++i) {
      auto* const s = static_cast<char*>(mmap(nullptr, 256 << 10, PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0));
      mprotect(s, 4096, PROT_NONE);
      s[(256 << 10) - 1] = 1;
      munmap(s, 256 << 10);
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  benchmark::RegisterBenchmark("stack, warm/magpie", warm);
  benchmark::RegisterBenchmark("stack, warm/malloc", by_malloc);
  benchmark::RegisterBenchmark("stack, warm/mmap", by_mmap);
  benchmark::RegisterBenchmark("stack, shared pool/magpie", shared_pool);
  benchmark::RegisterBenchmark("stack, cold/magpie", cold);
  return magpie::bench::run_and_print(count, arguments, k_batch);
}
