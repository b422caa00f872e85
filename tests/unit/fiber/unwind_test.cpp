#include "fiber/unwind.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "fiber/fiber.h"

namespace magpie::rt {
namespace {

unwind_registers from(const context& c) {
  unwind_registers r;
  r.program_counter = reinterpret_cast<std::uintptr_t>(c.program_counter);
  r.values[unwind_registers::k_stack_pointer] = reinterpret_cast<std::uintptr_t>(c.stack_pointer);
  r.values[unwind_registers::k_frame_pointer] = reinterpret_cast<std::uintptr_t>(c.frame_pointer);
  return r;
}

// The return addresses from here up, as the walk finds them.
[[gnu::noinline]] std::vector<std::uintptr_t> walk_from_here() {
  const context stands = calling_frame();
  const os::module_table modules;
  const auto low = reinterpret_cast<std::uintptr_t>(stands.stack_pointer);
  const os::stack_bounds all = os::current_thread_stack();
  stack_walk walk(modules, {low, reinterpret_cast<std::uintptr_t>(all.high), nullptr}, from(stands),
                  false);
  std::vector<std::uintptr_t> found;
  do found.push_back(walk.program_counter());
  while (walk.step());
  return found;
}

[[gnu::noinline]] std::vector<std::uintptr_t> unwind_test_inner(std::uintptr_t& expected) {
  expected = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  auto found = walk_from_here();
  asm volatile("");
  return found;
}

[[gnu::noinline]] std::vector<std::uintptr_t> unwind_test_outer(std::uintptr_t& expected,
                                                                std::uintptr_t& inner) {
  expected = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  // Of a size that only the tables know.
  volatile char room[1000];
  room[0] = 0;
  auto found = unwind_test_inner(inner);
  asm volatile("" ::"r"(room));
  return found;
}

TEST(Unwind, FindsTheCallersUpToMain) {
  std::uintptr_t outer = 0, inner = 0;
  const auto found = unwind_test_outer(outer, inner);
  ASSERT_GT(found.size(), 4u);
  EXPECT_EQ(found[1], inner);
  EXPECT_EQ(found[2], outer);
}

TEST(Unwind, CodeThatIsNoneEndsTheWalk) {
  const os::module_table modules;
  std::uintptr_t stack[64] = {};
  unwind_registers r;
  r.program_counter = 0x1000;
  r.values[unwind_registers::k_stack_pointer] = reinterpret_cast<std::uintptr_t>(stack);
  stack_walk walk(modules,
                  {reinterpret_cast<std::uintptr_t>(stack),
                   reinterpret_cast<std::uintptr_t>(stack + 64), nullptr},
                  r, true);
  EXPECT_FALSE(walk.step());
}

// Addresses of code and of the stack itself, thrown together: the walk ends, and stays inside.
TEST(Unwind, AStackOfNoiseEndsTheWalk) {
  const os::module_table modules;
  random_source random(7);
  constexpr std::size_t k_words = 256;
  std::uintptr_t stack[k_words];
  const auto low = reinterpret_cast<std::uintptr_t>(stack);
  std::vector<const os::loaded_module*> all;
  for (const auto& m : modules) all.push_back(&m);
  const auto some_code = [&] {
    const os::loaded_module& m = *all[random.below(static_cast<std::uint32_t>(all.size()))];
    return m.low + random.below(static_cast<std::uint32_t>(m.high - m.low));
  };
  for (int i = 0; i < 20'000; ++i) {
    for (std::uintptr_t& word : stack) {
      const std::uint32_t kind = random.below(4);
      word = kind == 0 ? random.next() : kind == 1 ? low + random.below(k_words * 8) : some_code();
    }
    unwind_registers r;
    r.program_counter = some_code();
    for (auto& value : r.values) value = low + random.below(k_words) * 8;
    stack_walk walk(modules, {low, low + sizeof stack, nullptr}, r, random.below(2) == 0);
    int frames = 0;
    while (walk.step()) ASSERT_LE(++frames, 2 * static_cast<int>(k_words));
  }
}

}  // namespace
}  // namespace magpie::rt
