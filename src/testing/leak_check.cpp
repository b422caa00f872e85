#include <magpie/debug.h>
#include <magpie/errors.h>
#include <magpie/go.h>
#include <magpie/testing.h>
#include <magpie/time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/print.h"

namespace magpie::testing {
namespace {

std::string describe(const debug::goroutine_info& g) {
  std::string text = '[' + (g.wait_reason.empty() ? g.state : g.wait_reason) + ']';
  if (!g.name.empty()) text += " \"" + g.name + '"';
  text += ":\n";
  for (const std::string& frame : g.stack) text += "  " + frame + '\n';
  if (!g.spawn_site.empty()) text += "created by " + g.spawn_site + '\n';
  return text;
}

bool is_named(const debug::goroutine_info& g, std::string_view name) {
  if (!name.ends_with('*')) return g.name == name;
  return g.name.starts_with(name.substr(0, name.size() - 1));
}

// Who is left; equal ones together, as in a dump.
class report {
 public:
  void add(const debug::goroutine_info& g) {
    ++count_;
    const std::string text = describe(g);
    for (group& each : groups_) {
      if (each.text != text) continue;
      ++each.count;
      each.last = g.id;
      return;
    }
    groups_.push_back({g.id, g.id, 1, text});
  }

  std::string text() const {
    if (count_ == 0) return {};
    std::string all = count_ == 1 ? "1 goroutine has not ended:\n"
                                  : std::to_string(count_) + " goroutines have not ended:\n";
    for (const group& each : groups_) {
      all += "\ngoroutine " + std::to_string(each.first);
      if (each.count > 1) {
        all +=
            ".." + std::to_string(each.last) + " (" + std::to_string(each.count) + " goroutines)";
      }
      all += ' ' + each.text;
    }
    return all;
  }

 private:
  struct group {
    std::uint64_t first, last;
    std::size_t count;
    std::string text;
  };
  std::size_t count_ = 0;
  std::vector<group> groups_;
};

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
  rt::printer() << "magpie: " << text;
  std::abort();
}

leak_check& leak_check::ignore_named(std::string_view name) {
  names_.emplace_back(name);
  return *this;
}

leak_check& leak_check::ignore_spawned_by(std::string_view part) {
  if (part.empty()) throw misuse("leak_check: every place of spawning has an empty text in it");
  spawn_sites_.emplace_back(part);
  return *this;
}

leak_check& leak_check::ignore_present() {
  before_ = present();
  return *this;
}

bool leak_check::ignored(const debug::goroutine_info& g) const {
  return std::any_of(names_.begin(), names_.end(),
                     [&](const std::string& name) { return is_named(g, name); }) ||
         std::any_of(spawn_sites_.begin(), spawn_sites_.end(), [&](const std::string& part) {
           return g.spawn_site.find(part) != std::string::npos;
         });
}

std::string leak_check::leaks(duration patience) {
  armed_ = false;
  const time_point end = detail::deadline_after(clock::now(), patience);
  for (duration pause = std::chrono::microseconds(100);; pause = 2 * pause) {
    report left;
    auto before = before_;
    for (const auto& g : debug::goroutines()) {
      const auto known = before.find({g.id, g.spawn_site});
      if (known != before.end() && known->second-- > 0) continue;
      if (ignored(g)) continue;
      left.add(g);
    }
    const std::string text = left.text();
    if (text.empty() || clock::now() >= end) return text;
    this_goroutine::sleep_for(std::min<duration>(pause, std::chrono::milliseconds(50)));
  }
}

}  // namespace magpie::testing
