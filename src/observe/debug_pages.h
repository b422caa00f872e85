// What the debug server has to say, apart from how it says it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sched/meters.h"

namespace magpie::rt {

// Everything that can be said in numbers, as JSON.
std::string stats_json(const meters&);

// All goroutines, or the one with that id. Text: as debug::dump() writes it; empty: there is no
// such goroutine.
std::string goroutines_text(std::optional<std::uint64_t> only);
std::string goroutines_json(std::optional<std::uint64_t> only);

// How many goroutines are in the same state, wait for the same and come from the same place; the
// most frequent first, and no more than a page is good for. As JSON.
std::string sites_json();

// The live page (viewer/live.html).
std::string_view live_page();

}  // namespace magpie::rt
