// The viewer's page (viewer/), which the tool carries inside.
#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

namespace magpie_tool {

// The page as it is in viewer/, in one piece: scripts and style are inside.
std::string_view page();

// The page, with a trace that it opens by itself.
void write_page(std::ostream& out, std::string_view name, std::span<const std::uint8_t> trace);

// The page, opening the trace that the server it came from has at `path`.
std::string page_for(std::string_view name, std::string_view path);

}  // namespace magpie_tool
