// The version of these headers, for the preprocessor and for programs.
//
// Before 1.0 a new minor version may change the API; a new patch version does not.
#pragma once

#include <string_view>

#define MAGPIE_VERSION_MAJOR 0
#define MAGPIE_VERSION_MINOR 1
#define MAGPIE_VERSION_PATCH 0

namespace magpie {

// "major.minor.patch" of the headers this call was compiled with.
constexpr std::string_view version() noexcept { return "0.1.0"; }

}  // namespace magpie
