#include "os/fault.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/atomic.h"
#include "base/check.h"
#include "os/environment.h"

namespace magpie::rt::os {

#ifdef NDEBUG

void set_faults(const char*) noexcept {}
std::uint64_t faults_made() noexcept { return 0; }
std::uint64_t faults_made(fault_call) noexcept { return 0; }

#else

namespace {

constexpr const char* k_calls[] = {"accept",     "connect", "read",    "write", "epoll_ctl",
                                   "epoll_wait", "mmap",    "madvise", "clone"};
constexpr std::size_t k_call_count = static_cast<std::size_t>(fault_call::count_);
static_assert(sizeof k_calls / sizeof *k_calls == k_call_count);
constexpr std::size_t k_rules_per_call = 8;
constexpr int k_last_errno = 133;

struct rule {
  atomic<std::uint32_t> one_in{0};  // 0: no such rule, and none behind it
  atomic<int> code{0};
};

struct call_faults {
  rule rules[k_rules_per_call];
  atomic<std::uint64_t> made{0};
};

call_faults g_faults[k_call_count];
atomic<bool> g_any{false};
atomic<bool> g_read{false};  // the environment
atomic<std::uint64_t> g_dice{0};

std::uint64_t roll() noexcept {
  constexpr std::uint64_t k_step = 0x9e3779b97f4a7c15;
  std::uint64_t z = g_dice.fetch_add(k_step, relaxed) + k_step;  // relaxed: only a number
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

[[noreturn]] void unreadable(const char* rules) noexcept {
  fatal("MAGPIE_FAULT: cannot read \"", rules, "\"; it should be like accept:EMFILE:1/100");
}

int errno_named(std::string_view name) noexcept {
  for (int code = 1; code <= k_last_errno; ++code) {
    const char* const known = strerrorname_np(code);
    if (known != nullptr && name == known) return code;
  }
  return name == "EWOULDBLOCK" ? EWOULDBLOCK : 0;
}

bool add_rule(std::string_view text) noexcept {
  const std::size_t first = text.find(':');
  const std::size_t second = first == text.npos ? first : text.find(':', first + 1);
  if (second == text.npos || text.substr(second, 3) != ":1/") return false;
  const std::string_view name = text.substr(0, first);
  const int code = errno_named(text.substr(first + 1, second - first - 1));
  std::uint32_t one_in = 0;
  for (const char digit : text.substr(second + 3)) {
    if (digit < '0' || digit > '9' || one_in > 100'000'000) return false;
    one_in = one_in * 10 + static_cast<std::uint32_t>(digit - '0');
  }
  if (code == 0 || one_in == 0) return false;
  for (std::size_t i = 0; i < k_call_count; ++i) {
    if (name != k_calls[i]) continue;
    for (rule& free : g_faults[i].rules) {
      if (free.one_in.load(relaxed) != 0) continue;  // relaxed: one thread writes them
      free.code.store(code, relaxed);                // relaxed: published by one_in
      free.one_in.store(one_in, release);            // pairs with the acquire in fault()
      return true;
    }
  }
  return false;
}

void read_environment() noexcept {
  g_read.store(true, relaxed);  // relaxed: read twice, the rules would only be there twice
  const char* const rules = environment("MAGPIE_FAULT");
  if (rules != nullptr) set_faults(rules);
}

}  // namespace

bool fault(fault_call which) noexcept {
  if (!g_read.load(relaxed)) read_environment();  // relaxed: see there
  if (!g_any.load(relaxed)) return false;         // relaxed: a hint, the rules are read below
  call_faults& mine = g_faults[static_cast<std::size_t>(which)];
  for (const rule& each : mine.rules) {
    const std::uint32_t one_in = each.one_in.load(acquire);  // pairs with the release in add_rule()
    if (one_in == 0) return false;
    if (roll() % one_in != 0) continue;
    mine.made.fetch_add(1, relaxed);  // relaxed: a count
    errno = each.code.load(relaxed);  // relaxed: see add_rule()
    return true;
  }
  return false;
}

void set_faults(const char* rules) noexcept {
  g_read.store(true, relaxed);  // relaxed, all of these: see fault()
  g_any.store(false, relaxed);
  for (call_faults& each : g_faults) {
    for (rule& old : each.rules) old.one_in.store(0, relaxed);  // relaxed: as above
  }
  if (rules == nullptr || *rules == 0) return;
  for (std::string_view rest = rules; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    if (!add_rule(rest.substr(0, comma))) unreadable(rules);
    rest.remove_prefix(comma == rest.npos ? rest.size() : comma + 1);
  }
  g_any.store(true, relaxed);  // relaxed: as above
}

std::uint64_t faults_made(fault_call which) noexcept {
  return g_faults[static_cast<std::size_t>(which)].made.load(relaxed);  // relaxed: a count
}

std::uint64_t faults_made() noexcept {
  std::uint64_t sum = 0;
  for (const call_faults& each : g_faults) sum += each.made.load(relaxed);  // relaxed: a count
  return sum;
}

#endif

}  // namespace magpie::rt::os
