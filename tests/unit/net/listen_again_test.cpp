// An address is free as soon as close() has returned, whoever was inside the socket and whoever is
// looking into the poller: a server that starts again at once gets its address.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

#include "fiber/sanitizer.h"

namespace magpie::net {
namespace {

constexpr int k_rounds = rt::sanitizer::k_thread || rt::sanitizer::k_address ? 300 : 3000;

// Both backends: this suite runs once more under each of MAGPIE_IO (tests/CMakeLists.txt).
class ListenAgain : public ::testing::TestWithParam<int> {
 protected:
  runtime runtime_{{.procs = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Ps, ListenAgain, ::testing::Values(1, 2, 4));

// Two that converse all the time, so that somebody looks into the poller all the time.
class conversation {
 public:
  conversation() {
    auto listener = tcp_listener::listen("127.0.0.1:0");
    ends_[0] = tcp_stream::connect(listener.local_address());
    ends_[1] = listener.accept();
    for (tcp_stream& end : ends_) {
      talking_.go([&end] {
        char byte = 0;
        std::error_code ec;
        while (end.write(&byte, 1, ec) == 1 && end.read(&byte, 1, ec) == 1) {
        }
      });
    }
  }
  ~conversation() {
    for (tcp_stream& end : ends_) end.close();
    talking_.wait();
  }

 private:
  tcp_stream ends_[2];
  wait_group talking_;
};

tcp_stream connect_to(const tcp_listener& l) { return tcp_stream::connect(l.local_address()); }
unix_stream connect_to(const unix_listener& l) { return unix_stream::connect(l.local_address()); }

// But the kernel has something to tell about the listener, and somebody collects it.
template <class Listen>
void nobody_inside(Listen listen) {
  const conversation beside[2];
  for (int i = 0; i < k_rounds; ++i) {
    auto listener = listen();
    ASSERT_TRUE(listener) << "in round " << i;
    auto client = connect_to(listener);
    listener.close();
  }
}

template <class Listen>
void somebody_inside(Listen listen) {
  const conversation beside;
  for (int i = 0; i < k_rounds; ++i) {
    auto listener = listen();
    ASSERT_TRUE(listener) << "in round " << i;
    event inside;
    auto accepting = async([&] {
      std::error_code ec;
      inside.set();
      listener.accept(ec);
      return ec;
    });
    inside.wait();
    if (i % 2 == 0) this_goroutine::yield();
    listener.close();
    auto next = listen();
    ASSERT_TRUE(next) << "in round " << i;
    EXPECT_EQ(accepting.get(), std::errc::operation_canceled);
  }
}

unix_listener listen_abstract() {
  std::error_code ec;
  return unix_listener::listen("@magpie-again-" + std::to_string(getpid()), ec);
}

auto listen_at_one_port() {
  const address at = tcp_listener::listen("127.0.0.1:0").local_address();
  return [at] {
    std::error_code ec;
    return tcp_listener::listen(at, {}, ec);
  };
}

TEST_P(ListenAgain, AtAnAbstractName) {
  runtime_.run([] { nobody_inside(listen_abstract); });
}

TEST_P(ListenAgain, AtAnAbstractNameWhereSomebodyAccepts) {
  runtime_.run([] { somebody_inside(listen_abstract); });
}

TEST_P(ListenAgain, AtAPort) {
  runtime_.run([] { nobody_inside(listen_at_one_port()); });
}

TEST_P(ListenAgain, AtAPortWhereSomebodyAccepts) {
  runtime_.run([] { somebody_inside(listen_at_one_port()); });
}

TEST_P(ListenAgain, BindAtAPortWhereSomebodyReceives) {
  runtime_.run([] {
    const conversation beside;
    udp_socket socket = udp_socket::bind("127.0.0.1:0");
    const address at = socket.local_address();
    for (int i = 0; i < k_rounds; ++i) {
      auto receiving = async([&, inside = std::move(socket)]() mutable {
        auto closer = async([&] { inside.close(); });
        std::byte into[1];
        std::error_code ec;
        inside.receive(into, ec);
        closer.get();
        return ec;
      });
      EXPECT_EQ(receiving.get(), std::errc::operation_canceled);
      std::error_code ec;
      socket = udp_socket::bind(at, ec);
      ASSERT_TRUE(socket) << "in round " << i << ": " << ec.message();
    }
  });
}

TEST_P(ListenAgain, FromAPlainThread) {
  const auto listen = listen_at_one_port();
  for (int i = 0; i < k_rounds / 10; ++i) {
    auto listener = listen();
    ASSERT_TRUE(listener) << "in round " << i;
    std::atomic<bool> inside{false};
    std::thread accepting([&] {
      runtime_.run([&] {
        std::error_code ec;
        inside = true;
        listener.accept(ec);
        EXPECT_EQ(ec, std::errc::operation_canceled);
      });
    });
    while (!inside) std::this_thread::yield();
    listener.close();
    EXPECT_TRUE(listen()) << "in round " << i;
    accepting.join();
  }
}

}  // namespace
}  // namespace magpie::net
