// Breaks the rule of a lock that its argument names; the process must end with a report, even
// where everything is caught. Exits with 0 if nothing noticed.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>

#include <magpie/magpie.h>

namespace {

using namespace std::chrono_literals;

// One waits for a future that will never come, and after a while...
template <class Body>
void while_one_waits(Body body) {
  magpie::event never;
  std::optional<magpie::future<void>> f(magpie::async([&] { never.wait(); }));
  std::thread waiter([&] { f->wait(); });
  std::this_thread::sleep_for(50ms);
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
