// One-way context switches: magpie's and Boost.Context's fcontext, the switch under most C++
// fiber libraries.
//
//   hot            two fibers, back and forth
//   N, D frames    N fibers in random order, each D calls deep when it switches; the calls return
//                  afterwards, which shows what the switch did to the return predictor
//   in catch       the leaving fiber is inside a catch block, so its exception state travels

#include <array>
#include <memory>
#include <random>

#include "fiber/fiber.h"
#include "fiber/stack_pool.h"
#include "report.h"

#ifdef MAGPIE_BENCH_BOOST
#include <boost/context/detail/fcontext.hpp>
#endif

namespace {

constexpr int k_batch = 4096;  // switches per timed iteration

// Which fiber is next: the same fixed random walk for every contender.
class walk {
 public:
  explicit walk(int fibers) {
    std::mt19937 random(42);
    int last = 0;
    for (int& step : steps_) {
      do {
        step = static_cast<int>(random() % static_cast<unsigned>(fibers));
      } while (step == last && fibers > 1);
      last = step;
    }
  }
  int next() { return steps_[position_++ % k_batch]; }

 private:
  std::array<int, k_batch> steps_;
  unsigned position_ = 0;
};

walk* g_walk = nullptr;
long g_left = 0;  // switches until control goes back to the timing loop

// The calls above a switch. A fiber that lands returns through all of them.
template <int Depth, class Switch>
[[gnu::noinline]] long calls_above(Switch switch_now) {
  if constexpr (Depth == 0) {
    switch_now();
    return 0;
  } else {
    const long below = calls_above<Depth - 1>(switch_now);
    asm volatile("" ::: "memory");  // keeps the call from becoming a jump
    return below + 1;
  }
}

namespace ours {

using namespace magpie::rt;

struct state {
  stack_pool pool;
  thread_state thread;
  fiber home;
  std::vector<fiber> fibers;
  std::vector<stack*> stacks;
} * g_state;
fiber* g_running = nullptr;

[[gnu::noinline]] void go_on(fiber* to) {
  fiber* const from = g_running;
  g_running = to;
  switch_to(*from, *to, &g_state->thread);
}

template <int Depth>
departure body(fiber*, thread_state* thread) {
  for (;;) {
    benchmark::DoNotOptimize(calls_above<Depth>([] {
      fiber* const to = --g_left > 0 ? &g_state->fibers[static_cast<std::size_t>(g_walk->next())]
                                     : &g_state->home;
      if (to != g_running) go_on(to);
    }));
  }
  return {nullptr, thread};
}

template <int Depth>
void walk_fibers(benchmark::State& run, int fibers) {
  state all;
  g_state = &all;
  walk order(fibers);
  g_walk = &order;
  all.fibers.resize(static_cast<std::size_t>(fibers));
  all.stacks.resize(static_cast<std::size_t>(fibers));
  for (std::size_t have = 0; have < all.stacks.size();) {
    have += all.pool.take(1, all.stacks.size() - have, all.stacks.data() + have);
  }
  for (std::size_t i = 0; i < all.fibers.size(); ++i) {
    prepare(all.fibers[i], *all.stacks[i], body<Depth>);
  }
  g_running = &all.home;
  for (auto _ : run) {
    g_left = k_batch;
    go_on(&all.fibers[0]);
  }
  all.pool.give(all.stacks.data(), all.stacks.size());
}

// Two fibers: the smallest loop there is around a switch.
fiber g_ping, g_pong;

departure pong(fiber*, thread_state* thread) {
  for (;;) thread = switch_to(g_pong, g_ping, thread);
  return {nullptr, thread};
}

[[gnu::noinline]] void ping(thread_state* thread) {
  for (int i = 0; i < k_batch / 2; ++i) thread = switch_to(g_ping, g_pong, thread);
}

void hot(benchmark::State& run) {
  stack_pool pool;
  thread_state thread;
  stack* on = nullptr;
  pool.take(1, 1, &on);
  prepare(g_pong, *on, pong);
  for (auto _ : run) ping(&thread);
  pool.give(&on, 1);
}

void hot_in_catch(benchmark::State& run) {
  try {
    throw 1;
  } catch (int) {
    hot(run);
  }
}

}  // namespace ours

#ifdef MAGPIE_BENCH_BOOST
namespace boost_fcontext {

using boost::context::detail::fcontext_t;
using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr std::size_t k_stack = 64 * 1024;

std::vector<fcontext_t> g_contexts;  // the last is the timing loop
std::size_t g_running = 0;

// Landing stores the context of whoever jumped here: that is how fcontext hands it over.
[[gnu::noinline]] void go_on(std::size_t to) {
  const std::size_t from = g_running;
  g_running = to;
  const transfer_t came = jump_fcontext(g_contexts[to], reinterpret_cast<void*>(from));
  g_contexts[reinterpret_cast<std::size_t>(came.data)] = came.fctx;
}

template <int Depth>
void body(transfer_t came) {
  g_contexts[reinterpret_cast<std::size_t>(came.data)] = came.fctx;
  for (;;) {
    benchmark::DoNotOptimize(calls_above<Depth>([] {
      const std::size_t to =
          --g_left > 0 ? static_cast<std::size_t>(g_walk->next()) : g_contexts.size() - 1;
      if (to != g_running) go_on(to);
    }));
  }
}

template <int Depth>
void walk_fibers(benchmark::State& run, int fibers) {
  walk order(fibers);
  g_walk = &order;
  const auto count = static_cast<std::size_t>(fibers);
  std::unique_ptr<char[]> stacks(new char[count * k_stack]);
  g_contexts.assign(count + 1, nullptr);
  for (std::size_t i = 0; i < count; ++i) {
    g_contexts[i] = make_fcontext(stacks.get() + (i + 1) * k_stack, k_stack, body<Depth>);
  }
  g_running = count;
  for (auto _ : run) {
    g_left = k_batch;
    go_on(0);
  }
}

void pong(transfer_t came) {
  for (;;) came = jump_fcontext(came.fctx, nullptr);
}

void hot(benchmark::State& run) {
  std::unique_ptr<char[]> on(new char[k_stack]);
  transfer_t other{make_fcontext(on.get() + k_stack, k_stack, pong), nullptr};
  for (auto _ : run) {
    for (int i = 0; i < k_batch / 2; ++i) other = jump_fcontext(other.fctx, nullptr);
  }
}

}  // namespace boost_fcontext
#endif

// Shown per switch, not per batch.
template <class Function>
void add(const std::string& name, Function function) {
  benchmark::RegisterBenchmark(name.c_str(), [function](benchmark::State& run) {
    function(run);
  })->Unit(benchmark::kNanosecond);
}

template <int Depth>
void add_walk(int fibers) {
  const std::string name =
      "switch, " + std::to_string(fibers) + " fibers, " + std::to_string(Depth) + " frames";
  add(name + "/magpie", [fibers](benchmark::State& run) { ours::walk_fibers<Depth>(run, fibers); });
#ifdef MAGPIE_BENCH_BOOST
  add(name + "/fcontext",
      [fibers](benchmark::State& run) { boost_fcontext::walk_fibers<Depth>(run, fibers); });
#endif
}

}  // namespace

int main(int count, char** arguments) {
  add("switch, hot/magpie", ours::hot);
#ifdef MAGPIE_BENCH_BOOST
  add("switch, hot/fcontext", boost_fcontext::hot);
#endif
  add("switch, hot, in catch/magpie", ours::hot_in_catch);
  add_walk<0>(8);
  add_walk<8>(8);
  add_walk<0>(64);
  add_walk<4>(64);
  add_walk<8>(64);
  return magpie::bench::run_and_print(count, arguments, k_batch);
}
