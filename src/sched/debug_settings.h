// MAGPIE_DEBUG: switches for looking and for hunting, as "key=value,key=value".
#pragma once

#include <cstdint>

#include "os/clock.h"

namespace magpie::rt {

// What is said about goroutines that block their thread in code that does not say so.
enum class stall_mode {
  once,  // for each place, when it takes long
  all,
  silent,
};

struct debug_settings {
  os::nanos schedtrace = 0;  // print a line about every runtime this often; 0: never
  bool scheddetail = false;  // ... and a line for each P and M
  bool nosysmon = false;     // no monitor: what it would cure becomes visible
  bool nopreempt = false;    // nobody is stopped by a signal
  stall_mode stalls = stall_mode::once;
  os::nanos storm = 0;  // try to stop every thread this often, at whatever it does; 0: no
  os::nanos threadidle = 10'000'000'000;  // a thread that nobody needed for so long ends
  os::nanos tracegen = 1'000'000'000;     // how long a generation of a trace is, at most
  std::uint64_t seed = 0;                 // of every runtime that asks for none; 0: random
};

// Read once. A key that does not exist, or a value that is none, ends the process with a message.
const debug_settings& debugging();

// Whether lines of schedtrace are wanted at the end of the process, too. Signal-safe.
bool wants_last_trace();

// Parses into `settings`; the text that was not understood, or null.
const char* parse_debug_settings(const char* text, debug_settings& settings);

}  // namespace magpie::rt
