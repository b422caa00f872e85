// See stalls.cpp.
#pragma once

namespace magpie::rt {

// The service's: whether there is something to say about a thread that sleeps, and to say it.
void report_stall();

}  // namespace magpie::rt
