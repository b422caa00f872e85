// What the recorder writes: traces of programs of all kinds, each read by our own strict reader
// and, where Go is installed, by Go's.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "observe/trace_reader.h"
#include "support/subprocess.h"

namespace magpie::rt {
namespace {

namespace fs = std::filesystem;

std::vector<std::uint8_t> bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool go_is_installed() {
  static const bool there = std::system("go version >/dev/null 2>&1") == 0;
  return there;
}

// What `go tool trace` has to say against it; empty: nothing.
std::string complaints_of_go(const fs::path& trace) {
  const fs::path said = trace.string() + ".go";
  const std::string command =
      "go tool trace -d=parsed '" + trace.string() + "' 2>'" + said.string() + "' >/dev/null";
  const int outcome = std::system(command.c_str());
  std::ifstream file(said);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  fs::remove(said);
  return outcome == 0 || !text.empty() ? text : "it failed and said nothing";
}

struct contents {
  std::map<trace::event, int> events;
  std::map<std::string, int> reasons;
  std::map<std::string, int> names;  // of goroutines that were made
  std::map<std::string, int> logs;   // by category
  std::size_t generations = 0;
  std::string error;  // where it is broken
};

contents read_what_there_is(const fs::path& path) {
  contents all;
  const std::vector<std::uint8_t> bytes = bytes_of(path);
  trace_reader reader(bytes);
  for (trace_event event; reader.next(event);) {
    ++all.events[event.kind];
    if (event.kind == trace::event::go_block || event.kind == trace::event::go_stop) {
      ++all.reasons[std::string(reader.text(event.arguments[0]))];
    }
    if (event.kind == trace::event::go_create && event.arguments[1] != 0) {
      ++all.names[std::string(reader.stack(event.arguments[1]).back().function)];
    }
    if (event.kind == trace::event::log) ++all.logs[std::string(reader.text(event.arguments[1]))];
  }
  if (const trace_error* error = reader.error()) all.error = error->what;
  all.generations = reader.generations();
  EXPECT_GT(all.generations, 0u);
  return all;
}

contents read_trace(const fs::path& path) {
  contents all = read_what_there_is(path);
  EXPECT_EQ(all.error, "") << path;
  return all;
}

class folder {
 public:
  folder() {
    std::string name = (fs::temp_directory_path() / "magpie_traces_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

testing::program_end run_traced(const std::string& name, const fs::path& file, int period_ms) {
  std::vector<std::string> settings{"MAGPIE_DEBUG=tracegen=" + std::to_string(period_ms)};
  if (name.rfind("own_", 0) != 0) settings.push_back("MAGPIE_TRACE=" + file.string());
  return testing::run_program("traced", {name, file.string()}, settings);
}

contents trace_of(const std::string& name, int period_ms) {
  const folder into;
  const fs::path file = into.path() / "trace";
  const auto end = run_traced(name, file, period_ms);
  EXPECT_EQ(end.exit_code, 0) << end.output;
  return read_trace(file);
}

std::vector<std::string> names_of_programs() {
  std::istringstream list(testing::run_program("traced", {"list"}).output);
  return {std::istream_iterator<std::string>(list), std::istream_iterator<std::string>()};
}

class RecordedTraces : public ::testing::TestWithParam<std::string> {};

void expect_readable(const std::string& name, int period_ms) {
  const folder into;
  const auto end = run_traced(name, into.path() / "trace", period_ms);
  ASSERT_EQ(end.exit_code, 0) << end.output;
  const bool written_by_itself = name == "own_to_a_stream" || name == "own_flight";
  int traces = 0;
  for (const auto& entry : fs::directory_iterator(into.path())) {
    ++traces;
    if (!written_by_itself) {
      EXPECT_EQ(entry.status().permissions(), fs::perms::owner_read | fs::perms::owner_write);
    }
    read_trace(entry.path());
    if (go_is_installed()) {
      EXPECT_EQ(complaints_of_go(entry.path()), "") << entry.path();
    }
  }
  EXPECT_GT(traces, 0);
  if (!go_is_installed()) GTEST_SKIP() << "Go is not installed: read by our own reader only";
}

TEST_P(RecordedTraces, AreReadable) { expect_readable(GetParam(), 1000); }
TEST_P(RecordedTraces, AreReadableInShortGenerations) { expect_readable(GetParam(), 2); }

INSTANTIATE_TEST_SUITE_P(Programs, RecordedTraces, ::testing::ValuesIn(names_of_programs()),
                         [](const auto& test) { return test.param; });

TEST(RecordedTrace, HasWhatTheStationsDid) {
  contents tree = trace_of("spawn_tree", 1000);
  EXPECT_EQ(tree.events[trace::event::go_create], 1023);
  EXPECT_EQ(tree.events[trace::event::go_destroy], 1023);
  EXPECT_GT(tree.reasons["sync"], 0);

  contents calls = trace_of("blocking_calls", 1000);
  EXPECT_EQ(calls.events[trace::event::go_syscall_begin], 120);
  EXPECT_EQ(calls.events[trace::event::go_syscall_end] +
                calls.events[trace::event::go_syscall_end_blocked],
            120);

  contents hogs = trace_of("hogs", 1000);
  EXPECT_GT(hogs.reasons["preempted"], 0);

  contents resized = trace_of("resize", 1000);
  EXPECT_GT(resized.events[trace::event::procs_change], 5);
  EXPECT_GT(resized.reasons["runtime.Gosched"], 0);

  contents echo = trace_of("echo", 1000);
  EXPECT_GT(echo.reasons["network"], 0);
  EXPECT_EQ(echo.names["server"], 1);
}

TEST(RecordedTrace, ShowsThreadsThatSleepWithoutSayingSo) {
  contents all = trace_of("unannounced", 1000);
  EXPECT_GT(all.events[trace::event::proc_steal], 0);
  EXPECT_GT(all.events[trace::event::go_syscall_end_blocked], 0);
}

TEST(RecordedTrace, HasWhatTheProgramSays) {
  contents all = trace_of("annotated", 3);
  EXPECT_EQ(all.events[trace::event::task_begin], 80);
  EXPECT_EQ(all.events[trace::event::task_end], 80);
  EXPECT_EQ(all.events[trace::event::log], 160);
  EXPECT_EQ(all.events[trace::event::region_begin], 80 * 5);
}

TEST(RecordedTrace, NamesGoroutinesByTheirFunctions) {
  contents all = trace_of("functions", 1000);
  EXPECT_EQ(all.names["(anonymous namespace)::plain_function()"], 1);
  for (const auto& [name, count] : all.names) {
    EXPECT_EQ(name.find("magpie::detail"), std::string::npos) << name;
  }
}

TEST(RecordedTrace, IsCutIntoGenerations) {
  EXPECT_GT(trace_of("hogs", 5).generations, 1u);
  EXPECT_EQ(trace_of("spawn_burst", 100'000).generations, 1u);
}

// A report is written first; then what has happened until then goes into the file.
TEST(RecordedTrace, OfAProcessThatReportsItsEndIsWhole) {
  for (const char* const name : {"throws", "misuses", "overflows"}) {
    const folder into;
    const fs::path file = into.path() / "trace";
    const auto end = run_traced(name, file, 100'000);
    EXPECT_NE(end.exit_code, 0) << name;
    EXPECT_EQ(read_trace(file).logs["last words"], 1) << name << ": " << end.output;
    if (go_is_installed()) {
      EXPECT_EQ(complaints_of_go(file), "") << name;
    }
  }
}

// It may be in the middle of a generation that it writes: those before are whole.
TEST(RecordedTrace, OfAProcessThatDiesIsWholeButForItsEnd) {
  for (const char* const name : {"aborts", "is_killed"}) {
    const folder into;
    const fs::path file = into.path() / "trace";
    const auto end = run_traced(name, file, 100);
    EXPECT_NE(end.exit_code, 0) << name;
    contents all = read_what_there_is(file);
    EXPECT_EQ(all.logs["last words"], 1) << name << ": " << end.output;
    if (!all.error.empty()) {
      EXPECT_NE(all.error.find("the file is cut"), std::string::npos) << all.error;
    } else if (go_is_installed()) {
      EXPECT_EQ(complaints_of_go(file), "") << name;
    }
  }
}

TEST(RecordedTrace, OfAFlightRecorderIsTheEndOnly) {
  contents all = trace_of("own_flight", 5);
  EXPECT_EQ(all.logs["first words"], 0);
  EXPECT_EQ(all.logs["last words"], 1);
}

}  // namespace
}  // namespace magpie::rt
