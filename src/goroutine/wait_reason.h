// Why a goroutine waits. Every place that parks has a reason of its own, so that a dump says
// where to look; Go's words where Go has them.
#pragma once

#include <cstdint>

namespace magpie::rt {

enum class wait_reason : std::uint8_t {
  none,
  future_wait,
  thread_cap,
  sleep_for_ever,
};

constexpr const char* wait_reason_text(wait_reason reason) {
  switch (reason) {
    case wait_reason::none:
      return "waiting";
    case wait_reason::future_wait:
      return "future wait";
    case wait_reason::thread_cap:
      return "thread limit";
    case wait_reason::sleep_for_ever:
      return "select (no cases)";
  }
  return "waiting";
}

}  // namespace magpie::rt
