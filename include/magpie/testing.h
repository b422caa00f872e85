// For tests of programs that use magpie.
//
// A goroutine that nobody will ever wake costs memory until the process ends, and nobody notices.
// A test can:
//
//   TEST(Server, LeavesNothingBehind) {
//     magpie::testing::leak_check check([](const std::string& text) { ADD_FAILURE() << text; });
//     ...
//   }                                              // fails if a goroutine is left
//
//   magpie::testing::leak_check check;             // without a framework: ends the process
//
//   magpie::testing::leak_check check;             // or ask
//   ...
//   EXPECT_EQ(check.leaks(), "");
//
// Some are meant to stay:
//
//   check.ignore_named("pool worker").ignore_spawned_by("logging.cpp");
//
// Any thread, any runtime. Not in <magpie/magpie.h>.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <magpie/detail/duration.h>
#include <magpie/export.h>

namespace magpie::debug {
struct goroutine_info;
}

namespace magpie::testing {

class MAGPIE_API leak_check {
 public:
  // Goroutines that are there now are nobody's leak. `on_leak` is called by the destructor, with
  // the text of leaks(); without one the text goes to standard error and the process aborts.
  explicit leak_check(std::function<void(const std::string&)> on_leak = nullptr);
  // Unless leaks() was called, or dismiss().
  ~leak_check();
  leak_check(const leak_check&) = delete;
  leak_check& operator=(const leak_check&) = delete;

  // The goroutines that have come since and are still there: how many, their stacks and where they
  // were spawned, equal ones together; "" when there are none. Those on their way out get some time
  // to end.
  std::string leaks(duration patience = std::chrono::seconds(1));
  template <class Rep, class Period>
  std::string leaks(std::chrono::duration<Rep, Period> patience) {
    return leaks(detail::to_duration(patience));
  }

  // What is left is meant to be.
  void dismiss() { armed_ = false; }

  // Goroutines that are no leaks, whenever they come. Of this name; "worker *" is every name that
  // begins with "worker ".
  leak_check& ignore_named(std::string_view name);
  // Whose place of spawning has `part` in it: "start_pool", "pool.cpp", "pool.cpp:12". It reads
  // as in the text of leaks(), "created by start_pool() at /src/pool.cpp:12".
  leak_check& ignore_spawned_by(std::string_view part);
  // Those that are there now, as the constructor does with those before.
  leak_check& ignore_present();

 private:
  using identity = std::pair<std::uint64_t, std::string>;  // ids alone differ per runtime only
  std::map<identity, int> present() const;
  bool ignored(const debug::goroutine_info&) const;

  std::function<void(const std::string&)> on_leak_;
  std::map<identity, int> before_;
  std::vector<std::string> names_;
  std::vector<std::string> spawn_sites_;
  bool armed_ = true;
};

}  // namespace magpie::testing
