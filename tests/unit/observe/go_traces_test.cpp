// Traces that Go wrote, read by our reader.

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "observe/trace_reader.h"
#include "observe/trace_summary.h"

namespace magpie::rt {
namespace {

std::vector<std::uint8_t> load(const std::string& name) {
  std::ifstream in(std::string(MAGPIE_TEST_DATA_DIR) + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct expected {
  const char* name;
  std::uint64_t events;  // as Go's own reader counts them
};

class GoTraces : public ::testing::TestWithParam<expected> {};

TEST_P(GoTraces, AreReadAsGoReadsThem) {
  const std::vector<std::uint8_t> bytes = load(GetParam().name);
  ASSERT_FALSE(bytes.empty());
  trace_reader reader(bytes);
  trace_summary summary(reader);
  for (trace_event event; reader.next(event);) summary.add(event);
  summary.finish();
  ASSERT_EQ(reader.error(), nullptr) << reader.error()->what << " at " << reader.error()->offset;
  EXPECT_EQ(summary.events(), GetParam().events);
  EXPECT_GT(summary.time_in(activity::running), 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Each, GoTraces,
    ::testing::Values(expected{"go_annotated.trace", 891}, expected{"go_exec.trace", 240},
                      expected{"go_gc.trace", 1254}, expected{"go_locks.trace", 197},
                      expected{"go_network.trace", 3346}, expected{"go_pingpong.trace", 1238},
                      expected{"go_procs.trace", 1424}, expected{"go_spin.trace", 333},
                      expected{"go_syscalls.trace", 1279}),
    [](const auto& test) {
      std::string name = test.param.name;
      return name.substr(0, name.find('.'));
    });

TEST(TraceSummary, SaysWhereTimeGoes) {
  const std::vector<std::uint8_t> bytes = load("go_spin.trace");
  trace_reader reader(bytes);
  trace_summary summary(reader);
  for (trace_event event; reader.next(event);) summary.add(event);
  summary.finish();
  // Five goroutines turn on two Ps for more than a second, so somebody always waits for one.
  EXPECT_EQ(reader.generations(), 2u);
  EXPECT_GT(summary.duration(), 1'000'000'000u);
  EXPECT_GT(summary.time_in(activity::running), summary.duration());
  EXPECT_GT(summary.time_in(activity::runnable), summary.duration());
  EXPECT_GT(summary.latency().count(), 100u);
  std::ostringstream text;
  summary.print(text);
  for (const char* const part :
       {"main.spin.func1", "preempted", "P 0", "From runnable to running"}) {
    EXPECT_NE(text.str().find(part), std::string::npos) << text.str();
  }
}

TEST(DurationHistogram, PutsPowersOfTwoInTheirBuckets) {
  duration_histogram histogram;
  EXPECT_EQ(histogram.quantile(0.5), 0u);
  for (const std::uint64_t nanos : {0u, 1u, 2u, 3u, 1000u}) histogram.add(nanos);
  EXPECT_EQ(histogram.buckets()[0], 2u);
  EXPECT_EQ(histogram.buckets()[1], 2u);
  EXPECT_EQ(histogram.buckets()[9], 1u);
  EXPECT_EQ(histogram.quantile(0.5), 2u);
  EXPECT_EQ(histogram.quantile(1), 1000u) << "not above the largest";
  histogram.add(~std::uint64_t{0});
  EXPECT_EQ(histogram.quantile(1), ~std::uint64_t{0});
}

TEST(DurationHistogram, QuantilesAreNoCruderThanTheTextOfThem) {
  duration_histogram histogram;
  for (std::uint64_t i = 1; i <= 1000; ++i) histogram.add(1000 * i);
  for (const double share : {0.01, 0.5, 0.9, 0.99}) {
    const double right = 1e6 * share;
    EXPECT_GE(static_cast<double>(histogram.quantile(share)), right);
    EXPECT_LE(static_cast<double>(histogram.quantile(share)), right * 513 / 512);
  }
}

TEST(DurationText, HasThreeDigits) {
  EXPECT_EQ(duration_text(0), "0ns");
  EXPECT_EQ(duration_text(999), "999ns");
  EXPECT_EQ(duration_text(1500), "1.5us");
  EXPECT_EQ(duration_text(12'345'678), "12.3ms");
  EXPECT_EQ(duration_text(2'000'000'000), "2s");
}

}  // namespace
}  // namespace magpie::rt
