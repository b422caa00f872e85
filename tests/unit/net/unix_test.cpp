#include <magpie/net/unix.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include <magpie/magpie.h>

#include "support/loopback.h"

namespace magpie::net {
namespace {

using namespace std::chrono_literals;
using rt::testing::read_all;
using rt::testing::read_some;

class Unix : public ::testing::Test {
 protected:
  const std::string path_ =
      (std::filesystem::temp_directory_path() / ("magpie-" + std::to_string(getpid()))).string();
  ~Unix() override { std::filesystem::remove(path_); }
};

TEST_F(Unix, Converses) {
  run([&] {
    const std::string abstract = "@magpie-" + std::to_string(getpid());
    for (const std::string& name : {path_, "unix:" + path_, abstract, "unix:" + abstract}) {
      auto listener = unix_listener::listen(name);
      auto client = unix_stream::connect(name);
      auto server = listener.accept();
      EXPECT_TRUE(client.remote_address().is_unix());
      EXPECT_EQ(client.remote_address(), listener.local_address());
      client.write("ping");
      EXPECT_EQ(read_some(server), "ping");
      server.write("pong");
      server.shutdown_write();
      EXPECT_EQ(read_all(client), "pong");
    }
  });
}

// What serves TCP serves these.
TEST_F(Unix, HasNoDelayToSwitchOff) {
  run([&] {
    auto listener = unix_listener::listen(path_);
    auto client = unix_stream::connect(listener.local_address(), std::chrono::hours::max());
    for (const bool on : {true, false}) EXPECT_NO_THROW(client.set_no_delay(on));
    client.close();
    std::error_code ec;
    client.set_no_delay(true, ec);
    EXPECT_EQ(ec, std::errc::operation_canceled);
    EXPECT_THROW(client.set_no_delay(true), std::system_error);
  });
}

TEST_F(Unix, TheFileGoesWithTheListener) {
  run([&] {
    auto listener = unix_listener::listen(path_);
    EXPECT_TRUE(std::filesystem::exists(path_));
    std::error_code ec;
    EXPECT_FALSE(unix_listener::listen(path_, ec));
    EXPECT_EQ(ec, std::errc::address_in_use);
    EXPECT_TRUE(std::filesystem::exists(path_));
    listener.close();
    EXPECT_FALSE(std::filesystem::exists(path_));
    EXPECT_FALSE(unix_stream::connect(path_, ec));
    EXPECT_EQ(ec, std::errc::no_such_file_or_directory);
    try {
      unix_stream::connect(path_);
      FAIL();
    } catch (const std::system_error& e) {
      EXPECT_EQ(std::string(e.what()), "connect " + path_ + ": No such file or directory");
    }
  });
}

// The kernel does not tell when the queue has room again.
TEST_F(Unix, WaitsForRoomInTheQueue) {
  run([&] {
    auto listener = unix_listener::listen(path_, listen_options{.backlog = 1});
    std::vector<unix_stream> queued;
    std::error_code ec;
    while (!ec && queued.size() < 20) queued.push_back(unix_stream::connect(path_, 20ms, ec));
    EXPECT_EQ(ec, std::errc::timed_out);
    auto late = async([&] { return unix_stream::connect(path_); });
    for (std::size_t i = 0; i < queued.size(); ++i) listener.accept();
    EXPECT_TRUE(late.get());
  });
}

TEST_F(Unix, RefusesOtherAddresses) {
  std::error_code ec;
  unix_stream::connect(address::parse("127.0.0.1:80"), 1s, ec);
  EXPECT_EQ(ec, std::errc::address_family_not_supported);
  unix_listener::listen(address::parse("127.0.0.1:80"), {}, ec);
  EXPECT_EQ(ec, std::errc::address_family_not_supported);
  unix_listener::listen("", ec);
  EXPECT_EQ(ec, std::errc::invalid_argument);
  unix_listener::listen("/" + std::string(200, 'x'), ec);
  EXPECT_EQ(ec, std::errc::filename_too_long);
}

}  // namespace
}  // namespace magpie::net
