// Sockets under load, among slow and rude clients, and with system calls that fail. Short by
// default; MAGPIE_STRESS=N makes every test N times as long.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <magpie/magpie.h>

#include "base/random.h"
#include "fiber/sanitizer.h"
#include "os/fault.h"
#include "support/loopback.h"
#include "support/stress.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;
using net::address;
using net::tcp_listener;
using net::tcp_stream;
using rt::os::fault_call;
using rt::testing::read_all;
using rt::testing::read_exactly;
using rt::testing::rounds;

// False: not so many are allowed.
bool allow_descriptors(rlim_t count) {
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= count) return true;
  limit.rlim_cur = count;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

// Answers with what it gets, until it is destroyed.
class echo_server {
 public:
  echo_server() : accepting_(async([this] { accept_all(); })) {}
  ~echo_server() {
    listener_.close();
    accepting_.get();
    all_.wait();
  }
  address place() const { return place_; }

 private:
  void accept_all() {
    std::error_code ec;
    for (;;) {
      tcp_stream client = listener_.accept(ec);
      if (ec) break;
      all_.go([c = std::move(client)]() mutable {
        char bytes[1024];
        std::error_code gone;
        while (const std::size_t n = c.read(bytes, sizeof bytes, gone)) {
          if (c.write(bytes, n, gone) == 0) break;
        }
      });
    }
    EXPECT_EQ(ec, std::errc::operation_canceled) << ec.message();
  }

  tcp_listener listener_ = tcp_listener::listen("127.0.0.1:0");
  const address place_ = listener_.local_address();
  wait_group all_;
  future<void> accepting_;
};

class NetStress : public rt::testing::with_ps {};

INSTANTIATE_TEST_SUITE_P(Ps, NetStress, ::testing::Values(1, 2, 4, 16));

TEST_P(NetStress, ManyConversations) {
  runtime r({.procs = ps()});
  r.run([] {
    const echo_server server;
    wait_group clients;
    for (int i = 0; i < 50; ++i) {
      clients.go([&server, i] {
        rt::random_source random(static_cast<std::uint64_t>(i) + 1);
        auto connection = tcp_stream::connect(server.place());
        for (int k = rounds(100); k > 0; --k) {
          const std::string message(1 + random.below(5000), static_cast<char>('a' + k % 26));
          connection.write(message);
          ASSERT_EQ(read_exactly(connection, message.size()), message);
        }
      });
    }
    clients.wait();
  });
}

// Connections that come and go, some with a reset, some while they are read.
TEST_P(NetStress, ComingAndGoing) {
  runtime r({.procs = ps()});
  r.run([] {
    const echo_server server;
    wait_group clients;
    for (int i = 0; i < 8; ++i) {
      clients.go([&server, i] {
        rt::random_source random(static_cast<std::uint64_t>(i) + 1);
        for (int k = rounds(100); k > 0; --k) {
          auto connection = tcp_stream::connect(server.place());
          connection.write("abc");
          switch (random.below(4)) {
            case 0:
              EXPECT_EQ(read_exactly(connection, 3), "abc");
              break;
            case 1: {
              const linger reset{1, 0};
              setsockopt(connection.native_handle(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
              break;
            }
            case 2: {
              auto reading = async([&connection] {
                char bytes[8];
                std::error_code ec;
                while (connection.read(bytes, sizeof bytes, ec) != 0) {
                }
                return ec;
              });
              this_goroutine::yield();
              connection.close();
              EXPECT_EQ(reading.get(), std::errc::operation_canceled);
              break;
            }
            default:
              connection.shutdown_write();
              EXPECT_EQ(read_all(connection), "abc");
          }
        }
      });
    }
    clients.wait();
  });
}

// Two thousand that have sent half of a request, and now and then send a byte more.
TEST(NetStressSlow, SlowClientsDoNotDisturbAGoodOne) {
  const int slow_clients = rt::sanitizer::k_thread || rt::sanitizer::k_address ? 200 : 2000;
  if (!allow_descriptors(static_cast<rlim_t>(2 * slow_clients + 100))) {
    GTEST_SKIP() << "not enough descriptors are allowed here";
  }
  runtime r({.procs = 2});
  r.run([&] {
    const echo_server server;
    std::vector<tcp_stream> slow;
    for (int i = 0; i < slow_clients; ++i) {
      slow.push_back(tcp_stream::connect(server.place()));
      slow.back().write("half a requ");
    }
    std::atomic<bool> stop{false};
    auto dribbling = async([&] {
      for (std::size_t i = 0; !stop; i = (i + 1) % slow.size()) {
        slow[i].write("e");
        this_goroutine::sleep_for(100us);
      }
    });
    auto good = tcp_stream::connect(server.place());
    std::vector<duration> times;
    for (int i = 0; i < rounds(1000); ++i) {
      const auto start = clock::now();
      good.write("a whole request");
      ASSERT_EQ(read_exactly(good, 15), "a whole request");
      times.push_back(clock::now() - start);
    }
    stop = true;
    dribbling.get();
    std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 2),
                     times.end());
    EXPECT_LT(times[times.size() / 2], 100ms);  // far from what it is: microseconds
  });
}

// The same without the monitor: nothing may need it.
TEST(NetStress, WithoutTheMonitor) { rt::testing::expect_to_end_without_monitor("Ps/NetStress.*"); }

// ---- System calls that fail -------------------------------------------------------------------

struct fault_case {
  const char* rule;
  int seen;  // by the caller; 0: nobody notices
};

constexpr fault_case k_fault_cases[] = {
    {"accept:EINTR:1/3", 0},
    {"accept:ECONNABORTED:1/3", 0},
    {"accept:EPROTO:1/3", 0},
    {"accept:EHOSTUNREACH:1/3", 0},
    {"accept:EMFILE:1/4", 0},
    {"accept:ENFILE:1/4", 0},
    {"accept:ENOBUFS:1/4", 0},
    {"accept:ENOMEM:1/4", 0},
    {"read:EINTR:1/3", 0},
    {"write:EINTR:1/3", 0},
    {"connect:EINTR:1/3", 0},
    {"read:ECONNRESET:1/10", ECONNRESET},
    {"read:ETIMEDOUT:1/10", ETIMEDOUT},
    {"read:ENOMEM:1/10", ENOMEM},
    {"write:EPIPE:1/10", EPIPE},
    {"write:ENOBUFS:1/10", ENOBUFS},
    {"connect:ECONNREFUSED:1/5", ECONNREFUSED},
    {"connect:ENETUNREACH:1/5", ENETUNREACH},
    {"connect:EADDRNOTAVAIL:1/5", EADDRNOTAVAIL},
    {"epoll_wait:EINTR:1/2", 0},
    {"epoll_ctl:ENOMEM:1/10", ENOMEM},
    {"epoll_ctl:ENOSPC:1/10", ENOSPC},
};

// One message there and back. The server may have met an error, too: then the connection ends.
std::error_code converse(const address& place) {
  std::error_code ec;
  tcp_stream connection = tcp_stream::connect(place, no_timeout, ec);
  if (ec) return ec;
  const std::string message = "through thick and thin";
  connection.write(message, ec);
  std::string got;
  while (!ec && got.size() < message.size()) {
    char bytes[64];
    const std::size_t n = connection.read(bytes, sizeof bytes, ec);
    if (n == 0) break;
    got.append(bytes, n);
  }
  if (!ec && got != message) return make_error_code(std::errc::connection_aborted);
  return ec;
}

class NetFaults : public ::testing::TestWithParam<fault_case> {
 protected:
  ~NetFaults() override { rt::os::set_faults(nullptr); }
};

INSTANTIATE_TEST_SUITE_P(Table, NetFaults, ::testing::ValuesIn(k_fault_cases),
                         [](const ::testing::TestParamInfo<fault_case>& each) {
                           std::string name = each.param.rule;
                           name.resize(name.rfind(':'));
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

TEST_P(NetFaults, AreRetriedOrSurface) {
  if (!rt::os::k_faults) GTEST_SKIP() << "faults are made in debug builds only";
  const fault_case& fault = GetParam();
  const std::uint64_t before = rt::os::faults_made();
  int good = 0, bad = 0;
  runtime r({.procs = 2});
  r.run([&] {
    const echo_server server;
    rt::os::set_faults(fault.rule);
    for (int i = 0; i < rounds(200); ++i) {
      const std::error_code ec = converse(server.place());
      ++(ec ? bad : good);
      if (fault.seen == 0) {
        ASSERT_FALSE(ec) << ec.message();
      } else if (ec) {
        // What the server met shows here as an end.
        const bool as_it_was = ec.value() == fault.seen && ec.category() == std::system_category();
        const bool end = ec == std::errc::connection_aborted || ec == std::errc::connection_reset;
        ASSERT_TRUE(as_it_was || end) << ec.message();
      }
    }
    rt::os::set_faults(nullptr);
    EXPECT_FALSE(converse(server.place()));  // as if nothing had been
  });
  EXPECT_GT(rt::os::faults_made(), before);
  RecordProperty("faults", std::to_string(rt::os::faults_made() - before));
  EXPECT_GT(good, 0);
  EXPECT_EQ(bad != 0, fault.seen != 0);
}

}  // namespace
}  // namespace magpie
