#include "observe/trace_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/random.h"
#include "support/trace_maker.h"
#include "trace/batch.h"

namespace magpie::rt {
namespace {

using ::testing::HasSubstr;
using testing::trace_maker;
using testing::trace_recipe;
using trace::batch_writer;
using trace::event;
using trace::g_status;
using trace::p_status;

struct outcome {
  std::vector<trace_event> events;
  std::string error;  // empty: none
  std::size_t offset = 0;
  bool cut = false;
};

outcome read(const std::vector<std::uint8_t>& file) {
  outcome result;
  trace_reader reader(file);
  for (trace_event event; reader.next(event);) result.events.push_back(event);
  if (reader.error() != nullptr) {
    result.error = reader.error()->what;
    result.offset = reader.error()->offset;
    result.cut = reader.error()->cut;
  }
  return result;
}

// A file of one generation: thread 1 has P 0 and runs goroutine 1, P 1 is idle, goroutine 2 waits
// and goroutine 3 is runnable. Then what the test adds, thread by thread.
class small_trace {
 public:
  using events = std::function<void(batch_writer&)>;

  explicit small_trace(trace::version format = trace::version::go126) : format_(format) {
    const auto header = trace::file_header(format);
    bytes_.assign(header.begin(), header.end());
    begin_generation(1);
    thread(1, [](batch_writer& out) {
      out.write<event::proc_status>(1001, 0, p_status::running);
      out.write<event::go_status>(1002, 1, 1, g_status::running);
    });
    thread(trace::k_nobody, [](batch_writer& out) {
      out.write<event::proc_status>(1000, 1, p_status::idle);
      out.write<event::go_status>(1000, 2, trace::k_nobody, g_status::waiting);
      out.write<event::go_status>(1000, 3, trace::k_nobody, g_status::runnable);
    });
  }

  small_trace& thread(std::uint64_t m, const events& write, std::uint64_t time = 1000) {
    std::vector<std::uint8_t> memory(65536 + 100);
    batch_writer out;
    out.begin_events(memory, generation_, m, time);
    write(out);
    append(out.finish());
    return *this;
  }
  small_trace& begin_generation(std::uint64_t number) {
    generation_ = number;
    std::uint8_t memory[trace::k_max_sync_batch];
    const std::size_t size = trace::write_sync(memory, format_, generation_,
                                               {1'000'000'000, 1000, 1000, 1'700'000'000, 0});
    append({memory, size});
    return *this;
  }
  small_trace& strings(std::initializer_list<std::pair<std::uint64_t, std::string>> texts) {
    std::vector<std::uint8_t> memory(65536);
    batch_writer out;
    out.begin_strings(memory, generation_, 1000);
    for (const auto& [id, text] : texts) out.write_string(id, text);
    append(out.finish());
    return *this;
  }
  small_trace& end_generation() {
    if (trace::end_of_generation_size(format_) > 0) bytes_.push_back(trace::k_end_of_generation);
    return *this;
  }
  small_trace& raw(std::initializer_list<std::uint8_t> more) {
    bytes_.insert(bytes_.end(), more);
    return *this;
  }
  outcome read_all() {
    end_generation();
    return read(bytes_);
  }
  std::vector<std::uint8_t>& bytes() { return bytes_; }

 private:
  void append(std::span<const std::uint8_t> more) {
    bytes_.insert(bytes_.end(), more.begin(), more.end());
  }

  trace::version format_;
  std::uint64_t generation_ = 1;
  std::vector<std::uint8_t> bytes_;
};

TEST(TraceReader, AcceptsWhateverASchedulerCanDo) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    trace_recipe recipe;
    recipe.seed = seed;
    constexpr trace::version k_formats[] = {trace::version::go122, trace::version::go123,
                                            trace::version::go125, trace::version::go126};
    recipe.format = k_formats[seed % 4];
    recipe.skew = seed % 3 == 0 ? 2'000'000 : 0;
    recipe.threads = 1 + static_cast<int>(seed % 13);
    recipe.procs = 1 + static_cast<int>(seed % 7);
    trace_maker maker(recipe);
    const outcome result = read(maker.make());
    ASSERT_EQ(result.error, "") << "seed " << seed << " at " << result.offset;
    // With skewed clocks an abandoned P may be taken before its thread is seen to leave it.
    if (recipe.skew == 0) {
      ASSERT_EQ(result.events.size(), maker.events()) << "seed " << seed;
    }
    for (std::size_t i = 1; i < result.events.size(); ++i) {
      ASSERT_GT(result.events[i].time, result.events[i - 1].time);
    }
  }
}

// A process that is killed while it writes leaves a good trace without its end. Go 1.23's format
// has no mark where a generation ends: only what is missing tells.
TEST(TraceReader, AFileThatEndsTooEarlyIsCutAndNotBroken) {
  for (const trace::version format : {trace::version::go123, trace::version::go126}) {
    trace_recipe recipe;
    recipe.format = format;
    recipe.events = 300;
    recipe.batch_size = 400;
    trace_maker maker(recipe);
    const std::vector<std::uint8_t> whole = maker.make();
    std::size_t noticed = 0;
    for (std::size_t size = 1; size < whole.size(); ++size) {
      const outcome result =
          read({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
      if (result.error.empty()) continue;
      ++noticed;
      EXPECT_TRUE(result.cut) << size << ": " << result.error;
    }
    EXPECT_GT(noticed, whole.size() * 9 / 10);
  }
}

TEST(TraceReader, SomethingMissingInTheMiddleIsBrokenAndNotCut) {
  small_trace trace(trace::version::go123);
  trace.thread(1, [](batch_writer& out) { out.write<event::go_block>(1010, 77, 0); });
  EXPECT_TRUE(read(trace.bytes()).cut);
  trace.begin_generation(2);
  const outcome result = read(trace.bytes());
  EXPECT_THAT(result.error, HasSubstr("unknown string 77"));
  EXPECT_FALSE(result.cut);
}

TEST(TraceReader, EveryTruncationIsNoticedOrLeavesWholeGenerations) {
  trace_recipe recipe;
  recipe.format = trace::version::go126;
  recipe.generations = 2;
  recipe.events = 60;
  trace_maker maker(recipe);
  const std::vector<std::uint8_t> whole = maker.make();
  ASSERT_EQ(read(whole).error, "");
  int accepted = 0;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const outcome result = read({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
    accepted += result.error.empty() ? 1 : 0;
    EXPECT_LE(result.offset, size);
  }
  // After the header, and after the first generation.
  EXPECT_EQ(accepted, 2);
}

TEST(TraceReader, SurvivesEveryChangeOfOneByte) {
  trace_recipe recipe;
  recipe.events = 150;
  recipe.generations = 2;
  trace_maker maker(recipe);
  const std::vector<std::uint8_t> whole = maker.make();
  random_source random(7);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::vector<std::uint8_t> changed = whole;
    changed[i] = static_cast<std::uint8_t>(random.next());
    const outcome result = read(changed);
    EXPECT_LE(result.offset, whole.size());
    EXPECT_LE(result.events.size(), maker.events() + 1000);
  }
}

TEST(TraceReader, OrdersThreadsBySequenceNumbersNotByClocks) {
  small_trace trace;
  // Thread 2 claims to have started goroutine 3 long before thread 1 gave way.
  trace.thread(
      2,
      [](batch_writer& out) {
        out.write<event::proc_start>(500, 1, 1);
        out.write<event::go_start>(501, 3, 1);
        out.write<event::go_unblock>(502, 2, 1, 0);
      },
      400);
  trace.thread(1, [](batch_writer& out) {
    out.write<event::go_destroy>(1010);
    out.write<event::go_start>(1020, 2, 2);
  });
  const outcome result = trace.read_all();
  ASSERT_EQ(result.error, "");
  std::vector<event> kinds;
  for (const trace_event& each : result.events) kinds.push_back(each.kind);
  EXPECT_EQ(kinds.back(), event::go_start);
  EXPECT_EQ(result.events.back().g, trace::k_nobody);
  EXPECT_EQ(result.events.back().subject(), 2u);
  EXPECT_EQ(result.events.back().p, 0u);
}

TEST(TraceReader, ADirectSwitchComesInItsParts) {
  small_trace trace;
  trace.thread(1, [](batch_writer& out) { out.write<event::go_switch>(1010, 2, 1); });
  const outcome result = trace.read_all();
  ASSERT_EQ(result.error, "");
  ASSERT_EQ(result.events.size(), 8u);
  EXPECT_EQ(result.events[5].kind, event::go_unblock);
  EXPECT_EQ(result.events[6].kind, event::go_block);
  EXPECT_EQ(result.events[6].g, 1u);
  EXPECT_EQ(result.events[7].kind, event::go_start);
  EXPECT_EQ(result.events[7].subject(), 2u);
}

TEST(TraceReader, TextsAndStacksAreThoseOfTheGeneration) {
  small_trace trace;
  trace.strings({{1, "first"}});
  trace.thread(1, [](batch_writer& out) { out.write<event::go_label>(1010, 1); });
  trace.end_generation().begin_generation(2).strings({{1, "second"}});
  trace.thread(1, [](batch_writer& out) { out.write<event::go_label>(1011, 1); });
  trace.end_generation();
  trace_reader reader(trace.bytes());
  std::vector<std::string> labels;
  for (trace_event event; reader.next(event);) {
    if (event.kind == event::go_label) labels.emplace_back(reader.text(event.arguments[0]));
  }
  EXPECT_EQ(reader.error(), nullptr);
  EXPECT_EQ(labels, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(reader.generations(), 2u);
}

// One mistake per file, and what is said about it.

struct mistake {
  const char* name;
  const char* said;
  std::function<void(small_trace&)> make;
};

class TraceMistakes : public ::testing::TestWithParam<mistake> {};

TEST_P(TraceMistakes, AreNamed) {
  small_trace trace;
  GetParam().make(trace);
  const outcome result = trace.read_all();
  EXPECT_THAT(result.error, HasSubstr(GetParam().said));
  EXPECT_LE(result.offset, trace.bytes().size());
}

small_trace::events just(std::function<void(batch_writer&)> write) { return write; }

const mistake k_mistakes[] = {
    {"StartOfWaiting", "goroutine 2, which is waiting, not runnable",
     [](small_trace& t) {
       t.thread(1, just([](batch_writer& out) {
                  out.write<event::go_destroy>(1010);
                  out.write<event::go_start>(1011, 2, 1);
                }));
     }},
    {"StartOfUnknown", "goroutine 99, which does not exist",
     [](small_trace& t) {
       t.thread(1, just([](batch_writer& out) {
                  out.write<event::go_destroy>(1010);
                  out.write<event::go_start>(1011, 99, 1);
                }));
     }},
    {"WrongSequence", "after number 0 (this is number 2)",
     [](small_trace& t) {
       t.thread(1, just([](batch_writer& out) {
                  out.write<event::go_destroy>(1010);
                  out.write<event::go_start>(1011, 3, 2);
                }));
     }},
    {"StartOnTop", "goroutine 3 starts where goroutine 1 runs",
     [](small_trace& t) {
       t.thread(1, just([](batch_writer& out) { out.write<event::go_start>(1011, 3, 1); }));
     }},
    {"BlockWithoutP", "needs a P",
     [](small_trace& t) {
       t.thread(9, just([](batch_writer& out) { out.write<event::go_block>(1011, 0, 0); }));
     }},
    {"LogWithoutGoroutine", "needs a goroutine",
     [](small_trace& t) {
       t.thread(1, just([](batch_writer& out) {
                  out.write<event::go_destroy>(1010);
                  out.write<event::log>(1011, 0, 0, 0, 0);
                }));
     }},
    {"CreateTwice", "goroutine 2 exists already",
     [](small_trace& t) {
       t.thread(1, just([](batch_writer& out) { out.write<event::go_create>(1011, 2, 0, 0); }));
     }},
    {"StealOfRunningP", "P 0, which is running, not in a system call",
     [](small_trace& t) {
       t.thread(2, just([](batch_writer& out) { out.write<event::proc_steal>(1011, 0, 1, 1); }));
     }},
    {"StealFromTheWrongThread", "taken from thread 44, which does not exist",
     [](small_trace& t) {
       t.thread(1, just([](batch_writer& out) { out.write<event::go_syscall_begin>(1011, 1, 0); }));
       t.thread(2, just([](batch_writer& out) { out.write<event::proc_steal>(1012, 0, 2, 44); }));
     }},
    {"CallWithWrongSequence", "P 0 comes with number 5 after 0",
     [](small_trace& t) {
       t.thread(1, just([](batch_writer& out) { out.write<event::go_syscall_begin>(1011, 5, 0); }));
     }},
    {"EndOfNoCall", "goroutine 1 is not in a system call",
     [](small_trace& t) {
       t.thread(1, just([](batch_writer& out) { out.write<event::go_syscall_end>(1011); }));
     }},
    {"OtherStatus", "goroutine 1 is said to be waiting, but it is running",
     [](small_trace& t) {
       t.thread(1, just([](batch_writer& out) {
                  out.write<event::go_status>(1011, 1, trace::k_nobody, g_status::waiting);
                }));
     }},
    {"NoSuchStatus", "unknown status 9",
     [](small_trace& t) {
       t.thread(1, just([](batch_writer& out) { out.write<event::go_status>(1011, 7, 1, 9); }));
     }},
    {"LateGoroutine", "neither created nor listed",
     [](small_trace& t) {
       t.end_generation().begin_generation(2);
       t.thread(1, just([](batch_writer& out) {
                  out.write<event::go_status>(1011, 77, trace::k_nobody, g_status::waiting);
                }));
     }},
    {"NoStatusInThisGeneration", "no status in this generation",
     [](small_trace& t) {
       t.end_generation().begin_generation(2);
       t.thread(1, just([](batch_writer& out) { out.write<event::go_unblock>(1011, 2, 1, 0); }));
     }},
    {"UnknownString", "GoLabel with unknown string 5",
     [](small_trace& t) {
       t.thread(1, just([](batch_writer& out) { out.write<event::go_label>(1011, 5); }));
     }},
    {"UnknownStack", "GoStop with unknown stack 6",
     [](small_trace& t) {
       t.thread(1, just([](batch_writer& out) { out.write<event::go_stop>(1011, 0, 6); }));
     }},
    {"StringTwice", "string 1 is defined twice",
     [](small_trace& t) {
       t.strings({{1, "a"}, {1, "a"}});
     }},
    {"StringZero", "string 0 stands for the empty one",
     [](small_trace& t) {
       t.strings({{0, "a"}});
     }},
    {"RegionsCross", "the region \"b\" of goroutine 1 ends inside \"a\"",
     [](small_trace& t) {
       t.strings({{1, "a"}, {2, "b"}});
       t.thread(1, just([](batch_writer& out) {
                  out.write<event::region_begin>(1011, 0, 1, 0);
                  out.write<event::region_end>(1012, 0, 2, 0);
                }));
     }},
    {"TaskTwice", "task 4 is under way already",
     [](small_trace& t) {
       t.thread(1, just([](batch_writer& out) {
                  out.write<event::task_begin>(1011, 4, 0, 0, 0);
                  out.write<event::task_begin>(1012, 4, 0, 0, 0);
                }));
     }},
    {"PauseThatNeverBegan", "it never began",
     [](small_trace& t) {
       t.thread(1, just([](batch_writer& out) { out.write<event::stw_end>(1011); }));
     }},
    {"TwoClocks", "two frequencies", [](small_trace& t) { t.begin_generation(1); }},
    {"NotABatch", "here should be a batch", [](small_trace& t) { t.raw({0x77}); }},
    {"GenerationZero", "generation 0",
     [](small_trace& t) {
       t.raw({1, 0, 1, 1, 0});
     }},
    {"MixedGenerations", "a batch of generation 9 among those of generation 1",
     [](small_trace& t) {
       t.raw({1, 9, 1, 1, 0});
     }},
    {"TooLarge", "the most is 65536",
     [](small_trace& t) {
       t.raw({1, 1, 1, 1, 0x81, 0x80, 0x04});
     }},
    {"UnknownEvent", "byte 60 is not an event",
     [](small_trace& t) {
       t.raw({1, 1, 1, 1, 2, 60, 0});
     }},
    {"CutEvent", "GoStart runs over its batch",
     [](small_trace& t) {
       t.raw({1, 1, 1, 1, 2, 16, 0});
     }},
    {"HugeNumber", "more than 64 bits",
     [](small_trace& t) {
       t.raw({1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 1, 0});
     }},
};

INSTANTIATE_TEST_SUITE_P(Each, TraceMistakes, ::testing::ValuesIn(k_mistakes),
                         [](const auto& test) { return test.param.name; });

TEST(TraceReader, NamesWhatIsNoTrace) {
  const auto said = [](std::string text) { return read({text.begin(), text.end()}).error; };
  EXPECT_EQ(said(""), "the file is empty");
  EXPECT_EQ(said("go 1"), "the file ends in its header");
  EXPECT_EQ(said("go 1.26 tr"), "the file ends in its header");
  const std::string none = "this is not a trace: it does not begin with \"go 1.NN trace\"";
  EXPECT_EQ(said("ELF and so on, long enough"), none);
  EXPECT_EQ(said("g++"), none);
  EXPECT_EQ(said("go 1.26 drums"), none);
  EXPECT_THAT(said(std::string("go 1.24 trace\0\0\0", 16)), HasSubstr("version go 1.24"));
  EXPECT_EQ(said(std::string("go 1.26 trace\0\0\0", 16)), "");
}

TEST(TraceReader, NeedsTheClockOfEachGeneration) {
  const auto header = trace::file_header(trace::version::go123);
  std::vector<std::uint8_t> file(header.begin(), header.end());
  file.insert(file.end(), {1, 1, 1, 1, 0});
  EXPECT_EQ(read(file).error, "generation 1 has no frequency");
}

// Go's own parser has the last word.

// N of the installed go1.N; 0: there is none.
int go_version() {
  std::FILE* const said = popen("go env GOVERSION 2>/dev/null", "r");
  int minor = 0;
  if (said != nullptr) {
    if (std::fscanf(said, "go1.%d", &minor) != 1) minor = 0;
    pclose(said);
  }
  return minor;
}

TEST(TraceFormat, GoAcceptsWhatWeWrite) {
  const int newest = go_version();
  if (newest < 24) GTEST_SKIP() << "needs Go 1.24 or newer";
  const auto folder = std::filesystem::temp_directory_path() /
                      ("magpie_trace_test_" + std::to_string(std::random_device{}()));
  std::filesystem::create_directory(folder);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    trace_recipe recipe;
    recipe.seed = 1000 + seed;
    recipe.events = 400;
    recipe.format = seed % 2 == 0 || newest < 26 ? trace::version::go123 : trace::version::go126;
    recipe.threads = 1 + static_cast<int>(seed % 9);
    recipe.skew = seed % 5 == 0 ? 100'000 : 0;
    const std::vector<std::uint8_t> bytes = trace_maker(recipe).make();
    const std::string name = (folder / "trace").string();
    std::ofstream(name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    const std::string log = (folder / "log").string();
    const int code =
        std::system(("go tool trace -d=parsed " + name + " >/dev/null 2>" + log).c_str());
    std::ifstream said(log);
    ASSERT_EQ(code, 0) << "seed " << recipe.seed << ": "
                       << std::string(std::istreambuf_iterator<char>(said), {});
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace magpie::rt
