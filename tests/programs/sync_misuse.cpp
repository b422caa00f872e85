// Breaks the rule of a lock that its argument names; the process must end with a report, even
// where everything is caught. Exits with 0 if nothing noticed.

#include <cstdio>
#include <stdexcept>
#include <string_view>

#include <magpie/magpie.h>

namespace {

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
