// Section H of Go's behaviours: the network poller, pipes and deadlines. One test per row. Times
// are shorter than in Go's tests, and upper bounds are left to the test runner's limit, but where
// the row is about one.
//
// Row H07 (misuse of the lock of a descriptor) has no counterpart: nobody but the library takes it,
// and its count of operations has 32 bits.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

#include "base/random.h"
#include "conformance.h"
#include "io/descriptor.h"
#include "os/fd.h"
#include "poll/poller.h"
#include "sched/scheduler.h"
#include "support/loopback.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;
using net::tcp_listener;
using net::tcp_stream;
using rt::descriptor;
using rt::direction;
using rt::testing::make_tcp_pair;
using rt::testing::read_all;
using rt::testing::read_some;
using rt::testing::tcp_pair;

constexpr int k_slower = k_sanitized ? 10 : 1;

// Both ends of a pipe as files that can be waited for.
struct pipe_files {
  file reader, writer;
};

pipe_files make_pipe() {
  auto ends = rt::os::make_pipe();
  const auto again = [](int fd, open_mode mode) {
    return file::open("/proc/self/fd/" + std::to_string(fd), mode);
  };
  file reader = again((*ends).read_end.get(), open_mode::read);
  file writer = again((*ends).write_end.get(), open_mode::write);
  return {std::move(reader), std::move(writer)};
}

std::error_code error_of_read(net::stream& from) {
  char byte;
  std::error_code ec;
  from.read(&byte, 1, ec);
  return ec;
}

TEST(Conformance, H01_NetpollBreak) {
  rt::poller p;
  ASSERT_FALSE(p.start());
  const auto start = clock::now();
  std::thread breaker([&] {
    std::this_thread::sleep_for(10ms);
    p.interrupt();
  });
  rt::poll_batch batch;
  p.poll(10'000'000'000, batch);
  EXPECT_LT(clock::now() - start, 5s);
  EXPECT_EQ(batch.count, 0U);
  breaker.join();
}

TEST_P(Conformance, H02_NobodyIsLeftWaitingAfterAConversation) {
  runtime r({.procs = ps()});
  r.run([] {
    tcp_pair both = make_tcp_pair();
    auto server = async([&] {
      for (std::string part; !(part = read_some(both.server)).empty();) both.server.write(part);
      both.server.shutdown_write();
    });
    for (int i = 0; i < 100; ++i) {
      both.client.write("hello");
      EXPECT_EQ(rt::testing::read_exactly(both.client, 5), "hello");
    }
    both.client.shutdown_write();
    EXPECT_EQ(read_all(both.client), "");
    server.get();
    EXPECT_EQ(rt::current_m()->scheduler_.io_waiters(), 0U);
  });
}

TEST(Conformance, H04_NonblockingPipe) {
  const auto ends = rt::os::make_pipe(rt::os::fd_mode::nonblocking);
  for (const int fd : {(*ends).read_end.get(), (*ends).write_end.get()}) {
    EXPECT_NE(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  }
}

descriptor* make_descriptor() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) return nullptr;
  close(fds[1]);
  descriptor* made = nullptr;
  EXPECT_EQ(descriptor::open(fds[0], made), 0);
  return made;
}

TEST_P(Conformance, H05_AfterCloseNoOperationBegins) {
  runtime r({.procs = ps()});
  r.run([] {
    descriptor* const d = make_descriptor();
    ASSERT_EQ(d->begin(direction::read), 0);
    ASSERT_EQ(d->begin(direction::write), 0);
    ASSERT_EQ(d->begin_use(), 0);
    d->end_use();
    d->end(direction::read);
    ASSERT_EQ(d->begin(direction::read), 0);
    auto next = async([&] { return d->begin(direction::write); });
    this_goroutine::yield();
    auto closing = async([&] { d->close(); });
    EXPECT_EQ(next.get(), ECANCELED);
    EXPECT_EQ(d->begin(direction::read), ECANCELED);
    EXPECT_EQ(d->begin_use(), ECANCELED);
    EXPECT_FALSE(closing.ready());
    EXPECT_NE(fcntl(d->fd(), F_GETFD), -1);  // two are still inside
    d->end(direction::read);
    d->end(direction::write);
    closing.get();
    EXPECT_EQ(d->fd(), -1);
    d->destroy();
  });
}

TEST_P(Conformance, H08_MutexStress) {
  runtime r({.procs = ps()});
  r.run([] {
    descriptor* const d = make_descriptor();
    long inside[2] = {0, 0};  // not atomic
    wait_group all;
    for (std::uint64_t i = 0; i < 8; ++i) {
      all.go([&, i] {
        rt::random_source random(i + 1);
        for (int k = 0; k < 100'000 / k_slower; ++k) {
          const std::uint64_t what = random.below(3);
          if (what == 2) {
            ASSERT_EQ(d->begin_use(), 0);
            d->end_use();
            continue;
          }
          const direction way = what == 0 ? direction::read : direction::write;
          ASSERT_EQ(d->begin(way), 0);
          ASSERT_EQ(inside[what]++, 0);
          if (random.below(64) == 0) this_goroutine::yield();
          --inside[what];
          d->end(way);
        }
      });
    }
    all.wait();
    d->destroy();
  });
}

TEST(Conformance, H09_PipeThreads) {
  runtime r({.procs = 2, .max_threads = 50});
  r.run([] {
    std::vector<pipe_files> pipes;
    for (int i = 0; i < 100; ++i) pipes.push_back(make_pipe());
    wait_group readers;
    std::atomic<int> reading{0};
    for (pipe_files& each : pipes) {
      readers.go([&] {
        ++reading;
        EXPECT_EQ(read_some(each.reader, 1), "x");
      });
    }
    while (reading != 100) this_goroutine::sleep_for(100us);
    this_goroutine::sleep_for(1ms);
    EXPECT_LE(runtime::current().read_stats().threads, 50);
    for (pipe_files& each : pipes) each.writer.write("x");
    readers.wait();
  });
}

TEST_P(Conformance, H10_ClosedPipeRaceRead) {
  runtime r({.procs = ps()});
  r.run([] {
    for (int i = 0; i < 20; ++i) {
      pipe_files both = make_pipe();
      auto reading = async([&] {
        char byte;
        std::error_code ec;
        both.reader.read(&byte, 1, ec);
        return ec;
      });
      if (i % 2 == 0) this_goroutine::sleep_for(200us);
      both.reader.close();
      EXPECT_EQ(reading.get(), std::errc::operation_canceled);
    }
  });
}

TEST_P(Conformance, H10_ClosedPipeRaceWrite) {
  runtime r({.procs = ps()});
  r.run([] {
    for (int i = 0; i < 20; ++i) {
      pipe_files both = make_pipe();
      auto writing = async([&] {
        std::error_code ec;
        both.writer.write(std::string(1 << 20, 'x'), ec);
        return ec;
      });
      if (i % 2 == 0) this_goroutine::sleep_for(200us);
      both.writer.close();
      EXPECT_EQ(writing.get(), std::errc::operation_canceled);
    }
  });
}

TEST_P(Conformance, H13_FdReadRace) {
  runtime r({.procs = ps()});
  r.run([] {
    tcp_pair both = make_tcp_pair();
    const auto start = clock::now();
    both.client.set_read_deadline(start + 60s);
    auto reading = async([&] { return read_some(both.client); });
    this_goroutine::sleep_for(1ms);
    EXPECT_GE(both.client.native_handle(), 0);
    EXPECT_EQ(both.client.local_address(), both.server.remote_address());
    both.server.write("x");
    EXPECT_EQ(reading.get(), "x");
    EXPECT_LT(clock::now() - start, 30s);
  });
}

TEST(Conformance, H15_AFileHasNoDeadline) {
  const auto path =
      std::filesystem::temp_directory_path() / ("magpie-h15-" + std::to_string(getpid()));
  std::ofstream(path) << "x";
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  descriptor* made = nullptr;
  EXPECT_EQ(descriptor::open(fd, made), EPERM);
  EXPECT_NE(fcntl(fd, F_GETFD), -1);  // it stays the caller's
  close(fd);
  std::filesystem::remove(path);
}

// The buffer belongs to whoever timed out again, while others use the same socket.
TEST_P(Conformance, H16_RacyReadAndWrite) {
  runtime r({.procs = ps()});
  r.run([] {
    tcp_pair both = make_tcp_pair();
    std::atomic<bool> stop{false};
    auto partner = async([&] {
      std::error_code ec;
      while (!stop) {
        both.server.write("some bytes", ec);
        char bytes[100];
        both.server.set_read_deadline(clock::now() + 1ms);
        both.server.read(bytes, sizeof bytes, ec);
      }
    });
    wait_group all;
    both.client.set_deadline(clock::now() + 1ms);
    for (int i = 0; i < 10; ++i) {
      all.go([&] {
        for (int k = 0; k < 20; ++k) {
          std::string bytes(100, 'a');
          std::error_code ec;
          if (k % 2 == 0) {
            both.client.read(bytes.data(), bytes.size(), ec);
          } else {
            both.client.write(bytes, ec);
          }
          if (ec) {
            EXPECT_EQ(ec, std::errc::timed_out);
          }
          for (char& byte : bytes) byte = 'b';  // a race, if the kernel still used it
          both.client.set_deadline(clock::now() + 1ms);
        }
      });
    }
    all.wait();
    stop = true;
    partner.get();
  });
}

TEST_P(Conformance, H17_AcceptTimeoutMustReturn) {
  runtime r({.procs = ps()});
  r.run([] {
    auto listener = tcp_listener::listen("127.0.0.1:0");
    listener.set_deadline(clock::now() + 10ms);
    std::error_code ec;
    EXPECT_FALSE(listener.accept(ec));
    EXPECT_EQ(ec, std::errc::timed_out);
  });
}

TEST_P(Conformance, H19_ReadTimeout) {
  runtime r({.procs = ps()});
  r.run([] {
    tcp_pair both = make_tcp_pair();
    both.server.write("hello");
    both.server.shutdown_write();
    std::error_code ec;
    char bytes[1];
    both.client.set_read_deadline(clock::now() - 1s);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(both.client.read(bytes, 1, ec), 0U);
      EXPECT_EQ(ec, std::errc::timed_out);
    }

    tcp_pair other = make_tcp_pair();
    other.server.write("hello");
    other.client.set_read_deadline(clock::now() + 50ms);
    int got = 0;
    while (other.client.read(bytes, 1, ec) == 1) ++got;
    EXPECT_EQ(got, 5);
    EXPECT_EQ(ec, std::errc::timed_out);
  });
}

TEST_P(Conformance, H20_ReadTimeoutMustNotReturn) {
  runtime r({.procs = ps()});
  r.run([] {
    tcp_pair both = make_tcp_pair();
    both.client.set_write_deadline(clock::now() - 5s);
    both.client.set_read_deadline(never);
    std::atomic<bool> back{false};
    auto reading = async([&] {
      const std::error_code ec = error_of_read(both.client);
      back = true;
      return ec;
    });
    this_goroutine::sleep_for(20ms);
    EXPECT_FALSE(back);
    both.client.close();
    EXPECT_EQ(reading.get(), std::errc::operation_canceled);
  });
}

TEST_P(Conformance, H22_ReadTimeoutFluctuation) {
  runtime r({.procs = ps()});
  r.run([] {
    tcp_pair both = make_tcp_pair();
    for (const auto length : {1us, 100us, 1000us, 10000us}) {
      const auto start = clock::now();
      both.client.set_read_deadline(start + length);
      EXPECT_EQ(error_of_read(both.client), std::errc::timed_out);
      EXPECT_GE(clock::now() - start, length);
      EXPECT_LT(clock::now() - start, 10s);
    }
  });
}

TEST_P(Conformance, H23_VariousDeadlines) {
  runtime r({.procs = ps()});
  r.run([] {
    auto listener = tcp_listener::listen("127.0.0.1:0");
    go([&listener] {
      std::error_code ec;
      while (tcp_stream client = listener.accept(ec)) {
        go([c = std::move(client)]() mutable {
          std::error_code gone;
          while (!gone) c.write(std::string(10'000, 'x'), gone);
        });
      }
    });
    for (const duration length : {duration(1), duration(1us), duration(10us), duration(100us),
                                  duration(1ms), duration(10ms), duration(50ms), duration(200ms)}) {
      auto client = tcp_stream::connect(listener.local_address());
      client.set_deadline(clock::now() + length);
      std::error_code ec;
      std::vector<std::byte> bytes(1000);
      while (!ec) client.read(bytes, ec);
      EXPECT_EQ(ec, std::errc::timed_out);
    }
    listener.close();
  });
}

TEST_P(Conformance, H25_ReadWriteDeadlineRace) {
  runtime r({.procs = ps()});
  r.run([] {
    tcp_pair both = make_tcp_pair();
    const int rounds = 1000 / k_slower;
    wait_group all;
    all.go([&] {
      for (int i = 0; i < rounds; ++i) {
        both.client.set_read_deadline(clock::now() + 2us);
        both.client.set_write_deadline(clock::now() + 2us);
        this_goroutine::sleep_for(2us);
      }
    });
    all.go([&] {
      char byte;
      std::error_code ec;
      for (int i = 0; i < rounds; ++i) both.client.read(&byte, 1, ec);
    });
    all.go([&] {
      std::error_code ec;
      for (int i = 0; i < rounds; ++i) both.client.write("x", ec);
    });
    all.wait();
  });
}

TEST_P(Conformance, H27_ReadTimeoutUnblocksRead) {
  runtime r({.procs = ps()});
  r.run([] {
    tcp_pair both = make_tcp_pair();
    auto reading = async([&] { return error_of_read(both.client); });
    this_goroutine::sleep_for(2ms);
    both.client.set_read_deadline(clock::now() - 1s);
    EXPECT_EQ(reading.get(), std::errc::timed_out);
  });
}

TEST_P(Conformance, H28_CloseUnblocksRead) {
  runtime r({.procs = ps()});
  r.run([] {
    tcp_pair both = make_tcp_pair();
    auto reading = async([&] { return read_all(both.client); });
    this_goroutine::sleep_for(2ms);
    both.server.close();
    EXPECT_EQ(reading.get(), "");
  });
}

template <class Listener>
void accept_after_close(const std::string& place) {
  auto listener = Listener::listen(place);
  listener.close();
  std::error_code ec;
  EXPECT_FALSE(listener.accept(ec));
  EXPECT_EQ(ec, std::errc::operation_canceled);
  EXPECT_THROW(listener.accept(), std::system_error);
}

TEST_P(Conformance, H30_ListenerClose) {
  runtime r({.procs = ps()});
  r.run([] {
    accept_after_close<tcp_listener>("127.0.0.1:0");
    accept_after_close<net::unix_listener>("@magpie-h30-" + std::to_string(getpid()));
  });
}

}  // namespace
}  // namespace magpie
