// Fails in the way its argument says, and dies of it.

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/check.h"
#include "os/signal.h"

using namespace magpie::rt;

namespace {

volatile int g_two = 2;

void fail_a_check() { MAGPIE_CHECK(g_two + g_two == 5, "arithmetic is broken"); }

constexpr int k_threads = 4;
std::atomic<int> g_failing{0};

// Ends only when all threads are about to fail, so that each of them meets a report under way.
void wait_for_the_others(printer& out) {
  while (g_failing.load() < k_threads) std::this_thread::yield();
  out << "the end of a report\n";
}

}  // namespace

int main(int, char** arguments) {
  const std::string_view way = arguments[1];
  if (way == "check") fail_a_check();
  if (way == "fatal") fatal("no memory for ", 3, " stacks of ", hex{0x1000}, ' ', "bytes");
  if (way == "long") fatal(std::string(5000, 'x'), "the last word");
  if (way == "context") {
    set_report_context([](printer& out) { out << "  while goroutine " << 17 << " was running\n"; });
    fatal("out of luck");
  }
  if (way == "context_withdrawn") {
    set_report_context([](printer& out) { out << "not wanted any more\n"; });
    set_report_context(nullptr);
    fatal("out of luck");
  }
  if (way == "check_in_context") {
    set_report_context([](printer&) { fail_a_check(); });
    fatal("the first failure");
  }
  if (way == "fault_in_context") {
    set_report_context([](printer&) { raise(SIGKILL); });
    fatal("the first failure");
  }
  if (way == "fatal_in_context") {
    set_report_context([](printer&) { fatal("the second failure"); });
    fail_a_check();
  }
  if (way == "threads") {
    set_report_context(wait_for_the_others);
    std::vector<std::thread> threads;
    std::atomic<int> ready{0};
    for (int i = 0; i < k_threads; ++i) {
      threads.emplace_back([i, &ready] {
        ready.fetch_add(1);
        while (ready.load() < k_threads) std::this_thread::yield();
        g_failing.fetch_add(1);
        if (i % 2 == 0) fail_a_check();
        fatal("thread ", i, " failed");
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  if (way == "handler") {
    const os::alternate_stack for_signals;
    if (os::install_signal_handler(SIGUSR1, [](const os::signal_event&) { fail_a_check(); })) {
      return 2;
    }
    raise(SIGUSR1);
  }
  if (way == "handler_in_context") {
    if (os::install_signal_handler(SIGUSR1, [](const os::signal_event&) { fail_a_check(); })) {
      return 2;
    }
    set_report_context([](printer&) { raise(SIGUSR1); });
    fatal("the first failure");
  }
  if (way == "no_standard_error") {
    close(STDERR_FILENO);
    fatal("nobody hears this");
  }
  return 0;
}
