#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

#include "observe/trace_reader.h"
#include "trace/place.h"
#include "trace/recorder.h"
#include "trace/tables.h"

namespace magpie {
namespace {

// The events of a trace; its strict reader must accept it.
std::size_t events_in(const std::string& text) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  rt::trace_reader reader({bytes, text.size()});
  std::size_t events = 0;
  for (rt::trace_event event; reader.next(event);) ++events;
  EXPECT_EQ(reader.error(), nullptr) << reader.error()->what;
  return events;
}

void do_something() {
  run([] {
    wait_group all;
    for (int i = 0; i < 10; ++i) all.go([] { this_goroutine::yield(); });
    all.wait();
  });
}

TEST(Trace, OneAtATime) {
  std::ostringstream first, second;
  trace::stop();  // nothing
  EXPECT_FALSE(trace::enabled());
  trace::start(first);
  EXPECT_TRUE(trace::enabled());
  EXPECT_THROW(trace::start(second), misuse);
  EXPECT_THROW(trace::start("/tmp/never_written"), misuse);
  do_something();
  trace::stop();
  EXPECT_FALSE(trace::enabled());
  EXPECT_GT(events_in(first.str()), 30u);
  EXPECT_TRUE(second.str().empty());
}

TEST(Trace, MayBeginAgain) {
  for (int i = 0; i < 20; ++i) {
    std::ostringstream to;
    trace::start(to);
    do_something();
    trace::stop();
    EXPECT_GT(events_in(to.str()), 30u);
  }
}

TEST(Trace, SaysWhenTheFileCannotBeWritten) {
  EXPECT_THROW(trace::start("/no/such/folder/trace"), std::system_error);
  EXPECT_FALSE(trace::enabled());
  trace::start("/dev/full");
  do_something();
  EXPECT_THROW(trace::stop(), std::system_error);
  EXPECT_FALSE(trace::enabled());
}

// The file of somebody else, who could go on reading it.
TEST(Trace, IsForItsOwnerOnlyThoughTheFileWasThere) {
  namespace fs = std::filesystem;
  const fs::path path = fs::temp_directory_path() / ("magpie_trace_" + std::to_string(::getpid()));
  std::ofstream(path) << "something long that was there before";
  fs::permissions(path, fs::perms(0644));
  trace::start(path);
  trace::stop();
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0600));
  fs::remove(path);
}

TEST(Trace, FromAGoroutine) {
  std::ostringstream to;
  run([&] {
    trace::start(to);
    const trace::region here("here");
    this_goroutine::yield();
    trace::log("a", "b");
    trace::stop();
  });
  EXPECT_GT(events_in(to.str()), 3u);
}

TEST(Trace, WhatAPlainThreadSaysIsPassedOver) {
  std::ostringstream to;
  trace::start(to);
  const trace::task task("t");
  const trace::region region("r");
  trace::log("a", "b");
  EXPECT_EQ(task.id(), 0u);
  trace::stop();
  events_in(to.str());
}

// Two places at the same depth of the stack, whose inner frames are the same.
[[gnu::noinline]] void say_something() {
  trace::log("test", "something");
  asm volatile("");  // no tail call
}
[[gnu::noinline]] void speak_on_the_left() {
  say_something();
  asm volatile("# left");  // the compiler may make one function of two that are equal
}
[[gnu::noinline]] void speak_on_the_right() {
  say_something();
  asm volatile("# right");
}

TEST(Trace, StacksThatDifferInAnOuterFrameAreToldApart) {
  constexpr int k_rounds = 100;
  std::ostringstream to;
  trace::start(to);
  run([] {
    for (int i = 0; i < k_rounds; ++i) {
      speak_on_the_left();
      speak_on_the_right();
    }
  });
  trace::stop();
  const std::string text = to.str();
  rt::trace_reader reader({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  int left = 0, right = 0;
  for (rt::trace_event event; reader.next(event);) {
    if (event.kind != rt::trace::event::log) continue;
    for (const rt::trace_frame& frame : reader.stack(event.arguments[3])) {
      left += frame.function.find("speak_on_the_left") != std::string_view::npos ? 1 : 0;
      right += frame.function.find("speak_on_the_right") != std::string_view::npos ? 1 : 0;
    }
  }
  EXPECT_EQ(reader.error(), nullptr);
  EXPECT_EQ(left, k_rounds);
  EXPECT_EQ(right, k_rounds);
}

// What the readers call them: by the outermost frame of a status or a birth, or by a label.
std::multiset<std::string> names_in(const std::string& text) {
  rt::trace_reader reader({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  std::multiset<std::string> names;
  for (rt::trace_event event; reader.next(event);) {
    if (event.kind == rt::trace::event::go_status_stack) {
      const auto frames = reader.stack(event.arguments[3]);
      names.emplace(frames.empty() ? "" : frames.back().function);
    }
    if (event.kind == rt::trace::event::go_label) names.emplace(reader.text(event.arguments[0]));
  }
  EXPECT_EQ(reader.error(), nullptr);
  return names;
}

struct one_who_waits {
  event& go_on;
  void operator()() const { go_on.wait(); }
};

// They were there before the trace, and every generation may be the first that is left.
TEST(Trace, ThoseWhoWaitAreListedByTheirNames) {
  event go_on;
  runtime own(config{.procs = 1});
  own.go([&go_on] {
    go(spawn_options{.name = "waiter"}, one_who_waits{go_on});
    go(one_who_waits{go_on});
  });
  while (own.read_stats().parks != 2) std::this_thread::yield();
  std::ostringstream to;
  trace::start(to);
  rt::trace::cut();
  rt::trace::cut();
  go_on.set();
  while (own.read_stats().goroutines != 0) std::this_thread::yield();
  trace::stop();
  const std::multiset<std::string> names = names_in(to.str());
  EXPECT_EQ(names.count("waiter"), 3u);
  const auto is_function = [](const std::string& name) {
    return name.find("one_who_waits") != std::string::npos;
  };
  EXPECT_EQ(std::count_if(names.begin(), names.end(), is_function), 3)
      << testing::PrintToString(names);
}

[[gnu::noinline]] void waits_with(event& go_on, int) { go_on.wait(); }
struct large_argument {
  char bytes[100];
};
[[gnu::noinline]] void waits_large(event& go_on, large_argument) { go_on.wait(); }
struct waiting_object {
  [[gnu::noinline]] void member(event& go_on) { go_on.wait(); }
};

// Not after the type of the pointer to it, nor after its arguments.
TEST(Trace, AFunctionWithArgumentsNamesItsGoroutine) {
  event go_on;
  runtime own(config{.procs = 1});
  future<void> result;
  wait_group all;
  own.go(waits_with, std::ref(go_on), 1);
  own.run([&] {
    go(waits_with, std::ref(go_on), 2);
    go(&waiting_object::member, waiting_object(), std::ref(go_on));
    all.go([&go_on] { waits_with(go_on, 3); });
    result = async(waits_with, std::ref(go_on), 4);
    go([](event& e, large_argument) { e.wait(); }, std::ref(go_on), large_argument{});
    go(waits_large, std::ref(go_on), large_argument{});
  });
  while (own.read_stats().parks < 7) std::this_thread::yield();
  std::ostringstream to;
  trace::start(to);
  trace::stop();
  go_on.set();
  result.get();
  all.wait();
  const std::multiset<std::string> names = names_in(to.str());
  const auto count = [&](const std::string& part) {
    return std::count_if(names.begin(), names.end(), [&](const std::string& name) {
      return name.find(part) != std::string::npos;
    });
  };
  const std::string shown = testing::PrintToString(names);
  EXPECT_EQ(names.size(), 7u) << shown;
  EXPECT_EQ(count("waits_with(magpie::event&, int)"), 3) << shown;
  EXPECT_EQ(count("waits_large(magpie::event&, "), 1) << shown;
  EXPECT_EQ(count("waiting_object::member(magpie::event&)"), 1) << shown;
  EXPECT_EQ(count("TestBody()::"), 2) << shown;
  EXPECT_EQ(count("magpie::detail::"), 0) << shown;
}

TEST(Trace, ANameThatIsGivenLaterIsTold) {
  std::ostringstream to;
  trace::start(to);
  run([] { this_goroutine::set_name("late name"); });
  trace::stop();
  EXPECT_EQ(names_in(to.str()).count("late name"), 1u);
}

// The last frame names the goroutine.
[[gnu::noinline]] int dive(int depth) {
  if (depth == 0) {
    trace::log("test", "deep");
    return 0;
  }
  const int below = dive(depth - 1);
  asm volatile("");
  return below + 1;
}

TEST(Trace, ADeepStackKeepsItsLastFrame) {
  std::ostringstream to;
  trace::start(to);
  run([] { dive(100); });
  trace::stop();
  const std::string text = to.str();
  rt::trace_reader reader({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  std::string last;
  for (rt::trace_event event; reader.next(event);) {
    if (event.kind == rt::trace::event::log)
      last = reader.stack(event.arguments[3]).back().function;
  }
  EXPECT_FALSE(last.empty());
  EXPECT_EQ(last.find("dive"), std::string::npos) << last;
}

// Code without frame pointers leaves anything in the chain.
TEST(FrameChain, StaysInsideTheStackAndGoesUpOnly) {
  std::uintptr_t words[16] = {};
  const auto at = [&](int i) { return reinterpret_cast<std::uintptr_t>(words + i); };
  const auto frames = [&](const void* begin, const void* low, const void* high) {
    std::vector<std::uintptr_t> pcs;
    rt::trace::frame_chain chain({.frame = begin, .low = low, .high = high});
    for (; chain.more() && pcs.size() < 10; chain.go_up()) pcs.push_back(chain.pc());
    return pcs;
  };
  using pcs = std::vector<std::uintptr_t>;
  words[2] = at(6);
  words[3] = 33;
  words[6] = at(14);
  words[7] = 77;
  words[14] = at(16);  // the end
  words[15] = 15;
  EXPECT_EQ(frames(words + 2, words, words + 16), (pcs{33, 77, 15}));
  EXPECT_EQ(frames(words + 2, words, words + 15), (pcs{33, 77})) << "half of a frame";
  EXPECT_EQ(frames(words + 2, words + 3, words + 16), pcs{}) << "below the stack";
  EXPECT_EQ(frames(words + 16, words, words + 16), pcs{}) << "above the stack";
  words[6] = at(2);
  EXPECT_EQ(frames(words + 2, words, words + 16), (pcs{33, 77})) << "downwards";
  words[6] = at(6);
  EXPECT_EQ(frames(words + 2, words, words + 16), (pcs{33, 77})) << "to itself";
  words[6] = at(14) + 1;
  EXPECT_EQ(frames(words + 2, words, words + 16), (pcs{33, 77})) << "between two words";
}

TEST(FlightRecorder, RulesOfUse) {
  trace::flight_recorder recorder(std::chrono::seconds(1), 1 << 20);
  std::ostringstream to;
  EXPECT_THROW(recorder.write_to(to), misuse);
  recorder.stop();  // nothing
  recorder.start();
  EXPECT_THROW(recorder.start(), misuse);
  do_something();
  recorder.write_to(to);
  EXPECT_GT(events_in(to.str()), 30u);
  do_something();
  std::ostringstream more;
  recorder.write_to(more);
  EXPECT_GT(events_in(more.str()), events_in(to.str()));
  recorder.stop();
  EXPECT_FALSE(recorder.enabled());
}

// More than it may keep, and more at once than fits: what is left is what was last.
TEST(FlightRecorder, KeepsAsMuchAsItMay) {
  trace::flight_recorder recorder(std::chrono::seconds(100), 1 << 20);
  recorder.start();
  run([] {
    channel<int> there, back;
    go([=] {
      while (const auto i = there.receive()) back.send(*i);
      back.close();
    });
    for (int i = 0; i < 100'000; ++i) {
      there.send(i);
      back.receive();
    }
    there.close();
    back.receive();
  });
  std::ostringstream to;
  recorder.write_to(to);
  EXPECT_GT(events_in(to.str()), 20'000u);
}

TEST(FlightRecorder, RunsBesideATraceAndAnother) {
  trace::flight_recorder a, b;
  a.start();
  do_something();
  std::ostringstream to, from_a, from_b;
  trace::start(to);
  do_something();
  b.start();
  do_something();
  a.write_to(from_a);
  a.stop();
  trace::stop();
  do_something();
  b.write_to(from_b);
  EXPECT_GT(events_in(from_a.str()), events_in(to.str()));
  EXPECT_GT(events_in(to.str()), 30u);
  EXPECT_GT(events_in(from_b.str()), 30u);
}

}  // namespace

namespace rt::trace {
namespace {

TEST(TraceTables, TheSameStackHasOneIdForAllThreads) {
  tables* const names = tables::make();
  std::vector<std::thread> threads;
  std::vector<std::vector<std::uint32_t>> ids(4);
  for (auto& mine : ids) {
    threads.emplace_back([&] {
      for (std::uintptr_t i = 1; i <= 1000; ++i) {
        const std::uintptr_t frames[] = {i, i + 1, 7};
        mine.push_back(names->stack(frames));
      }
    });
  }
  for (auto& t : threads) t.join();
  for (const auto& mine : ids) EXPECT_EQ(mine, ids[0]);
  EXPECT_EQ(std::set<std::uint32_t>(ids[0].begin(), ids[0].end()).size(), 1000u);
  EXPECT_EQ(*std::max_element(ids[0].begin(), ids[0].end()), 1000u);
  std::size_t seen = 0;
  names->visit_stacks([&](std::uint32_t, std::span<const std::uint64_t> frames) {
    ++seen;
    EXPECT_EQ(frames.size(), 3u);
  });
  EXPECT_EQ(seen, 1000u);
  names->clear();
  names->visit_stacks([](std::uint32_t, std::span<const std::uint64_t>) { FAIL(); });
}

TEST(TraceTables, FullOnesAnswerWithNothing) {
  tables* const names = tables::make();
  std::size_t without = 0;
  for (std::uintptr_t i = 1; i <= 40'000; ++i) without += names->stack({&i, 1}) == 0 ? 1 : 0;
  EXPECT_GT(without, 0u);
  EXPECT_NE(names->text_id("a"), 0u);
  EXPECT_EQ(names->text_id(""), 0u);
}

TEST(TraceProcs, NumbersAreSmallAndNotUsedTwice) {
  const std::uint32_t a = take_proc_number();
  const std::uint32_t b = take_proc_number();
  EXPECT_NE(a, b);
  give_back_proc_number(b);
  EXPECT_EQ(take_proc_number(), b);  // no trace is being written
  give_back_proc_number(b);
  give_back_proc_number(a);
}

}  // namespace
}  // namespace rt::trace
}  // namespace magpie
