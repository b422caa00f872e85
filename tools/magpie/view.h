// `magpie trace view`: a server for one trace and one reader.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace magpie_tool {

struct view_settings {
  std::string name;
  std::vector<std::uint8_t> bytes;
  std::uint16_t port = 0;  // 0: any that is free
  bool browser = true;     // open one
};

// Serves until the process is told to end. Listens on loopback, and answers only who knows the
// secret in the address: others on this machine cannot read the trace by guessing the port.
int serve_view(const view_settings& settings);

}  // namespace magpie_tool
