#include <gtest/gtest.h>

#include <string>

#include <magpie/net/address.h>

#include "net/host_port.h"
#include "os/socket.h"

namespace magpie::net {
namespace {

TEST(Address, PrintsWhatWasParsed) {
  for (const char* text :
       {"127.0.0.1:80", "0.0.0.0:0", "255.255.255.255:65535", "[::1]:80", "[::]:0",
        "[2001:db8::7]:443", "[fe80::1%1]:80", "unix:/run/x", "unix:relative", "unix:@abstract"}) {
    const address parsed = address::parse(text);
    const std::string printed = parsed.to_string();
    // An interface is printed by name, if it has one.
    if (std::string(text).find('%') == std::string::npos) {
      EXPECT_EQ(printed, text);
    }
    EXPECT_EQ(address::parse(printed), parsed) << printed;
  }
}

TEST(Address, RefusesWhatIsNone) {
  for (const char* text :
       {"", ":", "127.0.0.1", "127.0.0.1:", ":80", "127.0.0.1:65536", "127.0.0.1:-1",
        "127.0.0.1:80x", "localhost:80", "::1:80", "[::1]", "[127.0.0.1]:80", "[::1:80", "::1]:80",
        "[::1%nosuchinterface]:80", "unix:", "256.0.0.1:80", "127.0.0.1:http", "[[::1]]:80"}) {
    std::error_code ec;
    EXPECT_EQ(address::parse(text, ec), address()) << text;
    EXPECT_EQ(ec, std::errc::invalid_argument) << text;
  }
  EXPECT_EQ(address::parse("unix:/" + std::string(106, 'x')).host().size(), 107U);
  std::error_code ec;
  address::parse("unix:/" + std::string(107, 'x'), ec);
  EXPECT_EQ(ec, std::errc::filename_too_long);
}

TEST(Address, SaysWhatItCouldNotParse) {
  try {
    address::parse("here:there");
    FAIL();
  } catch (const std::system_error& e) {
    EXPECT_EQ(e.code(), std::errc::invalid_argument);
    EXPECT_NE(std::string(e.what()).find("here:there"), std::string::npos) << e.what();
  }
}

TEST(Address, HasParts) {
  const address four = address::parse("127.0.0.1:80");
  EXPECT_TRUE(four.is_ipv4() && !four.is_ipv6() && !four.is_unix());
  EXPECT_EQ(four.port(), 80);
  EXPECT_EQ(four.host(), "127.0.0.1");
  const address six = address::parse("[::1]:443");
  EXPECT_TRUE(six.is_ipv6());
  EXPECT_EQ(six.port(), 443);
  EXPECT_EQ(six.host(), "::1");
  const address path = address::parse("unix:/run/x");
  EXPECT_TRUE(path.is_unix());
  EXPECT_EQ(path.port(), 0);
  EXPECT_EQ(path.host(), "/run/x");
  EXPECT_EQ(address().to_string(), "");
  EXPECT_EQ(address().port(), 0);
}

TEST(Address, ComparesAll) {
  EXPECT_EQ(address::parse("127.0.0.1:80"), address::parse("127.0.0.1:80"));
  EXPECT_NE(address::parse("127.0.0.1:80"), address::parse("127.0.0.1:81"));
  EXPECT_NE(address::parse("127.0.0.1:80"), address::parse("127.0.0.2:80"));
  EXPECT_NE(address::parse("unix:/a"), address::parse("unix:/b"));
  EXPECT_NE(address(), address::parse("unix:/b"));
}

TEST(Address, IPv4InsideIPv6IsIPv4) {
  const address four = address::parse("10.1.2.3:80");
  const auto six = rt::os::mapped_to_ipv6(four.raw());
  EXPECT_EQ(rt::os::family_of(six), rt::os::address_family::ipv6);
  EXPECT_EQ(address(rt::os::unmapped(six)), four);
  const address other = address::parse("[::1]:80");
  EXPECT_EQ(address(rt::os::unmapped(other.raw())), other);
}

TEST(HostPort, Splits) {
  std::error_code ec;
  const auto parts = [&](const char* text) {
    const rt::host_port split = rt::split_host_port(text, ec);
    return std::string(split.host) + "|" + std::string(split.port);
  };
  EXPECT_EQ(parts("host:80"), "host|80");
  EXPECT_EQ(parts(":80"), "|80");
  EXPECT_EQ(parts("[::1]:http"), "::1|http");
  EXPECT_FALSE(ec);
  for (const char* bad : {"host", "host:", "::1:80", "[]:80", "[::1]80", "a[b]:80"}) {
    parts(bad);
    EXPECT_EQ(ec, std::errc::invalid_argument) << bad;
  }
}

}  // namespace
}  // namespace magpie::net
