#include <magpie/testing.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include <magpie/magpie.h>

namespace magpie {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

TEST(LeakCheck, NothingLeftIsNoLeak) {
  runtime r({.procs = 2});
  testing::leak_check check;
  for (int i = 0; i < 100; ++i) r.go([] { this_goroutine::sleep_for(1ms); });
  EXPECT_EQ(check.leaks(10s), "");
}

TEST(LeakCheck, NamesWhoIsLeftAndWhereItWasSpawned) {
  runtime r({.procs = 2});
  const channel<int> c;
  std::optional<std::string> told;
  {
    const testing::leak_check check([&](const std::string& text) { told = text; });
    r.go([=] {
      this_goroutine::set_name("forgotten");
      c.receive();
    });
  }
  ASSERT_TRUE(told.has_value());
  EXPECT_THAT(*told, ::testing::StartsWith("1 goroutine has not ended:\n\ngoroutine "));
  EXPECT_THAT(*told, HasSubstr("[chan receive] \"forgotten\":\n"));
  EXPECT_THAT(*told, HasSubstr("\ncreated by "));
#if !defined(__clang__)  // which may begin a function with lines of what is inlined into it
  EXPECT_THAT(*told, HasSubstr("leak_check_test.cpp:"));
#endif
  c.close();
}

TEST(LeakCheck, EqualOnesAreToldTogether) {
  runtime r({.procs = 1});
  const channel<int> c;
  testing::leak_check check;
  for (int i = 0; i < 500; ++i) r.go([=] { c.receive(); });
  r.go([=] { c.receive(); });
  // Some may still be on their way to where they wait.
  const auto patience = clock::now() + 60s;
  std::string text;
  do {
    text = check.leaks(0s);
  } while (text.find("(500 goroutines) [chan receive]") == text.npos && clock::now() < patience);
  EXPECT_THAT(text, ::testing::StartsWith("501 goroutines have not ended:\n"));
  EXPECT_THAT(text, HasSubstr(" (500 goroutines) [chan receive]:\n"));
  EXPECT_LT(text.size(), 5000u);
  c.close();
}

TEST(LeakCheck, ThoseFromBeforeDoNotCount) {
  runtime r({.procs = 1});
  const channel<int> c;
  r.go([=] { c.receive(); });
  {
    testing::leak_check check;
    EXPECT_EQ(check.leaks(0s), "");
  }
  c.close();
}

TEST(LeakCheck, TheGoroutineThatChecksDoesNotCount) {
  runtime r({.procs = 1});
  r.run([] {
    testing::leak_check check;
    EXPECT_EQ(check.leaks(0s), "");
  });
}

TEST(LeakCheck, CanBeDismissed) {
  runtime r({.procs = 1});
  const channel<int> c;
  {
    testing::leak_check check([](const std::string& text) { ADD_FAILURE() << text; });
    r.go([=] { c.receive(); });
    check.dismiss();
  }
  c.close();
}

void wait_as(const char* name, runtime& r, const channel<int>& c) {
  r.run([&] { go({.name = name}, [=] { c.receive(); }); });
}

[[gnu::noinline]] void start_pool(runtime& r, const channel<int>& c) {
  r.go([=] { c.receive(); });
}

TEST(LeakCheck, ThoseMeantToStayAreIgnoredByName) {
  runtime r({.procs = 1});
  const channel<int> c;
  testing::leak_check check;
  check.ignore_named("janitor").ignore_named("worker *");
  for (const char* const name : {"janitor", "worker 1", "worker 22"}) {
    wait_as(name, r, c);
  }
  EXPECT_EQ(check.leaks(10s), "");
  for (const char* const name : {"janitor 2", "Xworker 1", "workers"}) {
    wait_as(name, r, c);
  }
  const std::string text = check.leaks(0s);
  for (const char* const name : {"janitor 2", "Xworker 1", "workers"}) {
    EXPECT_THAT(text, HasSubstr(" \"" + std::string(name) + "\":\n"));
  }
  EXPECT_THAT(text, Not(HasSubstr("\"janitor\"")));
  EXPECT_THAT(text, Not(HasSubstr("\"worker ")));
  c.close();
}

TEST(LeakCheck, ThoseMeantToStayAreIgnoredByWhereTheyWereSpawned) {
  runtime r({.procs = 1});
  const channel<int> c;
  testing::leak_check check;
  check.ignore_spawned_by("start_pool");
  start_pool(r, c);
  EXPECT_EQ(check.leaks(10s), "");
  r.go([=] { c.receive(); });
  EXPECT_THAT(check.leaks(0s), ::testing::StartsWith("1 goroutine has not ended:\n"));
  EXPECT_THROW(check.ignore_spawned_by(""), misuse);
  c.close();
}

TEST(LeakCheck, ThoseOfALaterMomentCanBeIgnored) {
  runtime r({.procs = 1});
  const channel<int> c;
  testing::leak_check check;
  wait_as("from the set-up", r, c);
  check.ignore_present();
  EXPECT_EQ(check.leaks(10s), "");
  wait_as("from the test", r, c);
  const std::string text = check.leaks(0s);
  EXPECT_THAT(text, HasSubstr("\"from the test\""));
  EXPECT_THAT(text, Not(HasSubstr("from the set-up")));
  c.close();
}

// The patience ends with the last one that is not ignored.
TEST(LeakCheck, NobodyWaitsForTheIgnored) {
  runtime r({.procs = 1});
  const channel<int> c;
  testing::leak_check check;
  check.ignore_named("stays");
  wait_as("stays", r, c);
  const auto begin = clock::now();
  EXPECT_EQ(check.leaks(1h), "");
  EXPECT_LT(clock::now() - begin, 60s);
  c.close();
}

}  // namespace
}  // namespace magpie
