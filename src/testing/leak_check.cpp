#include <magpie/debug.h>
#include <magpie/go.h>
#include <magpie/testing.h>
#include <magpie/time.h>

#include <cstdlib>

#include "base/print.h"

namespace magpie::testing {
namespace {

std::string describe(const debug::goroutine_info& g) {
  std::string text = "goroutine " + std::to_string(g.id) + " [" +
                     (g.wait_reason.empty() ? g.state : g.wait_reason) + ']';
  if (!g.name.empty()) text += " \"" + g.name + '"';
  text += ":\n";
  for (const std::string& frame : g.stack) text += "  " + frame + '\n';
  return text + "created by " + g.spawn_site + '\n';
}

}  // namespace

std::map<leak_check::identity, int> leak_check::present() const {
  std::map<identity, int> found;
  for (const auto& g : debug::goroutines()) ++found[{g.id, g.spawn_site}];
  return found;
}

leak_check::leak_check(std::function<void(const std::string&)> on_leak)
    : on_leak_(std::move(on_leak)), before_(present()) {}

leak_check::~leak_check() {
  if (!armed_) return;
  const std::string text = leaks();
  if (text.empty()) return;
  if (on_leak_) {
    on_leak_(text);
    return;
  }
  rt::printer() << "magpie: goroutines are left:\n\n" << text;
  std::abort();
}

std::string leak_check::leaks(duration patience) {
  armed_ = false;
  const time_point end = detail::deadline_after(clock::now(), patience);
  for (duration pause = std::chrono::microseconds(100);; pause = 2 * pause) {
    std::string text;
    auto before = before_;
    for (const auto& g : debug::goroutines()) {
      const auto known = before.find({g.id, g.spawn_site});
      if (known != before.end() && known->second-- > 0) continue;
      if (!text.empty()) text += '\n';
      text += describe(g);
    }
    if (text.empty() || clock::now() >= end) return text;
    this_goroutine::sleep_for(std::min<duration>(pause, std::chrono::milliseconds(50)));
  }
}

}  // namespace magpie::testing
