#include "poll/poller.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "os/clock.h"

namespace magpie::rt {
namespace {

class Poller : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_FALSE(poller_.start());
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds_), 0);
    record_->fd = fds_[0];
  }
  void TearDown() override {
    for (const int fd : fds_) ::close(fd);
  }
  poll_batch look() {
    poll_batch out;
    poller_.poll(0, out);
    return out;
  }

  poller poller_;
  int fds_[2] = {-1, -1};
  std::unique_ptr<poll_desc> record_ = std::make_unique<poll_desc>();
};

TEST_F(Poller, TellsWhatHasChangedOnce) {
  ASSERT_FALSE(poller_.add(fds_[0], token_of(*record_)));
  poll_batch first = look();
  ASSERT_EQ(first.count, 1u);
  EXPECT_EQ(desc_of(first.events[0].token), record_.get());
  EXPECT_TRUE(first.events[0].writable);
  EXPECT_FALSE(first.events[0].readable);
  EXPECT_EQ(look().count, 0u);
  ASSERT_EQ(::write(fds_[1], "x", 1), 1);
  const poll_batch second = look();
  ASSERT_EQ(second.count, 1u);
  EXPECT_TRUE(second.events[0].readable);
  EXPECT_FALSE(second.events[0].uncertain);
  EXPECT_EQ(look().count, 0u);
  ::shutdown(fds_[1], SHUT_WR);
  const poll_batch third = look();
  ASSERT_EQ(third.count, 1u);
  EXPECT_TRUE(third.events[0].readable);
  EXPECT_TRUE(third.events[0].uncertain);
}

TEST_F(Poller, AGuestIsAskedForOneEvent) {
  poll_desc* const d = poller_.guest(fds_[0]);
  ASSERT_NE(d, nullptr);
  EXPECT_EQ(poller_.guest(fds_[0]), d);
  EXPECT_EQ(d->fd, fds_[0]);
  ASSERT_FALSE(poller_.arm_guest(fds_[0], true, false, token_of(*d)));
  EXPECT_EQ(look().count, 0u);
  ASSERT_EQ(::write(fds_[1], "x", 1), 1);
  const poll_batch event = look();
  ASSERT_EQ(event.count, 1u);
  EXPECT_EQ(desc_of(event.events[0].token), d);
  EXPECT_EQ(look().count, 0u);
  ASSERT_FALSE(poller_.arm_guest(fds_[0], true, false, token_of(*d)));
  EXPECT_EQ(look().count, 1u);  // it is still readable
}

TEST_F(Poller, ADescriptorOfOurOwnMayBeAGuestToo) {
  ASSERT_FALSE(poller_.add(fds_[0], token_of(*record_)));
  ASSERT_FALSE(poller_.arm_guest(fds_[0], false, true, token_of(*poller_.guest(fds_[0]))));
  EXPECT_EQ(look().count, 2u);
}

TEST_F(Poller, InterruptBeforeTheWaitEndsIt) {
  poller_.interrupt();
  poll_batch out;
  poller_.poll(-1, out);
  EXPECT_EQ(out.count, 0u);
}

// Those who only look do not take the alarm away from the one who waits.
TEST_F(Poller, InterruptReachesTheOneWhoWaitsWhateverOthersDo) {
  std::atomic<int> rounds{0};
  std::atomic<bool> waits{false};
  constexpr int k_rounds = 2000;
  std::thread waiter([&] {
    while (rounds < k_rounds) {
      poll_batch out;
      waits = true;
      poller_.poll(-1, out);
      waits = false;
      ++rounds;
    }
  });
  std::atomic<bool> over{false};
  std::thread others([&] {
    while (!over) look();
  });
  for (int i = 0; i < k_rounds; ++i) {
    while (rounds != i || !waits) std::this_thread::yield();
    poller_.interrupt();
    while (rounds == i) std::this_thread::yield();
  }
  waiter.join();
  over = true;
  others.join();
}

TEST_F(Poller, ATimeoutEndsTheWait) {
  poll_batch out;
  const os::nanos start = os::now();
  poller_.poll(300'000, out);
  EXPECT_GE(os::now() - start, 300'000);
}

TEST_F(Poller, EachHasANumberOfItsOwn) {
  const poller other;
  EXPECT_NE(other.number(), poller_.number());
  EXPECT_NE(other.number(), 0u);
}

}  // namespace
}  // namespace magpie::rt
