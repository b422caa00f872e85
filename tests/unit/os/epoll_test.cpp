#include "os/epoll.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "interrupt.h"
#include "refuse_syscall.h"

namespace magpie::rt::os {
namespace {

constexpr std::int64_t k_for_ever = -1;
constexpr std::int64_t k_microsecond = 1'000;
constexpr std::int64_t k_millisecond = 1'000'000;
constexpr unsigned k_sys_epoll_pwait2 = 441;

void write_byte(int fd) {
  const std::byte byte[1] = {};
  ASSERT_TRUE(write(fd, byte));
}

void read_byte(int fd) {
  std::byte byte[1];
  ASSERT_TRUE(read(fd, byte));
}

// Every test runs with both system calls.
class Epoll : public testing::TestWithParam<epoll_timer> {
 protected:
  void SetUp() override {
    set_epoll_timer(GetParam());
    auto created = epoll::create();
    ASSERT_TRUE(created) << error_name(created.error());
    poller_.emplace(std::move(*created));
    auto made = make_pipe(fd_mode::nonblocking);
    ASSERT_TRUE(made) << error_name(made.error());
    pipe_ = std::move(*made);
  }
  void TearDown() override { set_epoll_timer(epoll_timer::nanoseconds); }

  int read_end() const { return pipe_.read_end.get(); }
  int write_end() const { return pipe_.write_end.get(); }

  // Waits again after EINTR: the kernel uses the way of signals for business of its own too, as
  // when an io_uring of another test in this process is torn down.
  std::vector<epoll_record> wait(std::int64_t timeout, std::size_t capacity = 16) {
    std::vector<epoll_record> records(capacity);
    auto count = poller_->wait(records, timeout);
    while (!count && count.error() == error{EINTR}) count = poller_->wait(records, timeout);
    EXPECT_TRUE(count) << error_name(count.error());
    records.resize(count ? *count : 0);
    return records;
  }

  std::optional<epoll> poller_;
  pipe_ends pipe_;
};

INSTANTIATE_TEST_SUITE_P(BothTimers, Epoll,
                         testing::Values(epoll_timer::nanoseconds, epoll_timer::milliseconds),
                         [](const auto& test) {
                           return test.param == epoll_timer::nanoseconds ? "Nanoseconds"
                                                                         : "Milliseconds";
                         });

TEST_P(Epoll, IsCloseOnExec) { EXPECT_NE(fcntl(poller_->fd(), F_GETFD) & FD_CLOEXEC, 0); }

TEST_P(Epoll, ReportsAllBitsOfTheToken) {
  constexpr std::uint64_t token = 0xfedc'ba98'7654'3210;
  ASSERT_FALSE(poller_->add(read_end(), epoll_events::readable, token));
  EXPECT_TRUE(wait(0).empty());
  write_byte(write_end());
  const auto records = wait(k_for_ever);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].token, token);
  EXPECT_EQ(records[0].events, epoll_events::readable);
}

TEST_P(Epoll, LevelTriggeredEventsComeAgainUntilConsumed) {
  ASSERT_FALSE(poller_->add(read_end(), epoll_events::readable, 1));
  write_byte(write_end());
  EXPECT_EQ(wait(0).size(), 1u);
  EXPECT_EQ(wait(0).size(), 1u);
  read_byte(read_end());
  EXPECT_TRUE(wait(0).empty());
}

TEST_P(Epoll, EdgeTriggeredEventsComeOncePerEdge) {
  ASSERT_FALSE(poller_->add(read_end(), epoll_events::readable | epoll_events::edge_triggered, 1));
  write_byte(write_end());
  EXPECT_EQ(wait(0).size(), 1u);
  EXPECT_TRUE(wait(0).empty());
  write_byte(write_end());
  EXPECT_EQ(wait(0).size(), 1u);
}

TEST_P(Epoll, OneShotEventsComeOnceUntilModified) {
  const epoll_events once = epoll_events::readable | epoll_events::one_shot;
  ASSERT_FALSE(poller_->add(read_end(), once, 1));
  write_byte(write_end());
  EXPECT_EQ(wait(0).size(), 1u);
  EXPECT_TRUE(wait(0).empty());
  ASSERT_FALSE(poller_->modify(read_end(), once, 2));
  const auto records = wait(0);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].token, 2u);
}

TEST_P(Epoll, ModifyChangesEventsAndToken) {
  ASSERT_FALSE(poller_->add(write_end(), epoll_events::none, 1));
  EXPECT_TRUE(wait(0).empty());
  ASSERT_FALSE(poller_->modify(write_end(), epoll_events::writable, 2));
  const auto records = wait(k_for_ever);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].token, 2u);
  EXPECT_TRUE(any(records[0].events & epoll_events::writable));
}

TEST_P(Epoll, RemovedDescriptorsAreSilent) {
  ASSERT_FALSE(poller_->add(write_end(), epoll_events::writable, 1));
  ASSERT_FALSE(poller_->remove(write_end()));
  EXPECT_TRUE(wait(0).empty());
}

TEST_P(Epoll, ReportsHangUpWithoutBeingAsked) {
  ASSERT_FALSE(poller_->add(read_end(), epoll_events::none, 1));
  EXPECT_FALSE(pipe_.write_end.close());
  const auto records = wait(k_for_ever);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].events, epoll_events::hung_up);
}

TEST_P(Epoll, MistakesAreErrors) {
  EXPECT_EQ(poller_->add(-1, epoll_events::readable, 0), error{EBADF});
  EXPECT_EQ(poller_->modify(read_end(), epoll_events::readable, 0), error{ENOENT});
  EXPECT_EQ(poller_->remove(read_end()), error{ENOENT});
  EXPECT_FALSE(poller_->add(read_end(), epoll_events::readable, 0));
  EXPECT_EQ(poller_->add(read_end(), epoll_events::readable, 0), error{EEXIST});
  EXPECT_TRUE(wait(0).empty());
  const epoll_timer before = current_epoll_timer();  // not GetParam() where that is refused
  EXPECT_EQ(poller_->wait({}, 0).error(), error{EINVAL}) << "no room for events";
  EXPECT_EQ(current_epoll_timer(), before) << "a mistake is no reason to change the timer";
}

TEST_P(Epoll, RegularFilesCannotBeWaitedFor) {
  char path[] = "/tmp/magpie_epoll_test_XXXXXX";
  const file_descriptor file(mkstemp(path));
  unlink(path);
  EXPECT_EQ(poller_->add(file.get(), epoll_events::readable, 0), error{EPERM});
}

TEST_P(Epoll, EventsThatDoNotFitComeWithTheNextCall) {
  constexpr std::size_t count = epoll::k_max_records + 50;
  std::vector<file_descriptor> ready;
  for (std::uint64_t token = 0; token < count; ++token) {
    auto event = make_eventfd(fd_mode::nonblocking, 1);
    ASSERT_TRUE(event) << error_name(event.error());
    ASSERT_FALSE(
        poller_->add(event->get(), epoll_events::readable | epoll_events::edge_triggered, token));
    ready.push_back(std::move(*event));
  }
  std::set<std::uint64_t> tokens;
  const auto collect = [&](const std::vector<epoll_record>& records) {
    for (const epoll_record& record : records) tokens.insert(record.token);
    return records.size();
  };
  EXPECT_EQ(collect(wait(0, 7)), 7u);
  EXPECT_EQ(collect(wait(0, count)), epoll::k_max_records) << "the most that one call reports";
  EXPECT_EQ(collect(wait(0, count)), count - 7 - epoll::k_max_records);
  EXPECT_EQ(tokens.size(), count) << "each was reported once";
}

TEST_P(Epoll, WaitsAtLeastAsLongAsAsked) {
  for (const std::int64_t timeout : {k_microsecond, 300 * k_microsecond, 2 * k_millisecond + 1}) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(wait(timeout).empty());
    EXPECT_GE((std::chrono::steady_clock::now() - start).count(), timeout);
  }
}

TEST_P(Epoll, AnEventEndsAnEndlessWait) {
  ASSERT_FALSE(poller_->add(read_end(), epoll_events::readable, 7));
  std::vector<epoll_record> records;
  std::thread waiter([&] { records = wait(k_for_ever); });
  write_byte(write_end());
  waiter.join();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].token, 7u);
}

TEST_P(Epoll, AnEventEndsAWaitOfYears) {
  ASSERT_FALSE(poller_->add(read_end(), epoll_events::readable, 7));
  std::vector<epoll_record> records;
  std::thread waiter([&] { records = wait(std::numeric_limits<std::int64_t>::max()); });
  write_byte(write_end());
  waiter.join();
  EXPECT_EQ(records.size(), 1u);
}

TEST_P(Epoll, ASignalEndsAWaitWithEintr) {
  const counted_interrupts interrupts;
  error outcome;
  std::atomic<bool> ended{false};
  std::thread waiter([&] {
    epoll_record record[1];
    outcome = poller_->wait(record, k_for_ever).error();
    ended = true;
  });
  counted_interrupts::interrupt_until(waiter, [&] { return ended.load(); });
  waiter.join();
  EXPECT_EQ(outcome, error{EINTR});
}

// A fixture without parameter: these set the timer themselves.
class EpollFallback : public testing::Test {
 protected:
  void TearDown() override { set_epoll_timer(epoll_timer::nanoseconds); }

  // The outcome of looking at an epoll while epoll_pwait2 fails with `code`.
  std::optional<result<std::size_t>> look_refused(int code) {
    std::optional<result<std::size_t>> outcome;
    run_refused(k_sys_epoll_pwait2, static_cast<unsigned>(code), [&] {
      auto poller = epoll::create();
      const auto ready = make_eventfd(fd_mode::nonblocking, 1);
      if (!poller || !ready || poller->add(ready->get(), epoll_events::readable, 1)) return;
      epoll_record record[1];
      outcome = poller->wait(record, k_for_ever);
    });
    return outcome;
  }
};

TEST_F(EpollFallback, KernelsThatRefuseTheNewCallAreAskedOnlyOnce) {
  for (const int code : {ENOSYS, EPERM}) {
    set_epoll_timer(epoll_timer::nanoseconds);
    const auto outcome = look_refused(code);
    if (!outcome) GTEST_SKIP() << "no seccomp filters here to refuse epoll_pwait2 with";
    ASSERT_TRUE(*outcome) << error_name(outcome->error());
    EXPECT_EQ(**outcome, 1u);
    EXPECT_EQ(current_epoll_timer(), epoll_timer::milliseconds);
  }
}

TEST_F(EpollFallback, EinvalIsNotRemembered) {
  const auto outcome = look_refused(EINVAL);
  if (!outcome) GTEST_SKIP() << "no seccomp filters here to refuse epoll_pwait2 with";
  ASSERT_TRUE(*outcome) << error_name(outcome->error());
  EXPECT_EQ(**outcome, 1u);
  EXPECT_EQ(current_epoll_timer(), epoll_timer::nanoseconds);
}

TEST_F(EpollFallback, MillisecondsAreRoundedUp) {
  EXPECT_EQ(epoll_milliseconds(-1), -1);
  EXPECT_EQ(epoll_milliseconds(std::numeric_limits<std::int64_t>::min()), -1);
  EXPECT_EQ(epoll_milliseconds(0), 0);
  EXPECT_EQ(epoll_milliseconds(1), 1);
  EXPECT_EQ(epoll_milliseconds(k_millisecond), 1);
  EXPECT_EQ(epoll_milliseconds(k_millisecond + 1), 2);
  EXPECT_EQ(epoll_milliseconds(std::numeric_limits<std::int64_t>::max()),
            std::numeric_limits<int>::max());
}

}  // namespace
}  // namespace magpie::rt::os
