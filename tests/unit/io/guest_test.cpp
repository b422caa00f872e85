#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

namespace magpie {
namespace {

using namespace std::chrono_literals;

struct pipe_pair {
  pipe_pair() {
    int fds[2];
    if (::pipe(fds) != 0) std::abort();
    read_end = fds[0];
    write_end = fds[1];
  }
  ~pipe_pair() {
    ::close(read_end);
    ::close(write_end);
  }
  void write(const char* text = "x") const { ASSERT_EQ(::write(write_end, text, 1), 1); }
  char read() const {
    char c = 0;
    EXPECT_EQ(::read(read_end, &c, 1), 1);
    return c;
  }
  int read_end = -1, write_end = -1;
};

TEST(WaitReadable, ReturnsAtOnceWhenThereIsSomething) {
  run([] {
    const pipe_pair p;
    p.write();
    wait_readable(p.read_end);
    wait_readable(p.read_end, clock::now() - 1s);
    wait_writable(p.write_end);
  });
}

TEST(WaitReadable, WaitsForData) {
  run([] {
    const pipe_pair p;
    auto reader = async([&] {
      wait_readable(p.read_end);
      return p.read();
    });
    this_goroutine::sleep_for(2ms);
    p.write("a");
    EXPECT_EQ(reader.get(), 'a');
  });
}

TEST(WaitReadable, ManyTimesOnTheSameDescriptor) {
  run([] {
    const pipe_pair p;
    auto writer = async([&] {
      for (int i = 0; i < 500; ++i) {
        p.write();
        if (i % 3 == 0) this_goroutine::yield();
      }
    });
    for (int i = 0; i < 500; ++i) {
      wait_readable(p.read_end);
      p.read();
    }
    writer.get();
  });
}

TEST(WaitReadable, SeveralWaitForTheSame) {
  run([] {
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    std::atomic<int> woken{0};
    wait_group all;
    for (int i = 0; i < 10; ++i) {
      all.go([&] {
        wait_readable(fds[0]);
        ++woken;
      });
    }
    auto writable = async([&] { wait_writable(fds[0]); });
    writable.get();
    this_goroutine::sleep_for(1ms);
    EXPECT_EQ(woken, 0);
    ASSERT_EQ(::write(fds[1], "x", 1), 1);
    all.wait();
    EXPECT_EQ(woken, 10);
    ::close(fds[0]);
    ::close(fds[1]);
  });
}

TEST(WaitReadable, ADeadlineThrowsTimedOut) {
  run([] {
    const pipe_pair p;
    try {
      wait_readable(p.read_end, clock::now() + 2ms);
      ADD_FAILURE();
    } catch (const std::system_error& e) {
      EXPECT_EQ(e.code(), std::errc::timed_out);
    }
    std::error_code failed;
    wait_readable(p.read_end, clock::now() - 1s, failed);
    EXPECT_EQ(failed, std::errc::timed_out);
    p.write();
    wait_readable(p.read_end, never, failed);
    EXPECT_FALSE(failed);
  });
}

TEST(WaitReadable, WhatIsNoDescriptorIsAnError) {
  run([] {
    std::error_code failed;
    wait_readable(-1, never, failed);
    EXPECT_EQ(failed, std::errc::bad_file_descriptor);
    int fds[2];
    ASSERT_EQ(::pipe(fds), 0);
    ::close(fds[0]);
    ::close(fds[1]);
    wait_readable(fds[0], never, failed);
    EXPECT_EQ(failed, std::errc::bad_file_descriptor);
    EXPECT_THROW(wait_writable(fds[1]), std::system_error);
  });
}

TEST(WaitReadable, ARegularFileIsAlwaysReady) {
  run([] {
    std::FILE* const f = std::tmpfile();
    wait_readable(::fileno(f));
    wait_writable(::fileno(f));
    EXPECT_EQ(select(on_readable(::fileno(f), [] {})), 0);
    std::fclose(f);
  });
}

TEST(WaitReadable, AHangUpIsReadable) {
  run([] {
    int fds[2];
    ASSERT_EQ(::pipe(fds), 0);
    auto reader = async([&] {
      wait_readable(fds[0]);
      char c;
      return ::read(fds[0], &c, 1);
    });
    this_goroutine::sleep_for(1ms);
    ::close(fds[1]);
    EXPECT_EQ(reader.get(), 0);
    ::close(fds[0]);
  });
}

// The number is the same, what is behind it is not.
TEST(WaitReadable, ANumberUsedAgain) {
  run([] {
    for (int i = 0; i < 200; ++i) {
      const pipe_pair p;
      std::error_code failed;
      if (i % 2 == 0) {
        wait_readable(p.read_end, clock::now() + 100us, failed);  // leaves its question behind
        EXPECT_EQ(failed, std::errc::timed_out);
      }
      auto reader = async([&] {
        wait_readable(p.read_end);
        return p.read();
      });
      this_goroutine::yield();
      p.write("z");
      EXPECT_EQ(reader.get(), 'z');
    }
  });
}

TEST(WaitReadable, FromAPlainThread) {
  const pipe_pair p;
  std::thread writer([&] {
    std::this_thread::sleep_for(2ms);
    p.write();
  });
  wait_readable(p.read_end);
  EXPECT_EQ(p.read(), 'x');
  writer.join();
}

TEST(SelectOnDescriptors, WaitsForTheFirst) {
  run([] {
    const pipe_pair a, b;
    channel<int> c;
    auto chosen = async([&] {
      return select(on_readable(a.read_end, [&] { a.read(); }),
                    on_readable(b.read_end, [&] { b.read(); }),
                    on_receive(c, [](std::optional<int>) {}));
    });
    this_goroutine::sleep_for(1ms);
    b.write();
    EXPECT_EQ(chosen.get(), 1);
    EXPECT_EQ(select(on_readable(a.read_end, [] {}), otherwise([] {})), 1);
    EXPECT_EQ(select(on_readable(a.read_end, [] {}), on_timeout(1ms, [] {})), 1);
    EXPECT_EQ(select(on_readable(a.read_end, [] {}), on_writable(a.write_end, [] {})), 1);
  });
}

TEST(SelectOnDescriptors, ChannelOrDescriptorUnderLoad) {
  runtime r({.procs = 4});
  r.run([] {
    const pipe_pair p;
    channel<int> c;
    constexpr int k_each = 500;
    go([&] {
      for (int i = 0; i < k_each; ++i) p.write();
    });
    go([&] {
      for (int i = 0; i < k_each; ++i) c.send(i);
    });
    int bytes = 0, values = 0;
    while (bytes < k_each || values < k_each) {
      select(on_readable(p.read_end,
                         [&] {
                           p.read();
                           ++bytes;
                         }),
             on_receive(c, [&](std::optional<int>) { ++values; }));
    }
    EXPECT_EQ(bytes, k_each);
    EXPECT_EQ(values, k_each);
  });
}

TEST(SelectOnDescriptors, InASpan) {
  run([] {
    const pipe_pair a, b;
    int which = -1;
    std::vector<select_case> cases;
    cases.push_back(on_readable(a.read_end, [&] { which = 0; }));
    cases.push_back(on_readable(b.read_end, [&] { which = 1; }));
    b.write();
    EXPECT_EQ(select(cases), 1);
    EXPECT_EQ(which, 1);
    b.read();
    a.write();
    EXPECT_EQ(select(cases), 0);
  });
}

TEST(SelectOnDescriptors, WhatIsNoDescriptorThrows) {
  run([] { EXPECT_THROW(select(on_readable(-1, [] {})), std::system_error); });
}

}  // namespace
}  // namespace magpie
