// What `magpie top` shows, as lines of text.
#pragma once

#include <string>
#include <string_view>

#include "tools/magpie/json.h"

namespace magpie_tool {

enum class site_order {
  count,
  longest,  // wait
  state,
  site,
};
std::string_view name_of(site_order);

struct top_settings {
  site_order order = site_order::count;
  int columns = 80;
  int lines = 24;  // 0: as many as there are
  bool colours = false;
};

// `now`, `before`: two answers of /stats, for rates, the second perhaps empty. `sites`: of /sites.
std::string top_text(const json_value& now, const json_value& before, const json_value& sites,
                     const top_settings&);

}  // namespace magpie_tool
