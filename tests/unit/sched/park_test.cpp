#include <gtest/gtest.h>

#include <magpie/go.h>
#include <magpie/runtime.h>

#include "os/memory.h"
#include "sched/gate.h"
#include "sched/scheduler.h"

namespace magpie {
namespace {

struct parked_before_a_fresh_one {
  bool next_had_a_stack = true;
  bool committed = false;
};

// Runs once the goroutine that parks is off its stack. Who follows it is at hand, but a stack for
// it, which the kernel may take long to make, has not been looked for: what a commit unlocks would
// have been locked all that time.
bool look_at_the_next(rt::M& m, void* argument) {
  auto& seen = *static_cast<parked_before_a_fresh_one*>(argument);
  seen.committed = true;
  if (rt::G* const next = m.found.g) seen.next_had_a_stack = next->fiber.stack != nullptr;
  return false;  // goes on at once
}

TEST(Park, IsCommittedBeforeTheKernelIsAskedForStacks) {
  parked_before_a_fresh_one seen;
  bool fresh_one_ran = false;
  {
    runtime one_p({.procs = 1});
    one_p.run([&] {
      go([&] { fresh_one_ran = true; });
      rt::M* m = rt::enter();
      m->p->stacks.drain();
      m = m->scheduler_.park(m, rt::wait_reason::event_wait, look_at_the_next, &seen);
      rt::leave(m);
    });
  }
  EXPECT_TRUE(seen.committed);
  EXPECT_FALSE(seen.next_had_a_stack);
  EXPECT_TRUE(fresh_one_ran);
}

// Below its stack there may be the guard. Where a sanitizer looks on, nothing is loaded.
TEST(FetchFrames, StaysOnThePageOfTheStackPointer) {
  const std::size_t page = rt::os::page_size();
  const auto space = rt::os::reserve(3 * page, page);
  ASSERT_TRUE(space);
  char* const low = static_cast<char*>(*space) + page;
  ASSERT_FALSE(rt::os::commit({low, page}));
  rt::stack record{};
  rt::G g;
  g.fiber.stack = &record;
  for (const std::size_t above : {std::size_t{0}, std::size_t{8}, std::size_t{47}, page - 16}) {
    g.fiber.registers.stack_pointer = low + above;
    rt::fetch_frames(g);
  }
  g.fiber.stack = nullptr;
  EXPECT_FALSE(rt::os::unmap({*space, 3 * page}));
}

// A goroutine that yields until others have done their work says that they should go first. They
// are in the global queue, of which a P takes one every 61 turns while it has others.
TEST(Yield, AFewWhoYieldDoNotHoldUpThoseInTheGlobalQueue) {
  constexpr long k_workers = 20'000;
  for (const int yielders : {1, 8}) {
    long done = 0, yields = 0;
    {
      runtime one_p({.procs = 1});
      one_p.run([&] {
        for (long i = 0; i < k_workers; ++i) go([&] { ++done; });
        for (int i = 0; i < yielders; ++i) {
          go([&] {
            while (done < k_workers) {
              ++yields;
              this_goroutine::yield();
            }
          });
        }
      });
    }
    EXPECT_EQ(done, k_workers);
    EXPECT_LT(yields, k_workers) << yielders << " who yield";
  }
}

}  // namespace
}  // namespace magpie
