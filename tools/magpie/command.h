// What the parts of the tool share.
#pragma once

#include <stdexcept>
#include <string_view>
#include <vector>

namespace magpie_tool {

inline constexpr int k_failed = 1;
inline constexpr int k_usage = 2;

// The command line makes no sense.
class usage_error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// `magpie trace ...`: the words after "trace". Returns the exit code.
int trace_command(const std::vector<std::string_view>& words);

// `magpie dump ...`: the same.
int dump_command(const std::vector<std::string_view>& words);

// `magpie top ...`: the same.
int top_command(const std::vector<std::string_view>& words);

}  // namespace magpie_tool
