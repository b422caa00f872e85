// Ends while a fiber waits that holds the only pointer to an object. For AddressSanitizer builds,
// whose leak check must find that pointer; with the argument "lost" nobody holds one, with
// "closure" it is in the closure of a goroutine that has not begun.

#include <magpie/go.h>
#include <magpie/runtime.h>

#include <cstdlib>
#include <memory>
#include <string_view>

#include "support/test_fiber.h"

using namespace magpie::rt;
using testing::test_fiber;

namespace {

struct object {
  int content[100];
};

[[gnu::noinline]] void wait_with_an_object(test_fiber& f) {
  object* volatile const held = new object{};
  f.pause();
  delete held;
}

[[gnu::noinline]] void lose_an_object() {
  [[maybe_unused]] object* volatile held = new object{};
  held = nullptr;
}

[[noreturn]] void end_before_a_goroutine_begins() {
  magpie::run([] {
    magpie::go([held = std::make_unique<object>()] { held->content[0] = 1; });
    std::exit(0);
  });
  std::abort();
}

}  // namespace

int main(int, char** arguments) {
  if (arguments[1] == std::string_view("closure")) end_before_a_goroutine_begins();
  // Never destroyed, as the pools of a process that ends while goroutines wait.
  auto* const pool = new stack_pool;
  thread_state thread;
  auto* const waits = new test_fiber(*pool, wait_with_an_object);
  waits->resume(&thread);
  if (arguments[1] == std::string_view("lost")) lose_an_object();
  std::exit(0);
}
