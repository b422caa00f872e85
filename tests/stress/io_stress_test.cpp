// Descriptors under load, with 1 to 16 Ps. Short by default; MAGPIE_STRESS=N makes every test N
// times as long. An event that is lost shows as a test that does not end.

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <magpie/magpie.h>

#include "base/random.h"
#include "fiber/sanitizer.h"
#include "io/descriptor.h"
#include "support/subprocess.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;
using rt::descriptor;
using rt::direction;
using rt::random_source;

constexpr int k_slower = rt::sanitizer::k_thread || rt::sanitizer::k_address ? 10 : 1;

int rounds(int in_short_form) {
  static const int times = [] {
    const char* const text = std::getenv("MAGPIE_STRESS");
    return text != nullptr ? std::max(1, std::atoi(text)) : 1;
  }();
  return std::max(1, in_short_form / k_slower) * times;
}

struct connected_pair {
  connected_pair() {
    int fds[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
      std::abort();
    for (int i = 0; i < 2; ++i) {
      if (descriptor::open(fds[i], ends[i]) != 0) std::abort();
    }
  }
  ~connected_pair() {
    for (descriptor* const d : ends) d->destroy();
  }
  connected_pair(const connected_pair&) = delete;
  descriptor* ends[2] = {};
};

// How many bytes, or -errno. 0: the end.
long transfer(descriptor& d, direction way, char* data, std::size_t size) {
  if (const int failed = d.begin(way)) return -failed;
  long done = 0;
  for (;;) {
    done = way == direction::read ? ::read(d.fd(), data, size)
                                  : ::send(d.fd(), data, size, MSG_NOSIGNAL);
    if (done >= 0) break;
    done = -errno;
    if (done != -EAGAIN) break;
    done = -d.wait(way);
    if (done != 0) break;
  }
  d.end(way, way == direction::read && done > 0 && static_cast<std::size_t>(done) < size);
  return done;
}

class IoStress : public ::testing::TestWithParam<int> {
 protected:
  int ps() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Ps, IoStress, ::testing::Values(1, 2, 4, 16));

// Tokens run round rings of sockets; each hop adds one.
TEST_P(IoStress, TokensInRings) {
  runtime r({.procs = ps()});
  r.run([&] {
    constexpr int k_rings = 8, k_members = 6;
    const int laps = rounds(200);
    wait_group all;
    for (int ring = 0; ring < k_rings; ++ring) {
      auto links = std::make_shared<std::vector<std::unique_ptr<connected_pair>>>();
      for (int i = 0; i < k_members; ++i) links->push_back(std::make_unique<connected_pair>());
      for (int i = 0; i < k_members; ++i) {
        all.go([=] {
          descriptor& in = *(*links)[static_cast<std::size_t>(i)]->ends[0];
          descriptor& out = *(*links)[static_cast<std::size_t>((i + 1) % k_members)]->ends[1];
          for (int lap = 0; lap < laps; ++lap) {
            int token = lap * k_members;
            if (i != 0 || lap != 0) {
              ASSERT_EQ(transfer(in, direction::read, reinterpret_cast<char*>(&token), 100),
                        static_cast<long>(sizeof token));
            }
            ++token;
            ASSERT_EQ(
                transfer(out, direction::write, reinterpret_cast<char*>(&token), sizeof token),
                static_cast<long>(sizeof token));
          }
          if (i != 0) return;
          int last = 0;
          ASSERT_EQ(transfer(in, direction::read, reinterpret_cast<char*>(&last), 100),
                    static_cast<long>(sizeof last));
          EXPECT_EQ(last, laps * k_members);
        });
      }
    }
    all.wait();
  });
}

// Every byte written arrives, whatever deadlines pass meanwhile.
TEST_P(IoStress, StreamsWithDeadlinesThatPass) {
  runtime r({.procs = ps()});
  r.run([&] {
    wait_group all;
    for (int s = 0; s < 8; ++s) {
      all.go([&, s] {
        connected_pair pair;
        const std::size_t total = static_cast<std::size_t>(rounds(400)) * 1000;
        auto writer = async([&] {
          random_source random(static_cast<std::uint64_t>(s));
          std::string block(10'000, 'w');
          for (std::size_t sent = 0; sent < total;) {
            const std::size_t size = std::min<std::size_t>(1 + random.below(10'000), total - sent);
            if (random.below(4) == 0) this_goroutine::yield();
            pair.ends[1]->set_deadline(direction::write, rt::os::now() + random.below(50'000));
            const long put = transfer(*pair.ends[1], direction::write, block.data(), size);
            if (put > 0) sent += static_cast<std::size_t>(put);
            if (put <= 0) {
              EXPECT_EQ(put, -ETIMEDOUT);
            }
          }
        });
        random_source random(static_cast<std::uint64_t>(s) + 100);
        std::string block(20'000, '\0');
        for (std::size_t got = 0; got < total;) {
          if (random.below(3) == 0) {
            pair.ends[0]->set_deadline(direction::read, rt::os::now() + random.below(30'000));
          } else {
            pair.ends[0]->set_deadline(direction::read, rt::os::k_never);
          }
          const long part =
              transfer(*pair.ends[0], direction::read, block.data(), 1 + random.below(20'000));
          if (part > 0) got += static_cast<std::size_t>(part);
          if (part <= 0) {
            ASSERT_EQ(part, -ETIMEDOUT);
          }
        }
        writer.get();
      });
    }
    all.wait();
  });
}

// Closed at any moment under readers and writers: all of them come back.
TEST_P(IoStress, CloseAtAnyMoment) {
  runtime r({.procs = ps()});
  r.run([&] {
    wait_group all;
    for (int s = 0; s < 6; ++s) {
      all.go([&, s] {
        random_source random(static_cast<std::uint64_t>(s));
        for (int i = 0; i < rounds(150); ++i) {
          connected_pair pair;
          wait_group users;
          for (int u = 0; u < 6; ++u) {
            users.go([&pair, u] {
              std::string block(50'000, 'x');
              descriptor& d = *pair.ends[u % 2];
              const direction way = u < 3 ? direction::read : direction::write;
              for (;;) {
                const long done = transfer(d, way, block.data(), block.size());
                if (done == -ECANCELED || done == -EPIPE || done == -ECONNRESET || done == 0)
                  return;
                ASSERT_GT(done, 0);
              }
            });
          }
          for (std::uint32_t n = random.below(20); n > 0; --n) this_goroutine::yield();
          pair.ends[random.below(2)]->close();
          for (std::uint32_t n = random.below(5); n > 0; --n) this_goroutine::yield();
          pair.ends[0]->close();
          pair.ends[1]->close();
          users.wait();
        }
      });
    }
    all.wait();
  });
}

// Several wait for one guest; each byte wakes all, one reads it, and in the end everybody is back.
TEST_P(IoStress, GuestsWithTimeouts) {
  runtime r({.procs = ps()});
  r.run([&] {
    wait_group all;
    for (int s = 0; s < 4; ++s) {
      all.go([&, s] {
        int fds[2];
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
        const int total = rounds(300);
        std::atomic<int> got{0};
        wait_group readers;
        for (int i = 0; i < 3; ++i) {
          readers.go([&, i] {
            random_source random(static_cast<std::uint64_t>(s * 10 + i));
            while (got < total) {
              char c;
              if (random.below(2) == 0) {
                std::error_code failed;
                wait_readable(fds[0], clock::now() + std::chrono::microseconds(random.below(200)),
                              failed);
              } else {
                select(on_readable(fds[0], [] {}), on_timeout(200us, [] {}));
              }
              if (::read(fds[0], &c, 1) == 1) ++got;
            }
          });
        }
        for (int i = 0; i < total; ++i) {
          wait_writable(fds[1]);
          ASSERT_EQ(::write(fds[1], "x", 1), 1);
          if (i % 7 == 0) this_goroutine::yield();
        }
        readers.wait();
        EXPECT_EQ(got, total);
        ::close(fds[0]);
        ::close(fds[1]);
      });
    }
    all.wait();
  });
}

// The same without the monitor: nothing may need it.
TEST(IoStress, WithoutTheMonitor) {
  const auto end = rt::testing::run_program("../stress_test", {"--gtest_filter=Ps/IoStress.*"},
                                            {"MAGPIE_DEBUG=nosysmon=1"});
  EXPECT_EQ(end.exit_code, 0) << end.output;
}

}  // namespace
}  // namespace magpie
