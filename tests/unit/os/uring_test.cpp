#include "os/uring.h"

#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "interrupt.h"
#include "refuse_syscall.h"

namespace magpie::rt::os {
namespace {

constexpr std::int64_t k_for_ever = -1;
constexpr std::int64_t k_millisecond = 1'000'000;

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

bool is_forbidden(error failure) {
  return failure == error{ENOSYS} || failure == error{EPERM} || failure == error{EACCES};
}

class Uring : public testing::Test {
 protected:
  void SetUp() override { make(8); }

  void make(unsigned entries, const uring_options& options = {}) {
    auto created = uring::create(entries, options);
    if (!created && is_forbidden(created.error())) {
      GTEST_SKIP() << "the kernel refuses io_uring: " << error_name(created.error());
    }
    ASSERT_TRUE(created) << error_name(created.error());
    ring_.emplace(std::move(*created));
  }

  io_uring_sqe& next() {
    io_uring_sqe* const request = ring_->next_submission();
    if (request == nullptr) throw std::runtime_error("submission queue full");
    return *request;
  }

  // Submits and returns the next `count` completions in order.
  std::vector<uring_completion> complete(unsigned count) {
    std::vector<uring_completion> all;
    while (all.size() < count) {
      const auto outcome = ring_->submit_and_wait(1, k_for_ever);
      EXPECT_TRUE(outcome) << error_name(outcome.error());
      if (!outcome) break;
      uring_completion part[4];
      const std::size_t got = ring_->reap(
          std::span(part).first(std::min<std::size_t>(std::size(part), count - all.size())));
      all.insert(all.end(), part, part + got);
    }
    return all;
  }

  // The same by token.
  std::map<std::uint64_t, int> results(unsigned count) {
    std::map<std::uint64_t, int> by_token;
    for (const uring_completion& done : complete(count)) by_token[done.token] = done.result;
    return by_token;
  }

  bool nothing_left() {
    uring_completion one[1];
    return ring_->reap(one) == 0;
  }

  std::optional<uring> ring_;
};

file_descriptor temporary_file() {
  char path[] = "/tmp/magpie_uring_test_XXXXXX";
  file_descriptor file(mkstemp(path));
  unlink(path);
  return file;
}

using token_results = std::map<std::uint64_t, int>;

TEST_F(Uring, BatchOfNopsCompletesInOrderWithItsTokens) {
  constexpr std::uint64_t base = 0xfedc'ba98'7654'3210;
  for (std::uint64_t i = 0; i < 8; ++i) prepare_nop(next(), base + i);
  const auto submitted = ring_->submit();
  ASSERT_TRUE(submitted);
  EXPECT_EQ(*submitted, 8u);
  EXPECT_EQ(ring_->ready(), 8u) << "a nop completes while it is submitted";

  uring_completion done[16];
  ASSERT_EQ(ring_->reap(done), 8u);
  for (std::uint64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(done[i].token, base + i);
    EXPECT_EQ(done[i].result, 0);
  }
  EXPECT_EQ(ring_->ready(), 0u);
  EXPECT_TRUE(nothing_left());
}

TEST_F(Uring, SubmittingNothingIsNoError) {
  const auto submitted = ring_->submit();
  ASSERT_TRUE(submitted);
  EXPECT_EQ(*submitted, 0u);
}

TEST_F(Uring, EntriesAreRoundedUpToAPowerOfTwo) {
  make(5, {.completion_entries = 33});
  EXPECT_EQ(ring_->submission_entries(), 8u);
  EXPECT_EQ(ring_->completion_entries(), 64u);
}

TEST_F(Uring, ImpossibleSizesAreErrorsUnlessClamped) {
  EXPECT_EQ(uring::create(0).error(), error{EINVAL});
  EXPECT_EQ(uring::create(1U << 30).error(), error{EINVAL});
  const auto clamped = uring::create(1U << 30, {.setup = uring_setup::clamp});
  if (!clamped && clamped.error() == error{ENOMEM}) {
    GTEST_SKIP() << "not enough lockable memory for the largest ring";
  }
  ASSERT_TRUE(clamped) << error_name(clamped.error());
  EXPECT_GT(clamped->submission_entries(), 8u);
}

TEST_F(Uring, UnknownSetupBitsAreErrors) {
  EXPECT_EQ(uring::create(8, {.setup = uring_setup{1U << 31}}).error(), error{EINVAL});
}

TEST_F(Uring, FullQueueGivesNoSlotUntilSubmitted) {
  for (std::uint64_t i = 0; i < 8; ++i) prepare_nop(next(), i);
  EXPECT_EQ(ring_->next_submission(), nullptr);
  EXPECT_EQ(ring_->next_submission(), nullptr);
  ASSERT_TRUE(ring_->submit());
  io_uring_sqe* const request = ring_->next_submission();
  ASSERT_NE(request, nullptr);
  prepare_nop(*request, 8);
  EXPECT_EQ(complete(9).back().token, 8u);
}

TEST_F(Uring, SlotsComeCleared) {
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 8; ++i) {
      io_uring_sqe& request = next();
      const io_uring_sqe cleared = {};
      EXPECT_EQ(memcmp(&request, &cleared, sizeof request), 0);
      prepare_fsync(request, -1, uring_sync::data, ~std::uint64_t{0});
    }
    complete(8);
  }
}

TEST_F(Uring, WritesAndReadsAFile) {
  const file_descriptor file = temporary_file();
  ASSERT_TRUE(file);
  prepare_write(next(), file.get(), bytes("hello, magpie"), 0, 1);
  EXPECT_EQ(results(1), (token_results{{1, 13}}));

  std::string text(6, '?');
  prepare_read(next(), file.get(), std::as_writable_bytes(std::span(text)), 7, 2);
  EXPECT_EQ(results(1), (token_results{{2, 6}}));
  EXPECT_EQ(text, "magpie");

  prepare_read(next(), file.get(), std::as_writable_bytes(std::span(text)), 13, 3);
  EXPECT_EQ(results(1), (token_results{{3, 0}})) << "the end of the file";
}

TEST_F(Uring, CurrentPositionReadsPipesAndContinuesFiles) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  std::string text(3, '?');
  prepare_read(next(), pipe->read_end.get(), std::as_writable_bytes(std::span(text)),
               k_current_position, 1);
  prepare_write(next(), pipe->write_end.get(), bytes("abc"), k_current_position, 2);
  EXPECT_EQ(results(2), (token_results{{1, 3}, {2, 3}}));
  EXPECT_EQ(text, "abc");

  const file_descriptor file = temporary_file();
  for (const std::uint64_t token : {3U, 4U}) {
    prepare_write(next(), file.get(), bytes("xy"), k_current_position, token);
    EXPECT_EQ(results(1), (token_results{{token, 2}}));
  }
  EXPECT_EQ(::lseek(file.get(), 0, SEEK_CUR), 4);
}

TEST_F(Uring, SyncsAFile) {
  const file_descriptor file = temporary_file();
  prepare_write(next(), file.get(), bytes("safe"), 0, 1);
  EXPECT_EQ(results(1), (token_results{{1, 4}}));
  prepare_fsync(next(), file.get(), uring_sync::data_and_metadata, 2);
  prepare_fsync(next(), file.get(), uring_sync::data, 3);
  EXPECT_EQ(results(2), (token_results{{2, 0}, {3, 0}}));
}

TEST_F(Uring, FailuresAreNegativeErrnoValues) {
  std::byte byte[1];
  prepare_read(next(), -1, byte, 0, 1);
  EXPECT_EQ(results(1), (token_results{{1, -EBADF}}));
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  prepare_fsync(next(), pipe->read_end.get(), uring_sync::data, 2);
  EXPECT_EQ(results(1), (token_results{{2, -EINVAL}}));
}

TEST_F(Uring, RefusedRequestDoesNotStopThoseBehindIt) {
  prepare_nop(next(), 1);
  io_uring_sqe& unknown = next();
  prepare_nop(unknown, 2);
  unknown.opcode = 255;
  prepare_nop(next(), 3);
  prepare_nop(next(), 4);
  const auto submitted = ring_->submit();
  ASSERT_TRUE(submitted) << error_name(submitted.error());
  EXPECT_EQ(*submitted, 4u);
  EXPECT_EQ(results(4), (token_results{{1, 0}, {2, -EINVAL}, {3, 0}, {4, 0}}));
}

TEST_F(Uring, WaitingGoesOnBehindARefusedRequest) {
  io_uring_sqe& unknown = next();
  prepare_nop(unknown, 1);
  unknown.opcode = 255;
  prepare_nop(next(), 2);
  const auto ready = ring_->submit_and_wait(2, k_for_ever);
  ASSERT_TRUE(ready);
  EXPECT_EQ(*ready, 2u);
}

TEST_F(Uring, PollCompletesWhenThePipeIsReadable) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  prepare_poll_add(next(), pipe->read_end.get(), POLLIN, 5);
  ASSERT_TRUE(ring_->submit());
  EXPECT_TRUE(nothing_left());
  ASSERT_TRUE(write(pipe->write_end.get(), bytes("x")));
  const auto by_token = results(1);
  ASSERT_EQ(by_token.count(5), 1u);
  EXPECT_EQ(by_token.at(5) & POLLIN, POLLIN);
}

TEST_F(Uring, CancelStopsTheRequestWithThatToken) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  prepare_poll_add(next(), pipe->read_end.get(), POLLIN, 5);
  prepare_poll_add(next(), pipe->read_end.get(), POLLIN, 6);
  ASSERT_TRUE(ring_->submit());
  prepare_cancel(next(), 5, 7);
  EXPECT_EQ(results(2), (token_results{{5, -ECANCELED}, {7, 0}}));
  EXPECT_TRUE(nothing_left()) << "the other request is still in flight";
}

TEST_F(Uring, CancelOfNothingIsEnoent) {
  prepare_cancel(next(), 5, 7);
  EXPECT_EQ(results(1), (token_results{{7, -ENOENT}}));
}

// The remains of another test's ring may interrupt a wait, but not each of them.
TEST_F(Uring, TimeoutEndsAWaitForNothing) {
  constexpr auto timeout = std::chrono::milliseconds(2);
  bool lasted = false;
  for (int attempt = 0; attempt < 100 && !lasted; ++attempt) {
    const auto start = std::chrono::steady_clock::now();
    const auto ready = ring_->submit_and_wait(1, std::chrono::nanoseconds(timeout).count());
    lasted = std::chrono::steady_clock::now() - start >= timeout;
    ASSERT_TRUE(ready) << error_name(ready.error());
    EXPECT_EQ(*ready, 0u);
  }
  EXPECT_TRUE(lasted);
}

TEST_F(Uring, TimeoutOfZeroOnlyLooks) {
  auto ready = ring_->submit_and_wait(1, 0);
  ASSERT_TRUE(ready);
  EXPECT_EQ(*ready, 0u);
  prepare_nop(next(), 1);
  ready = ring_->submit_and_wait(5, 0);
  ASSERT_TRUE(ready);
  EXPECT_EQ(*ready, 1u) << "it submits nevertheless";
}

TEST_F(Uring, TimeoutCountsWhatCameInTime) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  prepare_nop(next(), 1);
  prepare_poll_add(next(), pipe->read_end.get(), POLLIN, 2);
  const auto ready = ring_->submit_and_wait(2, k_millisecond);
  ASSERT_TRUE(ready) << error_name(ready.error());
  EXPECT_EQ(*ready, 1u);
}

TEST_F(Uring, CompletionEndsAWaitOfYears) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  prepare_poll_add(next(), pipe->read_end.get(), POLLIN, 1);
  unsigned ready = 0;
  std::thread waiter([&] {
    const auto outcome = ring_->submit_and_wait(1, std::numeric_limits<std::int64_t>::max());
    ready = outcome ? *outcome : 0;
  });
  EXPECT_TRUE(write(pipe->write_end.get(), bytes("x")));
  waiter.join();
  EXPECT_EQ(ready, 1u);
}

TEST_F(Uring, SignalEndsAWaitWithWhatIsReady) {
  const counted_interrupts interrupts;
  std::optional<result<unsigned>> outcome;
  std::atomic<bool> ended{false};
  std::thread waiter([&] {
    outcome = ring_->submit_and_wait(1, k_for_ever);
    ended = true;
  });
  counted_interrupts::interrupt_until(waiter, [&] { return ended.load(); });
  waiter.join();
  ASSERT_TRUE(*outcome) << error_name(outcome->error());
  EXPECT_EQ(**outcome, 0u);
}

TEST_F(Uring, CompletionsThatOverflowTheRingAreKept) {
  make(4, {.completion_entries = 4});
  if (!ring_->keeps_overflow()) GTEST_SKIP() << "this kernel drops completions (before 5.5)";
  constexpr std::uint64_t count = 4 * 25;
  for (std::uint64_t token = 0; token < count; token += 4) {
    for (std::uint64_t i = 0; i < 4; ++i) prepare_nop(next(), token + i);
    const auto submitted = ring_->submit();
    if (!submitted && submitted.error() == error{EBUSY}) {
      GTEST_SKIP() << "this kernel takes nothing while completions overflow (before 5.19)";
    }
    ASSERT_TRUE(submitted);
  }
  EXPECT_EQ(ring_->ready(), 4u);
  uring_completion done[count + 1];
  ASSERT_EQ(ring_->reap(done), count);
  for (std::uint64_t token = 0; token < count; ++token) EXPECT_EQ(done[token].token, token);
}

TEST_F(Uring, IndicesWrapAroundTheRingManyTimes) {
  std::uint64_t submitted = 0;
  std::uint64_t reaped = 0;
  while (reaped < 200'000) {
    // Changing batch sizes, so that batches begin in every slot and cross the end of the ring.
    const std::uint64_t batch = 1 + submitted % 7;
    for (std::uint64_t i = 0; i < batch; ++i) prepare_nop(next(), submitted++);
    ASSERT_TRUE(ring_->submit());
    uring_completion done[8];
    const std::size_t count = ring_->reap(done);
    ASSERT_EQ(count, batch);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(done[i].token, reaped++);
  }
}

TEST_F(Uring, SubmittingAndReapingMayRunAtOnce) {
  constexpr std::uint64_t count = 100'000;
  std::uint64_t reaped = 0;
  std::uint64_t out_of_place = 0;
  std::thread reaper([&] {
    uring_completion done[16];
    while (reaped < count) {
      const std::size_t got = ring_->reap(done);
      for (std::size_t i = 0; i < got; ++i) out_of_place += done[i].token != reaped++;
      if (got == 0) std::this_thread::yield();
    }
  });
  for (std::uint64_t token = 0; token < count;) {
    if (io_uring_sqe* const request = ring_->next_submission()) prepare_nop(*request, token++);
    if (token % 5 == 0 || token == count) (void)ring_->submit();  // EBUSY: again next time
    while (ring_->ready() > 4) std::this_thread::yield();
  }
  while (const auto left = ring_->submit()) {
    if (*left == 0) break;
  }
  reaper.join();
  EXPECT_EQ(out_of_place, 0u);
}

TEST_F(Uring, OlderKernelsMappingsWorkToo) {
  make(8, {.mappings = uring_mappings::separate});
  for (std::uint64_t token = 0; token < 1000; ++token) {
    prepare_nop(next(), token);
    EXPECT_EQ(results(1), (token_results{{token, 0}}));
  }
}

TEST_F(Uring, DeferredCompletionsAreFetchedByReap) {
  const uring_setup deferred =
      uring_setup::single_issuer | uring_setup::defer_taskrun | uring_setup::taskrun_flag;
  const auto probe = uring::create(8, {.setup = deferred});
  if (!probe) GTEST_SKIP() << "this kernel does not defer completions (before 6.1)";
  make(8, {.setup = deferred});
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  prepare_poll_add(next(), pipe->read_end.get(), POLLIN, 1);
  ASSERT_TRUE(ring_->submit());
  ASSERT_TRUE(write(pipe->write_end.get(), bytes("x")));
  uring_completion done[2];
  EXPECT_EQ(ring_->reap(done), 1u);
  EXPECT_EQ(done[0].token, 1u);
}

TEST_F(Uring, SupportsWhatItCanPrepare) {
  for (const auto operation :
       {uring_operation::nop, uring_operation::fsync, uring_operation::poll_add,
        uring_operation::cancel, uring_operation::read, uring_operation::write}) {
    EXPECT_TRUE(ring_->supports(operation)) << static_cast<int>(operation);
  }
  EXPECT_FALSE(ring_->supports(uring_operation{255}));
}

TEST_F(Uring, EventfdCountsCompletions) {
  auto event = make_eventfd(fd_mode::nonblocking);
  ASSERT_TRUE(event);
  ASSERT_FALSE(ring_->register_eventfd(event->get()));
  EXPECT_EQ(ring_->register_eventfd(event->get()), error{EBUSY});
  prepare_nop(next(), 1);
  complete(1);
  std::uint64_t count = 0;
  ASSERT_TRUE(read(event->get(), std::as_writable_bytes(std::span(&count, 1))));
  EXPECT_EQ(count, 1u);

  ASSERT_FALSE(ring_->unregister_eventfd());
  prepare_nop(next(), 2);
  complete(1);
  EXPECT_EQ(read(event->get(), std::as_writable_bytes(std::span(&count, 1))).error(),
            error{EAGAIN});
}

TEST_F(Uring, DescriptorIsReadableWhenACompletionIsReady) {
  pollfd descriptor{.fd = ring_->fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&descriptor, 1, 0), 0);
  prepare_nop(next(), 1);
  ASSERT_TRUE(ring_->submit());
  EXPECT_EQ(::poll(&descriptor, 1, -1), 1);
}

TEST_F(Uring, MovedRingGoesOn) {
  prepare_nop(next(), 1);
  uring moved(std::move(*ring_));
  ring_.emplace(std::move(moved));
  EXPECT_EQ(results(1), (token_results{{1, 0}}));
  auto other = uring::create(2);
  ASSERT_TRUE(other);
  *ring_ = std::move(*other);
  EXPECT_EQ(ring_->submission_entries(), 2u);
  prepare_nop(next(), 2);
  EXPECT_EQ(results(1), (token_results{{2, 0}}));
}

long count_open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

int count_ring_mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("io_uring") != line.npos;
  return count;
}

TEST_F(Uring, DestroyedRingsLeaveNothingBehind) {
  ring_.reset();
  const long descriptors = count_open_descriptors();
  const int mappings = count_ring_mappings();
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  for (int i = 0; i < 50; ++i) {
    make(8, {.mappings = i % 2 == 0 ? uring_mappings::fewest : uring_mappings::separate});
    EXPECT_GT(count_ring_mappings(), mappings);
    // One request in flight, one prepared only.
    prepare_poll_add(next(), pipe->read_end.get(), POLLIN, 1);
    ASSERT_TRUE(ring_->submit());
    prepare_nop(next(), 2);
    ring_.reset();
  }
  *pipe = {};
  EXPECT_EQ(count_open_descriptors(), descriptors);
  EXPECT_EQ(count_ring_mappings(), mappings);
}

TEST(UringRefused, RefusalIsAnErrorValue) {
  for (const int code : {ENOSYS, EPERM}) {
    error outcome;
    if (!run_refused(SYS_io_uring_setup, static_cast<unsigned>(code),
                     [&] { outcome = uring::create(8).error(); })) {
      GTEST_SKIP() << "no seccomp filters here to refuse io_uring with";
    }
    EXPECT_EQ(outcome, error{code});
  }
}

}  // namespace
}  // namespace magpie::rt::os
