#include "sched/debug_settings.h"

#include <charconv>
#include <cstring>
#include <string_view>

#include "base/atomic.h"
#include "base/check.h"
#include "os/environment.h"

namespace magpie::rt {
namespace {

bool parse_number(std::string_view text, std::uint64_t& number) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failure == std::errc() && end == text.data() + text.size();
}

// How long a setting may be: so that the time in so long is one, too.
constexpr os::nanos k_longest = os::k_never / 2;

bool set_time(os::nanos& to, std::uint64_t value, os::nanos unit) {
  if (value > static_cast<std::uint64_t>(k_longest / unit)) return false;
  to = static_cast<os::nanos>(value) * unit;
  return true;
}

bool apply(std::string_view key, std::uint64_t value, debug_settings& settings) {
  constexpr os::nanos k_ms = 1'000'000, k_us = 1'000;
  if (key == "schedtrace") {
    return set_time(settings.schedtrace, value, k_ms);
  } else if (key == "scheddetail") {
    settings.scheddetail = value != 0;
  } else if (key == "nosysmon") {
    settings.nosysmon = value != 0;
  } else if (key == "nopreempt") {
    settings.nopreempt = value != 0;
  } else if (key == "threadidle") {
    return set_time(settings.threadidle, value, k_ms);
  } else if (key == "stalls") {
    settings.stalls = value != 0 ? stall_mode::all : stall_mode::silent;
  } else if (key == "preemptstorm") {
    return set_time(settings.storm, value, k_us);
  } else if (key == "tracegen") {
    return value != 0 && set_time(settings.tracegen, value, k_ms);
  } else if (key == "seed") {
    settings.seed = value;
  } else {
    return false;
  }
  return true;
}

}  // namespace

const char* parse_debug_settings(const char* text, debug_settings& settings) {
  while (text != nullptr && *text != '\0') {
    const char* const comma = std::strchr(text, ',');
    const std::string_view entry(
        text, comma != nullptr ? static_cast<std::size_t>(comma - text) : std::strlen(text));
    const std::size_t equals = entry.find('=');
    std::uint64_t value = 0;
    if (equals == std::string_view::npos || !parse_number(entry.substr(equals + 1), value) ||
        !apply(entry.substr(0, equals), value, settings)) {
      return text;
    }
    text = comma != nullptr ? comma + 1 : nullptr;
  }
  return nullptr;
}

namespace {
// Apart, for those who report that the settings are wrong.
constinit atomic<bool> g_wants_last_trace{false};
}  // namespace

const debug_settings& debugging() {
  static const debug_settings settings = [] {
    debug_settings read;
    const char* const text = os::environment("MAGPIE_DEBUG");
    if (const char* const unknown = parse_debug_settings(text, read)) {
      fatal("MAGPIE_DEBUG=", text, ": not understood from \"", unknown,
            "\" on; the keys are schedtrace=MS, scheddetail=1, nosysmon=1, nopreempt=1,"
            " stalls=0|1, preemptstorm=US,"
            " threadidle=MS, tracegen=MS, seed=N");
    }
    g_wants_last_trace.store(read.schedtrace != 0 || read.scheddetail, relaxed);  // a setting
    return read;
  }();
  return settings;
}

bool wants_last_trace() { return g_wants_last_trace.load(relaxed); }  // relaxed: a setting

}  // namespace magpie::rt
