#include <magpie/net/resolve.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include <magpie/magpie.h>

namespace magpie::net {
namespace {

using namespace std::chrono_literals;

bool contains(const std::vector<address>& all, const char* one) {
  return std::find(all.begin(), all.end(), address::parse(one)) != all.end();
}

TEST(Resolve, NumbersNeedNoServer) {
  EXPECT_EQ(resolve("127.0.0.1", "80"), std::vector{address::parse("127.0.0.1:80")});
  EXPECT_EQ(resolve("::1", "0"), std::vector{address::parse("[::1]:0")});
}

TEST(Resolve, NamesAreLookedUp) {
  run([] {
    const auto found = resolve("localhost", "80");
    EXPECT_TRUE(contains(found, "127.0.0.1:80") || contains(found, "[::1]:80"));
    for (std::size_t i = 1; i < found.size(); ++i) EXPECT_NE(found[i - 1], found[i]);
  });
}

TEST(Resolve, FailuresAreOfTheirOwnCategory) {
  run([] {
    std::error_code ec;
    EXPECT_TRUE(resolve("no.such.host.invalid", "80", ec).empty());
    EXPECT_EQ(ec.category(), resolve_category());
    EXPECT_TRUE(ec == std::errc::address_not_available ||
                ec == std::errc::resource_unavailable_try_again)
        << ec.message();
    EXPECT_FALSE(ec.message().empty());
    try {
      resolve("no.such.host.invalid", "80");
      FAIL();
    } catch (const std::system_error& e) {
      EXPECT_EQ(std::string(e.what()).find("resolve no.such.host.invalid:80: "), 0U) << e.what();
    }
    resolve("127.0.0.1", "no-such-service", ec);
    EXPECT_EQ(ec, std::errc::address_not_available);
  });
}

// Whatever the server does, the time is kept.
TEST(Resolve, ATimeoutOfConnectCountsForIt) {
  run([] {
    std::error_code ec;
    EXPECT_FALSE(tcp_stream::connect("no.such.host.invalid:80", 1ns, ec));
    EXPECT_TRUE(ec);
  });
}

}  // namespace
}  // namespace magpie::net
