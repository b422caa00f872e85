// Breaks the rule of a lock or a future that its argument names; the process must end with a
// report, even where everything is caught. Exits with 0 if nothing noticed.

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>

#include <magpie/magpie.h>

#include "os/thread.h"
#include "support/asleep.h"

namespace {

using namespace magpie::rt;

// When somebody waits for a future that will never come.
template <class Body>
void while_one_waits(Body body) {
  magpie::event never;
  std::optional<magpie::future<void>> f(magpie::async([&] { never.wait(); }));
  std::atomic<os::thread_id> sleeper{0};
  std::thread waiter([&] {
    sleeper = os::current_thread_id();
    f->wait();
  });
  testing::wait_until_asleep(sleeper);
  body(f);
  std::_Exit(0);
}

void break_rule(std::string_view way) {
  magpie::mutex guard;
  if (way == "mutex_unlock") guard.unlock();
  if (way == "mutex_unlock_twice") {
    guard.lock();
    guard.unlock();
    guard.unlock();
  }
  if (way == "mutex_unlock_in_goroutine") magpie::run([&] { guard.unlock(); });
  magpie::shared_mutex shared;
  if (way == "shared_unlock") shared.unlock();
  if (way == "shared_unlock_read_locked") {
    shared.lock_shared();
    shared.unlock();
  }
  if (way == "shared_unlock_shared") shared.unlock_shared();
  if (way == "shared_unlock_shared_write_locked") {
    shared.lock();
    shared.unlock_shared();
  }
  if (way == "shared_unlock_shared_twice") {
    shared.lock_shared();
    shared.unlock_shared();
    shared.unlock_shared();
  }
  if (way == "shared_unlock_shared_with_slots") {
    for (int i = 0; i < 3; ++i) shared.lock_shared();
    for (int i = 0; i < 4; ++i) shared.unlock_shared();
  }
  if (way == "future_two_wait") {
    while_one_waits([](auto& f) { f->wait(); });
  }
  if (way == "future_dropped_under_wait") {
    while_one_waits([](auto& f) { f.reset(); });
  }
  if (way == "wait_group_exception") {
    magpie::run([] {
      magpie::wait_group all;
      all.go([] { throw std::runtime_error("thrown in a wait_group"); });
      all.wait();
      std::puts("wait returned");
      std::fflush(stdout);
    });
  }
}

}  // namespace

int main(int, char** arguments) {
  try {
    break_rule(arguments[1]);
  } catch (...) {
  }
  return 0;
}
