#include <magpie/net/udp.h>

#include <gtest/gtest.h>

#include <string>

#include <magpie/magpie.h>

namespace magpie::net {
namespace {

using namespace std::chrono_literals;

TEST(Udp, SendsAndReceives) {
  run([] {
    auto one = udp_socket::bind("127.0.0.1:0");
    auto two = udp_socket::bind("127.0.0.1:0");
    EXPECT_EQ(one.send_to("hello", 5, two.local_address()), 5U);
    char bytes[100];
    address from;
    EXPECT_EQ(two.receive_from(bytes, sizeof bytes, from), 5U);
    EXPECT_EQ(std::string(bytes, 5), "hello");
    EXPECT_EQ(from, one.local_address());
    EXPECT_EQ(one.remote_address(), address());
  });
}

TEST(Udp, ReceiverWaits) {
  run([] {
    auto one = udp_socket::bind("127.0.0.1:0");
    auto received = async([&] {
      char bytes[10];
      address from;
      return one.receive_from(bytes, sizeof bytes, from);
    });
    this_goroutine::sleep_for(1ms);
    auto two = udp_socket::connect(one.local_address());
    EXPECT_EQ(two.remote_address(), one.local_address());
    two.send("abc", 3);
    EXPECT_EQ(received.get(), 3U);
  });
}

TEST(Udp, DatagramsKeepTheirEdges) {
  run([] {
    auto one = udp_socket::bind("127.0.0.1:0");
    auto two = udp_socket::connect(one.local_address());
    two.send("", 0);
    two.send("123456", 6);
    two.send("x", 1);
    char bytes[4];
    EXPECT_EQ(one.receive(bytes, sizeof bytes), 0U);
    EXPECT_EQ(one.receive(bytes, sizeof bytes), 4U);  // and the rest is lost
    EXPECT_EQ(one.receive(bytes, sizeof bytes), 1U);
    EXPECT_EQ(bytes[0], 'x');
  });
}

TEST(Udp, OneForAllInterfacesReachesBothKinds) {
  run([] {
    auto all = udp_socket::bind(":0");
    auto four = udp_socket::bind("127.0.0.1:0");
    all.send_to("x", 1, four.local_address());
    char byte;
    address from;
    EXPECT_EQ(four.receive_from(&byte, 1, from), 1U);
    EXPECT_TRUE(from.is_ipv4());
    four.send_to("y", 1, from);
    EXPECT_EQ(all.receive_from(&byte, 1, from), 1U);
    EXPECT_EQ(from, four.local_address());
  });
}

TEST(Udp, FailuresAreNamed) {
  run([] {
    auto one = udp_socket::bind("127.0.0.1:0");
    const address gone = one.local_address();
    one.close();
    one.close();
    std::error_code ec;
    char byte = 0;
    address from;
    one.receive_from(&byte, 1, from, ec);
    EXPECT_EQ(ec, std::errc::operation_canceled);
    auto two = udp_socket::connect(gone);
    two.send("x", 1);
    two.receive(&byte, 1, ec);
    EXPECT_EQ(ec, std::errc::connection_refused);
    two.send("x", 1);
    try {
      two.receive(&byte, 1);
      FAIL();
    } catch (const std::system_error& e) {
      EXPECT_EQ(std::string(e.what()), "receive " + gone.to_string() + ": Connection refused");
    }
    two.send_to("x", 1, address::parse("unix:/x"), ec);
    EXPECT_EQ(ec, std::errc::address_family_not_supported);
  });
}

TEST(Udp, DeadlinesAndCloseEndTheWait) {
  run([] {
    auto one = udp_socket::bind("127.0.0.1:0");
    char byte;
    std::error_code ec;
    one.set_read_deadline(clock::now() + 5ms);
    one.receive(&byte, 1, ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    one.set_deadline(never);
    auto waiting = async([&] {
      std::error_code failed;
      one.receive(&byte, 1, failed);
      return failed;
    });
    this_goroutine::sleep_for(1ms);
    one.close();
    EXPECT_EQ(waiting.get(), std::errc::operation_canceled);
  });
}

}  // namespace
}  // namespace magpie::net
