#include <gtest/gtest.h>
#include <unwind.h>

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/test_fiber.h"

namespace magpie::rt {
namespace {

using testing::test_fiber;

class Switch : public ::testing::Test {
 protected:
  stack_pool pool;
  thread_state thread;
};

TEST_F(Switch, BodyRunsOnItsOwnStackAndComesBack) {
  const void* seen = nullptr;
  test_fiber f(pool, [&](test_fiber&) {
    volatile int local = 1;
    seen = const_cast<int*>(&local);
  });
  f.resume(&thread);
  EXPECT_TRUE(f.done());
  if (!sanitizer::k_address) {  // there, locals live in fake frames elsewhere
    EXPECT_GE(seen, f.stack->low);
    EXPECT_LT(seen, f.stack->high);
  }
  EXPECT_EQ(find_stack(f.stack->low), f.stack);
}

// Values that compilers like to keep in callee-saved and in vector registers.
TEST_F(Switch, LocalsOfBothSidesSurvive) {
  const auto compute = [](test_fiber* f, std::uint64_t seed) {
    std::uint64_t a = seed, b = seed + 1, c = seed + 2, d = seed + 3, e = seed + 4, g = seed + 5;
    double x = static_cast<double>(seed) * 1.5, y = x + 1, z = y + 1;
    for (int i = 0; i < 100; ++i) {
      if (f != nullptr) f->pause();
      a += b * 3, b ^= c, c += d, d = d * 5 + e, e -= g, g += a;
      x += y * 0.5, y += z * 0.25, z += 1 / (x + 1);
    }
    return static_cast<double>(a ^ b ^ c ^ d ^ e ^ g) + x + y + z;
  };
  double results[2] = {};
  test_fiber first(pool, [&](test_fiber& f) { results[0] = compute(&f, 7); });
  test_fiber second(pool, [&](test_fiber& f) { results[1] = compute(&f, 1000); });
  while (!first.done() || !second.done()) {
    if (!first.done()) first.resume(&thread);
    if (!second.done()) second.resume(&thread);
  }
  EXPECT_EQ(results[0], compute(nullptr, 7));
  EXPECT_EQ(results[1], compute(nullptr, 1000));
}

TEST_F(Switch, StackIsAlignedForVectorInstructions) {
  bool aligned = false;
  test_fiber f(pool, [&](test_fiber& self) {
    alignas(32) volatile char block[64] = {};
    self.pause();
    aligned = reinterpret_cast<std::uintptr_t>(&block) % 32 == 0 &&
              reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) % 16 == 0;
  });
  f.resume(&thread);
  f.resume(&thread);
  EXPECT_TRUE(aligned);
}

[[gnu::noinline]] std::uint64_t descend(test_fiber& f, int depth) {
  if (depth == 0) {
    f.pause();
    return 1;
  }
  const std::uint64_t below = descend(f, depth - 1);
  return below + static_cast<std::uint64_t>(depth);
}

TEST_F(Switch, SwitchesDeepInsideCallsReturnThroughTheRightFrames) {
  std::vector<std::uint64_t> sums(50);
  std::vector<std::unique_ptr<test_fiber>> fibers;
  for (int i = 0; i < 50; ++i) {
    fibers.push_back(std::make_unique<test_fiber>(pool, [&sums, i](test_fiber& f) {
      for (int round = 0; round < 20; ++round) sums[static_cast<std::size_t>(i)] += descend(f, i);
    }));
  }
  for (bool any = true; any;) {
    any = false;
    for (auto& f : fibers) {
      if (f->done()) continue;
      any = true;
      f->resume(&thread);
    }
  }
  for (std::uint64_t i = 0; i < 50; ++i) EXPECT_EQ(sums[i], 20 * (1 + i * (i + 1) / 2));
}

TEST_F(Switch, FibersHandOverToEachOtherDirectly) {
  std::string order;
  test_fiber* other = nullptr;
  test_fiber second(pool, [&](test_fiber&) { order += 'b'; });
  other = &second;
  test_fiber first(pool, [&](test_fiber& f) {
    order += 'a';
    f.hand_over(*other);
    order += 'c';
  });
  first.resume(&thread);  // ends when `second` ends: it inherited the resumer
  EXPECT_EQ(order, "ab");
  first.resume(&thread);
  EXPECT_EQ(order, "abc");
}

TEST_F(Switch, FiberMovesToAnotherThread) {
  const thread_state* states[2] = {};
  std::thread::id ids[2];
  test_fiber f(pool, [&](test_fiber& self) {
    ids[0] = std::this_thread::get_id();
    states[0] = self.pause();
    // Not std::this_thread::get_id() again: a compiler may take it for unchanged.
  });
  f.resume(&thread);
  std::thread([&] {
    thread_state there;
    f.resume(&there);
    EXPECT_EQ(states[0], &there);
  }).join();
  EXPECT_TRUE(f.done());
  EXPECT_EQ(ids[0], std::this_thread::get_id());
}

TEST_F(Switch, StackServesTheNextFiber) {
  rt::stack* used = nullptr;
  {
    test_fiber f(pool, [](test_fiber&) {});
    used = f.stack;
    f.resume(&thread);
  }
  test_fiber g(pool, [](test_fiber&) {});
  EXPECT_EQ(g.stack, used);
  g.resume(&thread);
  EXPECT_TRUE(g.done());
}

extern "C" void magpie_fiber_entry();

// An unwinder must know where a fiber's stack ends, or every stack trace ends in garbage.
TEST_F(Switch, BacktraceEndsAtTheEntry) {
  std::vector<void*> functions;
  _Unwind_Reason_Code outcome = _URC_NO_REASON;
  test_fiber f(pool, [&](test_fiber&) {
    outcome = _Unwind_Backtrace(
        [](_Unwind_Context* context, void* to) {
          const auto pc = _Unwind_GetIP(context);
          if (pc == 0) return _URC_NO_REASON;  // the end itself is shown, too
          static_cast<std::vector<void*>*>(to)->push_back(
              _Unwind_FindEnclosingFunction(reinterpret_cast<void*>(pc)));
          return _URC_NO_REASON;
        },
        &functions);
  });
  f.resume(&thread);
  EXPECT_EQ(outcome, _URC_END_OF_STACK);
  ASSERT_GE(functions.size(), 3u);
  EXPECT_LT(functions.size(), 20u);
  EXPECT_EQ(functions.back(), reinterpret_cast<void*>(&magpie_fiber_entry));
}

struct counts_uncaught {
  int& at_destruction;
  test_fiber& f;
  ~counts_uncaught() {
    f.pause();
    at_destruction = std::uncaught_exceptions();
  }
};

TEST_F(Switch, ExceptionsAreCaughtOnTheStackTheyWereThrownOn) {
  std::string caught;
  test_fiber f(pool, [&](test_fiber& self) {
    try {
      self.pause();
      throw std::runtime_error("inner");
    } catch (const std::runtime_error& e) {
      caught = e.what();
    }
  });
  f.resume(&thread);
  f.resume(&thread);
  EXPECT_EQ(caught, "inner");
}

// Two fibers inside catch blocks at once, each rethrowing what it caught: with the exception
// state left on the thread each would rethrow the other's.
TEST_F(Switch, FibersInCatchBlocksRethrowTheirOwnException) {
  std::string results[2];
  const auto body = [&](int me) {
    return [&results, me](test_fiber& f) {
      const std::string mine = "exception of " + std::to_string(me);
      try {
        try {
          throw std::runtime_error(mine);
        } catch (...) {
          f.pause();
          EXPECT_NE(std::current_exception(), nullptr);
          f.pause();
          throw;
        }
      } catch (const std::runtime_error& e) {
        results[me] = e.what();
      }
    };
  };
  test_fiber first(pool, body(0));
  test_fiber second(pool, body(1));
  for (int i = 0; i < 3; ++i) {
    first.resume(&thread);
    EXPECT_EQ(std::current_exception(), nullptr) << "a fiber's exception stayed on the thread";
    second.resume(&thread);
    EXPECT_EQ(std::uncaught_exceptions(), 0);
  }
  EXPECT_EQ(results[0], "exception of 0");
  EXPECT_EQ(results[1], "exception of 1");
}

TEST_F(Switch, ResumerInACatchBlockKeepsItsExceptionToo) {
  test_fiber f(pool, [&](test_fiber& self) {
    EXPECT_EQ(std::current_exception(), nullptr);
    try {
      throw 1;
    } catch (int) {
      self.pause();
    }
  });
  try {
    throw std::runtime_error("outer");
  } catch (...) {
    f.resume(&thread);
    try {
      throw;
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "outer");
    }
    f.resume(&thread);
  }
  EXPECT_TRUE(f.done());
}

TEST_F(Switch, UncaughtExceptionsAreCountedPerFiber) {
  int inside = -1;
  test_fiber f(pool, [&](test_fiber& self) {
    try {
      counts_uncaught guard{inside, self};
      throw 42;
    } catch (int) {
    }
  });
  f.resume(&thread);  // parked in a destructor, while the exception flies
  EXPECT_EQ(std::uncaught_exceptions(), 0);
  test_fiber bystander(pool, [&](test_fiber&) { EXPECT_EQ(std::uncaught_exceptions(), 0); });
  bystander.resume(&thread);
  f.resume(&thread);
  EXPECT_EQ(inside, 1);
  EXPECT_EQ(std::uncaught_exceptions(), 0);
}

TEST_F(Switch, CatchBlockMovesToAnotherThread) {
  std::string caught;
  test_fiber f(pool, [&](test_fiber& self) {
    try {
      try {
        throw std::runtime_error("travels");
      } catch (...) {
        self.pause();
        throw;
      }
    } catch (const std::runtime_error& e) {
      caught = e.what();
    }
  });
  f.resume(&thread);
  std::thread([&] {
    thread_state there;
    f.resume(&there);
    EXPECT_EQ(std::current_exception(), nullptr);
  }).join();
  EXPECT_EQ(caught, "travels");
}

TEST_F(Switch, NestedCatchBlocksSurviveManySwitches) {
  std::vector<std::string> seen;
  test_fiber f(pool, [&](test_fiber& self) {
    for (int i = 0; i < 100; ++i) {
      try {
        throw std::runtime_error("outer");
      } catch (...) {
        self.pause();
        try {
          throw std::logic_error("inner");
        } catch (...) {
          self.pause();
          try {
            throw;
          } catch (const std::exception& e) {
            if (std::string(e.what()) != "inner") seen.push_back(e.what());
          }
        }
        try {
          throw;
        } catch (const std::exception& e) {
          if (std::string(e.what()) != "outer") seen.push_back(e.what());
        }
      }
    }
  });
  test_fiber noise(pool, [&](test_fiber& self) {
    for (;;) {
      try {
        throw 1;
      } catch (int) {
        self.pause();
        if (f.done()) return;
      }
    }
  });
  while (!f.done()) {
    f.resume(&thread);
    noise.resume(&thread);
  }
  EXPECT_TRUE(noise.done());
  EXPECT_TRUE(seen.empty()) << seen.front();
}

}  // namespace
}  // namespace magpie::rt
