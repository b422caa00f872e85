// A debug server while there is no memory for those who come, or for itself: every allocation fails
// in turn.

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>

#include <magpie/debug.h>
#include <magpie/magpie.h>

#include "fiber/sanitizer.h"

using namespace magpie;

namespace {

// Of the goroutine of that name the allocation of that number fails, once; 0: none does.
std::atomic<const char*> g_whose{""};
std::atomic<int> g_number{0};

[[maybe_unused]] bool is_to_fail() {
  if (g_number.load() == 0 || this_goroutine::name() != g_whose.load()) return false;
  return g_number.fetch_sub(1) == 1;
}

std::string ask(const std::string& address) {
  std::error_code failed;
  auto to = net::tcp_stream::connect(address, no_timeout, failed);
  if (failed) return "";
  to.write(std::string_view("GET /stats HTTP/1.1\r\nHost: localhost\r\n\r\n"), failed);
  std::string answer;
  char part[1000];
  while (const std::size_t got = to.read(part, sizeof part, failed)) answer.append(part, got);
  return answer;
}

// The one who accepts goes on whatever fails.
void accept_without_memory() {
  const debug::server look("127.0.0.1:0");
  g_whose = "debug server";
  int refused = 0;
  for (int number = 1;; ++number) {
    g_number = number;
    refused += ask(look.address()).empty() ? 1 : 0;
    const bool none_failed = g_number.exchange(0) > 0;
    const std::string answer = ask(look.address());
    if (!answer.starts_with("HTTP/1.1 200"))
      std::printf("after %d: \"%s\"\n", number, answer.c_str());
    if (none_failed) break;
  }
  std::printf("%s\n", refused > 0 ? "some were refused" : "nobody was refused");
}

// One that cannot be made throws, and leaves nothing behind: neither goroutine nor descriptor.
void make_without_memory() {
  this_goroutine::set_name("maker");
  g_whose = "maker";
  const std::size_t goroutines = goroutine_count();
  const int next = dup(0);
  close(next);
  int failed = 0;
  for (bool made = false; !made;) {
    g_number = ++failed;
    try {
      const debug::server look("127.0.0.1:0", {.flight_recorder = true});
      made = g_number.exchange(0) > 0;
    } catch (const std::bad_alloc&) {
      g_number = 0;
    }
  }
  while (goroutine_count() != goroutines) this_goroutine::yield();
  const int now = dup(0);
  std::printf("%s, %d descriptors more\n", failed > 1 ? "some were not made" : "all were made",
              now - next);
}

}  // namespace

// The sanitizers have their own.
#if !defined(MAGPIE_ASAN) && !defined(MAGPIE_TSAN)
void* operator new(std::size_t size) {
  void* const memory = is_to_fail() ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

int main(int, char** argv) {
  alarm(100);
  run([how = std::string_view(argv[1])] {
    how == "accept" ? accept_without_memory() : make_without_memory();
  });
  std::fflush(stdout);
  std::_Exit(0);
}
