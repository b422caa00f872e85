#include "io/descriptor.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

#include "support/connected_pair.h"
#include "support/process_counts.h"

namespace magpie::rt {
namespace {

using namespace std::chrono_literals;
using testing::connected_pair;

struct outcome {
  int error = 0;
  std::string data;
};

outcome read_some(descriptor& d, std::size_t most = 100, bool claim_drained = false) {
  if (const int failed = d.begin(direction::read)) return {failed, {}};
  std::string buffer(most, '\0');
  outcome end;
  for (;;) {
    const ssize_t got = ::read(d.fd(), buffer.data(), buffer.size());
    if (got >= 0) {
      buffer.resize(static_cast<std::size_t>(got));
      end.data = buffer;
      break;
    }
    if (errno != EAGAIN) {
      end.error = errno;
      break;
    }
    if (end.error = d.wait(direction::read); end.error != 0) break;
  }
  d.end(direction::read, claim_drained && end.data.size() < most);
  return end;
}

int write_all(descriptor& d, const std::string& data) {
  if (const int failed = d.begin(direction::write)) return failed;
  int failed = 0;
  for (std::size_t done = 0; done < data.size() && failed == 0;) {
    const ssize_t put = ::send(d.fd(), data.data() + done, data.size() - done, MSG_NOSIGNAL);
    if (put >= 0) {
      done += static_cast<std::size_t>(put);
    } else if (errno == EAGAIN) {
      failed = d.wait(direction::write);
    } else {
      failed = errno;
    }
  }
  d.end(direction::write);
  return failed;
}

class Descriptor : public ::testing::TestWithParam<int> {
 protected:
  runtime runtime_{{.procs = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Ps, Descriptor, ::testing::Values(1, 2, 4));

TEST_P(Descriptor, AReaderWaitsForTheWriter) {
  runtime_.run([] {
    connected_pair pair;
    auto reader = async([&] { return read_some(*pair.ends[0]).data; });
    this_goroutine::sleep_for(2ms);
    EXPECT_EQ(write_all(*pair.ends[1], "hello"), 0);
    EXPECT_EQ(reader.get(), "hello");
  });
}

TEST_P(Descriptor, AWriterWaitsForRoom) {
  runtime_.run([] {
    connected_pair pair;
    const std::string much(4 << 20, 'x');
    auto writer = async([&] { return write_all(*pair.ends[1], much); });
    std::size_t got = 0;
    while (got < much.size()) got += read_some(*pair.ends[0], 64 * 1024).data.size();
    EXPECT_EQ(writer.get(), 0);
    EXPECT_EQ(got, much.size());
  });
}

// Forth and back, with the hint that saves the call in vain.
TEST_P(Descriptor, PingPong) {
  runtime_.run([] {
    connected_pair pair;
    constexpr int k_rounds = 2000;
    auto echo = async([&] {
      for (int i = 0; i < k_rounds; ++i) {
        const outcome got = read_some(*pair.ends[0], 100, true);
        if (got.error != 0 || write_all(*pair.ends[0], got.data) != 0) return false;
      }
      return true;
    });
    for (int i = 0; i < k_rounds; ++i) {
      const std::string word = std::to_string(i);
      ASSERT_EQ(write_all(*pair.ends[1], word), 0);
      ASSERT_EQ(read_some(*pair.ends[1], 100, true).data, word);
    }
    EXPECT_TRUE(echo.get());
  });
}

// The end of the peer comes with the last data: one event for both.
TEST_P(Descriptor, TheEndIsSeenAfterADrainingRead) {
  runtime_.run([] {
    for (int i = 0; i < 200; ++i) {
      connected_pair pair;
      auto reader = async([&] {
        std::string all;
        for (;;) {
          const outcome got = read_some(*pair.ends[0], 100, true);
          EXPECT_EQ(got.error, 0);
          if (got.data.empty()) return all;
          all += got.data;
        }
      });
      if (i % 2 == 0) this_goroutine::yield();
      EXPECT_EQ(write_all(*pair.ends[1], "last words"), 0);
      if (i % 3 == 0) this_goroutine::yield();
      ::shutdown(pair.ends[1]->fd(), SHUT_WR);
      EXPECT_EQ(reader.get(), "last words");
    }
  });
}

TEST_P(Descriptor, CloseWakesBothDirections) {
  runtime_.run([] {
    connected_pair pair;
    auto reader = async([&] { return read_some(*pair.ends[0]).error; });
    auto writer = async([&] { return write_all(*pair.ends[0], std::string(8 << 20, 'x')); });
    this_goroutine::sleep_for(2ms);
    pair.ends[0]->close();
    EXPECT_EQ(reader.get(), ECANCELED);
    EXPECT_EQ(writer.get(), ECANCELED);
    EXPECT_EQ(read_some(*pair.ends[0]).error, ECANCELED);
    pair.ends[0]->close();
  });
}

TEST_P(Descriptor, CloseReturnsWhenTheLastOperationIsOver) {
  runtime_.run([] {
    for (int i = 0; i < 200; ++i) {
      connected_pair pair;
      auto reader = async([&] { return read_some(*pair.ends[0]).error; });
      auto writer = async([&] { return write_all(*pair.ends[0], std::string(1 << 20, 'x')); });
      if (i % 4 != 0) this_goroutine::yield();
      pair.ends[0]->close();
      EXPECT_EQ(pair.ends[0]->fd(), -1);  // not asked for by number: another may have it by now
      EXPECT_EQ(reader.get(), ECANCELED);
      EXPECT_EQ(writer.get(), ECANCELED);
    }
  });
}

TEST_P(Descriptor, ThePeerSeesTheEndOnceTheLastOperationIsOver) {
  runtime_.run([] {
    connected_pair pair;
    auto reader = async([&] { return read_some(*pair.ends[0]).error; });
    this_goroutine::sleep_for(1ms);
    pair.ends[0]->close();
    const outcome at_peer = read_some(*pair.ends[1]);
    EXPECT_EQ(at_peer.error, 0);
    EXPECT_EQ(at_peer.data, "");
    EXPECT_EQ(reader.get(), ECANCELED);
  });
}

TEST_P(Descriptor, ADeadlineEndsTheWaitAndLaterOperations) {
  runtime_.run([] {
    connected_pair pair;
    descriptor& d = *pair.ends[0];
    d.set_deadline(direction::read, os::now() + 2'000'000);
    EXPECT_EQ(read_some(d).error, ETIMEDOUT);
    EXPECT_EQ(write_all(*pair.ends[1], "ready"), 0);
    EXPECT_EQ(read_some(d).error, ETIMEDOUT);  // although there is something
    d.set_deadline(direction::read, os::k_never);
    EXPECT_EQ(read_some(d).data, "ready");
  });
}

TEST_P(Descriptor, ADeadlineSetWhileSomebodyWaitsCounts) {
  runtime_.run([] {
    connected_pair pair;
    descriptor& d = *pair.ends[0];
    auto reader = async([&] { return read_some(d).error; });
    auto second = async([&] { return read_some(d).error; });
    this_goroutine::sleep_for(1ms);
    d.set_deadline(direction::read, os::now() + 1'000'000);
    EXPECT_EQ(reader.get(), ETIMEDOUT);
    EXPECT_EQ(second.get(), ETIMEDOUT);
  });
}

TEST_P(Descriptor, ADeadlineMovedAwayDoesNotEndTheWait) {
  runtime_.run([] {
    connected_pair pair;
    descriptor& d = *pair.ends[0];
    d.set_deadline(direction::read, os::now() + 20'000'000);
    auto reader = async([&] { return read_some(d).data; });
    this_goroutine::sleep_for(1ms);
    d.set_deadline(direction::read, os::k_never);
    this_goroutine::sleep_for(30ms);
    EXPECT_EQ(write_all(*pair.ends[1], "late"), 0);
    EXPECT_EQ(reader.get(), "late");
  });
}

// Those who wait for their turn wake up to look at the deadline, and fall asleep again where they
// were: before those who come later.
TEST_P(Descriptor, ADeadlineKeepsTheOrderOfThoseWhoWait) {
  runtime_.run([] {
    connected_pair pair;
    descriptor& d = *pair.ends[0];
    std::vector<int> order;
    std::atomic<std::size_t> served{0};
    wait_group readers;
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t before = runtime::current().read_stats().parks;
      readers.go([&, i] {
        ASSERT_EQ(read_some(d, 1).data, "x");
        order.push_back(i);  // one at a time: the next byte is written afterwards
        ++served;
      });
      while (runtime::current().read_stats().parks == before) this_goroutine::yield();
    }
    for (int i = 0; i < 50; ++i) {
      d.set_deadline(direction::read, i % 2 == 0 ? os::now() + 60'000'000'000 : os::k_never);
      this_goroutine::yield();
    }
    for (std::size_t i = 1; i <= 20; ++i) {
      ASSERT_EQ(write_all(*pair.ends[1], "x"), 0);
      while (served != i) this_goroutine::yield();
    }
    readers.wait();
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  });
}

// The turn passes while the one who is next is awake, looking at the deadline.
TEST_P(Descriptor, ATurnIsNotLostToADeadline) {
  runtime_.run([] {
    connected_pair pair;
    descriptor& d = *pair.ends[0];
    std::atomic<bool> over{false};
    wait_group setting;
    setting.go([&] {
      for (os::nanos far = 60'000'000'000; !over; ++far) {
        d.set_deadline(direction::read, os::now() + far);
        this_goroutine::yield();
      }
    });
    for (int i = 0; i < 300; ++i) {
      wait_group readers;
      for (int j = 0; j < 3; ++j) readers.go([&] { EXPECT_EQ(read_some(d, 1).data, "x"); });
      EXPECT_EQ(write_all(*pair.ends[1], "xxx"), 0);
      readers.wait();
    }
    over = true;
    setting.wait();
  });
}

// Many readers of one stream: every byte to exactly one of them.
TEST_P(Descriptor, ReadersAreServedOneAfterTheOther) {
  runtime_.run([] {
    connected_pair pair;
    std::atomic<long> sum{0};
    wait_group readers;
    for (int i = 0; i < 50; ++i) {
      readers.go([&] {
        for (;;) {
          const outcome got = read_some(*pair.ends[0], 3);
          if (got.data.empty()) return;
          for (const char c : got.data) sum += c;
        }
      });
    }
    long expected = 0;
    for (int i = 0; i < 3000; ++i) {
      const char c = static_cast<char>(1 + i % 100);
      expected += c;
      ASSERT_EQ(write_all(*pair.ends[1], std::string(1, c)), 0);
    }
    ::shutdown(pair.ends[1]->fd(), SHUT_WR);
    readers.wait();
    EXPECT_EQ(sum, expected);
  });
}

// Plain threads and goroutines of another runtime use the same descriptors.
TEST_P(Descriptor, AnyThreadMayUseIt) {
  connected_pair pair;
  std::thread plain([&] {
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(write_all(*pair.ends[0], "x"), 0);
      EXPECT_EQ(read_some(*pair.ends[0]).data, "y");
    }
  });
  runtime_.run([&] {
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(read_some(*pair.ends[1]).data, "x");
      EXPECT_EQ(write_all(*pair.ends[1], "y"), 0);
    }
  });
  plain.join();
}

TEST_P(Descriptor, OneThatOutlivesItsRuntimeGoesOnInTheNext) {
  connected_pair* pair = nullptr;
  runtime({.procs = 1}).run([&] { pair = new connected_pair; });
  runtime_.run([&] {
    auto reader = async([&] { return read_some(*pair->ends[0]).data; });
    this_goroutine::sleep_for(1ms);
    EXPECT_EQ(write_all(*pair->ends[1], "still here"), 0);
    EXPECT_EQ(reader.get(), "still here");
    delete pair;
  });
}

TEST(DescriptorOpen, ARegularFileIsRefused) {
  char name[] = "/tmp/magpie_descriptor_XXXXXX";
  const int fd = ::mkstemp(name);
  ASSERT_GE(fd, 0);
  descriptor* made = nullptr;
  EXPECT_EQ(descriptor::open(fd, made), EPERM);
  EXPECT_EQ(::close(fd), 0);  // still ours
  ::unlink(name);
}

TEST(DescriptorOpen, RecordsAndDescriptorsAreUsedAgain) {
  runtime r({.procs = 2});
  r.run([] {
    connected_pair first;
    const auto before = testing::descriptor_count();
    for (int i = 0; i < 2000; ++i) {
      connected_pair pair;
      EXPECT_EQ(write_all(*pair.ends[0], "a"), 0);
      EXPECT_EQ(read_some(*pair.ends[1]).data, "a");
    }
    EXPECT_EQ(testing::descriptor_count(), before);
  });
}

// A goroutine that computes does not keep the other P from looking at descriptors.
TEST(DescriptorWait, AnIdlePWatchesWhileAnotherComputes) {
  runtime r({.procs = 2});
  r.run([] {
    connected_pair pair;
    std::atomic<bool> answered{false};
    go([&] {
      (void)read_some(*pair.ends[0]);
      answered = true;
    });
    std::thread later([&] {
      std::this_thread::sleep_for(20ms);
      EXPECT_EQ(::write(pair.ends[1]->fd(), "x", 1), 1);
    });
    while (!answered) {
    }
    blocking([&] { later.join(); });
  });
}

// Yielding goroutines keep every P busy; the descriptor is looked at all the same.
TEST(DescriptorWait, BusyPsLookAtDescriptors) {
  runtime r({.procs = 1});
  r.run([] {
    connected_pair pair;
    std::atomic<bool> answered{false};
    go([&] {
      (void)read_some(*pair.ends[0]);
      answered = true;
    });
    this_goroutine::yield();
    ASSERT_EQ(::write(pair.ends[1]->fd(), "x", 1), 1);
    future<void> another = async([&] {
      while (!answered) this_goroutine::yield();
    });
    while (!answered) this_goroutine::yield();
    another.wait();
  });
}

}  // namespace
}  // namespace magpie::rt
