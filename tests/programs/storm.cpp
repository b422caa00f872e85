// Goroutines that do what is easily broken by being stopped in the middle: the heap, exceptions,
// streams, locks, thread-locals, errno, the rounding mode, vector registers, fork. Meant to run
// with MAGPIE_DEBUG=preemptstorm=US. Arguments: seconds, what to do (all, or its name), Ps.
//
// Prints how often somebody was stopped, and exits with 1 if any result was wrong.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cfenv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <magpie/magpie.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

using namespace magpie;

namespace {

std::atomic<bool> g_over{false};
std::atomic<std::uint64_t> g_rounds{0};
std::atomic<int> g_wrong{0};

void check(bool right, const char* what) {
  if (right) return;
  g_wrong.fetch_add(1);
  std::fprintf(stderr, "wrong: %s\n", what);
}

// ---- What is done -----------------------------------------------------------------------------

void heap(std::uint64_t seed) {
  std::vector<std::vector<unsigned char>> blocks(16);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].assign(1 + (seed * 2654435761u + i * 40503u) % 5000, static_cast<unsigned char>(i));
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (const unsigned char byte : blocks[i]) {
      if (byte != i) return check(false, "memory of another");
    }
  }
}

[[gnu::noinline]] int throw_from(int depth, std::string on_the_way) {
  if (depth == 0) throw std::runtime_error(on_the_way);
  return throw_from(depth - 1, on_the_way + "x") + 1;
}

void exceptions(std::uint64_t) {
  try {
    throw_from(12, "");
  } catch (const std::runtime_error& e) {
    check(std::strlen(e.what()) == 12, "an exception's text");
    try {
      throw std::logic_error("inner");
    } catch (const std::logic_error& inner) {
      check(std::string_view(inner.what()) == "inner", "a nested exception");
    }
    check(std::uncaught_exceptions() == 0, "uncaught exceptions");
  }
}

void streams(std::uint64_t seed) {
  std::ostringstream out;
  out << seed << ' ' << 0.5 << ' ' << "text";
  std::istringstream in(out.str());
  std::uint64_t number = 0;
  double half = 0;
  std::string text;
  in >> number >> half >> text;
  check(number == seed && half == 0.5 && text == "text", "what was read back");
}

std::FILE* g_file = nullptr;

void stdio(std::uint64_t seed) {
  char line[32];
  const int length =
      std::snprintf(line, sizeof line, "%llu\n", static_cast<unsigned long long>(seed));
  check(std::fwrite(line, 1, static_cast<std::size_t>(length), g_file) ==
            static_cast<std::size_t>(length),
        "fwrite");
}

void maps(std::uint64_t seed) {
  std::map<std::uint64_t, std::string> map;
  for (std::uint64_t i = 0; i < 50; ++i) map[(seed + i) * 7919 % 101] = std::to_string(i);
  std::uint64_t last = 0;
  for (const auto& [key, value] : map) {
    check(key >= last && !value.empty(), "a map's order");
    last = key;
  }
}

std::mutex g_mutex;
std::uint64_t g_under_mutex[2];

void mutexes(std::uint64_t) {
  const std::scoped_lock hold(g_mutex);
  check(g_under_mutex[0] == g_under_mutex[1], "what a std::mutex guards");
  ++g_under_mutex[0];
  for (int i = 0; i < 50; ++i) asm volatile("");
  ++g_under_mutex[1];
}

thread_local std::uint64_t t_value = 0;

void thread_state(std::uint64_t seed) {
  t_value = seed;
  errno = static_cast<int>(seed % 100);
  const int mode = seed % 2 == 0 ? FE_UPWARD : FE_DOWNWARD;
  std::fesetround(mode);
  volatile double third = 1.0;
  for (int i = 0; i < 300; ++i) third = third / 3.0 * 3.0 + 1e-9;
  check(std::fegetround() == mode, "the rounding mode");
  std::fesetround(FE_TONEAREST);
  check(t_value == seed, "a thread_local");
  check(errno == static_cast<int>(seed % 100), "errno");
}

// Kept in vector registers over a loop, where the compiler can.
void vectors(std::uint64_t seed) {
  using four = double __attribute__((vector_size(32)));
  four sums[4] = {};
  const four step = {1, 2, 3, 4};
  for (int i = 0; i < 2000; ++i) {
    for (four& sum : sums) {
      sum += step;
      asm volatile("" : "+m"(sum));
    }
  }
  for (const four& sum : sums) {
    for (int lane = 0; lane < 4; ++lane) check(sum[lane] == 2000.0 * (lane + 1), "a vector");
  }
  // In integer registers.
  std::uint64_t a = seed, b = ~seed, c = seed * 3, d = seed ^ 0x5555;
  for (int i = 0; i < 2000; ++i) {
    a += b ^ c;
    b -= b ^ c;
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
  }
  check(a + b == seed + ~seed && c == seed * 3 && d == (seed ^ 0x5555), "registers");
}

channel<int>* g_channel = nullptr;

void runtime_calls(std::uint64_t seed) {
  switch (seed % 4) {
    case 0:
      check(async([seed] { return seed; }).get() == seed, "a future");
      break;
    case 1:
      this_goroutine::yield();
      break;
    case 2:
      this_goroutine::sleep_for(std::chrono::microseconds(100));
      break;
    default:
      g_channel->send(1);
      check(g_channel->receive().value_or(0) == 1, "a channel");
  }
}

// Ends that come when the time is up, or when one more begins to wait.
void ends(std::uint64_t seed) {
  auto later = async([seed] { this_goroutine::sleep_for(std::chrono::microseconds(seed % 40)); });
  while (!later.wait_for(std::chrono::microseconds(seed % 37))) {
  }
  wait_group done;
  done.add(1);
  auto second = async([&] { done.wait(); });
  auto ender = async([&] { done.done(); });
  done.wait();
  second.get();
  ender.get();
}

void forks([[maybe_unused]] std::uint64_t seed) {
#ifndef SANITIZED
  if (seed % 8 == 0) {
    check(std::system("exit 7") >> 8 == 7, "system()");
    return;
  }
  const pid_t child = fork();
  if (child == 0) _exit(5);
  int status = 0;
  pid_t ended = -1;
  do {
    ended = waitpid(child, &status, 0);
  } while (ended < 0 && errno == EINTR);
  check(ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 5, "fork()");
#endif
}

struct kind {
  const char* name;
  void (*round)(std::uint64_t seed);
};
constexpr kind k_kinds[] = {
    {"heap", heap},           {"exceptions", exceptions},
    {"streams", streams},     {"stdio", stdio},
    {"maps", maps},           {"mutexes", mutexes},
    {"vectors", vectors},     {"thread_state", thread_state},
    {"calls", runtime_calls}, {"ends", ends},
    {"forks", forks},
};

void repeat(const kind& what, std::uint64_t seed) {
  while (!g_over.load(std::memory_order_relaxed)) {
    what.round(seed);
    seed += 0x9E3779B9;
    g_rounds.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int seconds = argc > 1 ? std::atoi(argv[1]) : 1;
  const std::string_view wanted = argc > 2 ? argv[2] : "all";
  g_file = std::tmpfile();
  channel<int> shared(64);
  g_channel = &shared;
  std::uint64_t stops = 0;
  {
    runtime r({.procs = argc > 3 ? std::atoi(argv[3]) : 2});
    r.run([&] {
      wait_group all;
      for (std::uint64_t copy = 0; copy < 2; ++copy) {
        for (const kind& k : k_kinds) {
          const bool chosen = wanted == k.name || (wanted == "all" && k.round != forks);
          if (chosen) all.go([&k, copy] { repeat(k, copy); });
        }
      }
      // Not by the runtime's own clock: what is tested is not to be the judge.
      all.go([&] {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
        while (std::chrono::steady_clock::now() < end) usleep(5000);
        g_over = true;
      });
      all.wait();
    });
    stops = r.read_stats().preemptions;
  }
  check(g_under_mutex[0] == g_under_mutex[1], "what a std::mutex guards, at the end");
  std::printf("stopped %llu times in %llu rounds, %d wrong\n",
              static_cast<unsigned long long>(stops),
              static_cast<unsigned long long>(g_rounds.load()), g_wrong.load());
  std::fclose(g_file);
  return g_wrong.load() == 0 ? 0 : 1;
}
