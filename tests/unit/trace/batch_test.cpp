#include "trace/batch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace magpie::rt::trace {
namespace {

std::vector<std::uint8_t> bytes(std::span<const std::uint8_t> from) {
  return {from.begin(), from.end()};
}

TEST(TraceBatch, TheHeaderNamesTheVersion) {
  const auto header = file_header(version::go126);
  EXPECT_EQ(std::string(header.begin(), header.end()), std::string("go 1.26 trace\0\0\0", 16));
}

// The bytes of the smallest file, worked out by hand.
TEST(TraceBatch, EventsHaveTheirKnownBytes) {
  std::vector<std::uint8_t> memory(k_min_batch_memory);
  batch_writer out;
  out.begin_events(memory, 1, 7, 78'125'014);
  EXPECT_TRUE(out.empty());
  ASSERT_TRUE(out.write<event::proc_status>(78'125'015, 0, p_status::running));
  ASSERT_TRUE(out.write<event::go_status>(78'125'031, 1, 7, g_status::running));
  EXPECT_FALSE(out.empty());
  EXPECT_EQ(bytes(out.finish()),
            (std::vector<std::uint8_t>{0x01, 0x01, 0x07, 0xd6, 0xaf, 0xa0, 0x25, 0x89, 0x80, 0x00,
                                       0x0d, 0x01, 0x00, 0x01, 0x19, 0x10, 0x01, 0x07, 0x02}));
}

TEST(TraceBatch, ASyncBatchHasWhatItsVersionAsksFor) {
  std::uint8_t memory[k_max_sync_batch];
  const clock_reading clock{15'625'000, 78'125'000, 5'000'000'000, 1'700'000'000, 0};
  const std::size_t old = write_sync(memory, version::go123, 1, clock);
  EXPECT_EQ(bytes({memory, old}),
            (std::vector<std::uint8_t>{0x01, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                       0xff, 0xff, 0xff, 0x01, 0xc8, 0xaf, 0xa0, 0x25,
                                       0x05, 0x08, 0xa8, 0xd6, 0xb9, 0x07}));
  const std::size_t with_clock = write_sync(memory, version::go126, 1, clock);
  EXPECT_EQ(memory[16], 0x13);  // 19 bytes follow
  EXPECT_EQ(memory[17], 0x32);
  EXPECT_EQ(with_clock, 17u + 0x13);
}

TEST(TraceBatch, AnEventThatDoesNotFitIsNotWritten) {
  std::vector<std::uint8_t> memory(k_min_batch_memory);
  batch_writer out;
  out.begin_events(memory, 1, 7, 100);
  std::uint64_t written = 0;
  while (out.write<event::go_start>(100 + written, written, 1)) ++written;
  EXPECT_GT(written, 100u);
  const std::size_t size = out.finish().size();
  EXPECT_LE(size, memory.size());
  EXPECT_EQ(out.last(), 100 + written - 1);
}

TEST(TraceBatch, APayloadStopsAtWhatReadersTake) {
  std::vector<std::uint8_t> memory(3 * k_max_batch_payload);
  batch_writer out;
  out.begin_events(memory, 1, 7, 100);
  while (out.write<event::go_destroy>(100)) {
  }
  EXPECT_LE(out.finish().size(), k_max_batch_payload + k_max_batch_header);
}

TEST(TraceBatch, AClockThatGoesBackStandsStill) {
  std::vector<std::uint8_t> memory(k_min_batch_memory);
  batch_writer out;
  out.begin_events(memory, 1, 7, 100);
  out.write<event::go_destroy>(110);
  out.write<event::go_destroy>(105);
  EXPECT_EQ(out.last(), 110u);
  const auto all = out.finish();
  EXPECT_EQ(all[all.size() - 1], 0);
  EXPECT_EQ(all[all.size() - 3], 10);
}

TEST(TraceBatch, LongStringsAreCutBetweenCharacters) {
  std::vector<std::uint8_t> memory(k_min_batch_memory);
  batch_writer out;
  out.begin_strings(memory, 1, 100);
  std::string text(k_max_string - 1, 'x');
  text += "\xc3\xa4 and more";  // an umlaut across the limit
  ASSERT_TRUE(out.write_string(1, text));
  const auto all = bytes(out.finish());
  EXPECT_EQ(all.back(), 'x');
}

TEST(TraceBatch, ADeepStackKeepsItsRoot) {
  std::vector<std::uint8_t> memory(k_min_batch_memory);
  batch_writer out;
  out.begin_stacks(memory, 1, 100);
  std::vector<frame> frames;
  for (std::uint64_t i = 0; i < 200; ++i) frames.push_back({i, 1, 2, 3});
  ASSERT_TRUE(out.write_stack(1, frames));
  const auto all = bytes(out.finish());
  // The last frame is pc 199 as two bytes, then 1, 2, 3.
  EXPECT_EQ((std::vector<std::uint8_t>(all.end() - 5, all.end())),
            (std::vector<std::uint8_t>{0xc7, 0x01, 1, 2, 3}));
}

TEST(TraceFormat, EventsKnowTheirArguments) {
  EXPECT_STREQ(facts_of(event::go_block).name, "GoBlock");
  EXPECT_EQ(facts_of(event::go_block).arguments, 3);
  EXPECT_EQ(facts_of(event::frequency).name, nullptr);
  EXPECT_EQ(facts_of(static_cast<event>(200)).name, nullptr);
  for (const event_facts& facts : detail::k_facts) {
    EXPECT_LE(facts.arguments, k_max_arguments + 1);
    for (int i = 0; i < 2; ++i) {
      EXPECT_LT(facts.strings[i], facts.arguments == 0 ? 1 : facts.arguments);
      EXPECT_LT(facts.stacks[i], facts.arguments == 0 ? 1 : facts.arguments);
    }
  }
}

}  // namespace
}  // namespace magpie::rt::trace
