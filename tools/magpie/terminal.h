// The terminal, for a program that draws all of it and reads single keys.
#pragma once

#include <string>
#include <string_view>

namespace magpie_tool {

// While it exists: another screen, no cursor, no line editing. Whatever ends the process, the
// terminal is as before.
class terminal {
 public:
  terminal();
  ~terminal();
  terminal(const terminal&) = delete;
  terminal& operator=(const terminal&) = delete;

  // Standard input and output are one.
  static bool is_there();
  // How many columns and lines; what is usual, where it cannot be known.
  static void size(int& columns, int& lines);

  // All that is on the screen from now on.
  void show(std::string_view text);
  // What was typed since; empty: nothing.
  std::string typed();
};

}  // namespace magpie_tool
