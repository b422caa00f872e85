#include "os/backtrace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/printed.h"
#include "support/subprocess.h"

namespace magpie::rt::os {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using testing::printed;
using testing::program_end;

std::string g_trace;

void trace_here() {
  g_trace = printed([](printer& out) { print_backtrace(out); });
}

inline void keep_frame() { asm volatile("" ::: "memory"); }

}  // namespace
}  // namespace magpie::rt::os

// Not in the unnamed namespace: the traces show the names of what the dynamic linker knows.

using magpie::rt::os::keep_frame;

extern "C" [[gnu::noinline]] void backtrace_test_inner() {
  magpie::rt::os::trace_here();
  keep_frame();
}
extern "C" [[gnu::noinline]] void backtrace_test_middle() {
  backtrace_test_inner();
  keep_frame();
}
extern "C" [[gnu::noinline]] void backtrace_test_outer() {
  backtrace_test_middle();
  keep_frame();
}

extern "C" [[gnu::noinline]] void backtrace_test_recursion(int depth) {
  if (depth == 0) {
    magpie::rt::os::trace_here();
  } else {
    backtrace_test_recursion(depth - 1);
  }
  keep_frame();
}

extern "C" void backtrace_test_pong(int depth);
extern "C" [[gnu::noinline]] void backtrace_test_ping(int depth) {
  if (depth == 0) {
    magpie::rt::os::trace_here();
  } else {
    backtrace_test_pong(depth - 1);
  }
  keep_frame();
}
extern "C" [[gnu::noinline]] void backtrace_test_pong(int depth) {
  if (depth == 0) {
    magpie::rt::os::trace_here();
  } else {
    backtrace_test_ping(depth - 1);
  }
  keep_frame();
}

namespace magpie::rt::os {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The number of frames the lines stand for, if their numbers follow from each other.
std::size_t frames_in(const std::string& trace) {
  std::size_t next = 0;
  for (const std::string& line : lines_of(trace)) {
    if (line.starts_with("  ... ")) {
      next += std::strtoull(line.c_str() + 6, nullptr, 10);
      continue;
    }
    EXPECT_TRUE(line.starts_with("  #" + std::to_string(next) + " 0x")) << next << "\n" << trace;
    const std::size_t times = line.rfind(", ");
    next += times != line.npos && line.ends_with(" times")
                ? std::strtoull(line.c_str() + times + 2, nullptr, 10)
                : 1;
  }
  return next;
}

// Where each name first appears, in the order given; fails when one is missing or out of order.
void expect_in_order(const std::string& trace, const std::vector<std::string>& names) {
  std::size_t from = 0;
  for (const std::string& name : names) {
    const std::size_t at = trace.find(" in " + name + "+0x", from);
    ASSERT_NE(at, trace.npos) << name << " is not where it should be in\n" << trace;
    from = at + 1;
  }
}

TEST(Backtrace, NamesTheFramesInnermostFirst) {
  prepare_backtraces();
  backtrace_test_outer();
  expect_in_order(
      g_trace, {"backtrace_test_inner", "backtrace_test_middle", "backtrace_test_outer", "main"});
}

TEST(Backtrace, EveryFrameHasALineWithAddressAndFile) {
  backtrace_test_outer();
  const auto lines = lines_of(g_trace);
  EXPECT_GE(lines.size(), 5u);
  EXPECT_EQ(frames_in(g_trace), lines.size()) << g_trace;
  EXPECT_THAT(g_trace, ContainsRegex("#[0-9]+ 0x[0-9a-f]+ in backtrace_test_inner\\+0x[0-9a-f]+ "
                                     "\\([^ ]*unit_os_test\\+0x[0-9a-f]+\\)\n"));
}

TEST(Backtrace, RecursionIsOneLineWithACount) {
  backtrace_test_recursion(0);
  const std::size_t without = frames_in(g_trace);
  EXPECT_THAT(g_trace, Not(HasSubstr(" times")));
  backtrace_test_recursion(1);
  EXPECT_THAT(g_trace, Not(HasSubstr(" times"))) << "one call from inside and one from outside";
  for (const std::size_t depth : {2U, 3U, 100U}) {
    backtrace_test_recursion(static_cast<int>(depth));
    EXPECT_THAT(g_trace, ContainsRegex("in backtrace_test_recursion\\+.*\\), " +
                                       std::to_string(depth) + " times\n"));
    EXPECT_EQ(frames_in(g_trace), without + depth) << g_trace;
    EXPECT_THAT(g_trace, Not(HasSubstr("more frames")));
  }
}

TEST(Backtrace, MiddleOfADeepStackIsLeftOutAndCounted) {
  backtrace_test_ping(0);
  const std::size_t without = frames_in(g_trace);
  for (int depth = 1; depth < 80; ++depth) {
    backtrace_test_ping(depth);
    ASSERT_EQ(frames_in(g_trace), without + static_cast<std::size_t>(depth)) << g_trace;
    ASSERT_LE(lines_of(g_trace).size(), 41u);
  }
  EXPECT_THAT(g_trace, HasSubstr(" more frames ...\n"));
  expect_in_order(g_trace, {"backtrace_test_ping", "main"});
}

TEST(Backtrace, OfAFaultStartsWhereItHappened) {
  const program_end end = testing::run_program(
      "backtrace", {"fault"}, {"ASAN_OPTIONS=handle_segv=0", "TSAN_OPTIONS=handle_segv=0"});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_THAT(end.output, MatchesRegex("  #0 0x[0-9a-f]+ in inner_frame\\+.*"));
  EXPECT_THAT(end.output, Not(HasSubstr("handler_frame")));
  expect_in_order(end.output, {"inner_frame", "middle_frame", "outer_frame", "main"});
}

TEST(Backtrace, OfASentSignalLeavesTheHandlerOut) {
  const program_end end = testing::run_program(
      "backtrace", {"sent"}, {"ASAN_OPTIONS=handle_segv=0", "TSAN_OPTIONS=handle_segv=0"});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_THAT(end.output, Not(HasSubstr("handler_frame")));
  expect_in_order(end.output, {"main"});
}

TEST(Backtrace, OfACallThroughANullPointerShowsTheCallers) {
  const program_end end = testing::run_program(
      "backtrace", {"null_call"}, {"ASAN_OPTIONS=handle_segv=0", "TSAN_OPTIONS=handle_segv=0"});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_THAT(end.output, ::testing::StartsWith("  #0 0x0\n"));
  EXPECT_THAT(end.output, Not(HasSubstr("handler_frame")));
  expect_in_order(end.output, {"middle_frame", "outer_frame", "main"});
}

// The return address is then the first byte of whatever comes next.
TEST(Backtrace, FunctionThatEndsWithACallHasItsOwnName) {
  const program_end end = testing::run_program("backtrace", {"noreturn"});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_THAT(end.output, Not(HasSubstr("next_in_the_file")));
  expect_in_order(end.output, {"end_here", "ends_with_a_call", "main"});
}

}  // namespace
}  // namespace magpie::rt::os
