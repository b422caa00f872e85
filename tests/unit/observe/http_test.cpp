#include "observe/http.h"

#include <gtest/gtest.h>

#include "observe/json.h"

namespace magpie::rt {
namespace {

TEST(HttpRequest, IsTakenApart) {
  const auto request = parse_http_request(
      "GET /goroutines?format=json&id=%37 HTTP/1.1\r\nHOST: localhost:1 \r\nX-Y:z\r\n\r\n");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->method, "GET");
  EXPECT_EQ(request->path, "/goroutines");
  EXPECT_EQ(request->query_value("format"), "json");
  EXPECT_EQ(request->query_value("id"), "7");
  EXPECT_EQ(request->query_value("nothing"), "");
  EXPECT_EQ(request->header("host"), "localhost:1");
  EXPECT_EQ(request->header("x-y"), "z");
  EXPECT_FALSE(request->header("z"));
}

TEST(HttpRequest, WhatIsNoneIsRefused) {
  const char* const k_wrong[] = {
      "",
      "\r\n\r\n",
      "GET /\r\n\r\n",
      "GET / HTTP/2\r\nHost: x\r\n\r\n",
      "GET / HTTP/1.1\r\n\r\n",                        // no Host
      "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",  // two
      "GET relative HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET /%0 HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n",
      "G ET / HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET / HTTP/1.1\r\nHost x\r\n\r\n",
      "GET / HTTP/1.1\r\n: x\r\nHost: x\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
  };
  for (const char* const text : k_wrong) EXPECT_FALSE(parse_http_request(text)) << text;
}

TEST(HttpRequest, OldOnesNeedNoHost) { EXPECT_TRUE(parse_http_request("GET / HTTP/1.0\r\n\r\n")); }

TEST(HttpHost, NamesThatMayLeadAnywhereAreNotTrusted) {
  for (const char* const good : {"127.0.0.1", "127.0.0.1:6060", "[::1]:6060", "[::1]", "localhost",
                                 "LOCALHOST:80", "a.localhost:1", "10.0.0.7:80", "box:6060"}) {
    EXPECT_TRUE(is_trusted_host(good, "box")) << good;
  }
  for (const char* const bad : {"evil.example", "evil.example:6060", "127.0.0.1.evil.example", "",
                                "localhost.evil.example:6060", "unix:1", "[evil]:1", "box2:6060"}) {
    EXPECT_FALSE(is_trusted_host(bad, "box")) << bad;
  }
}

TEST(HttpAnswer, HasItsLengthAndForbidsSniffing) {
  const std::string text = http_head({.body = "hello"});
  EXPECT_TRUE(text.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(text.ends_with("\r\n\r\n"));
  EXPECT_NE(text.find("Content-Length: 5\r\n"), text.npos);
  EXPECT_NE(text.find("X-Content-Type-Options: nosniff\r\n"), text.npos);
}

std::string json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(Json, StringsAreQuoted) {
  EXPECT_EQ(json("plain"), "\"plain\"");
  EXPECT_EQ(json("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
  EXPECT_EQ(json("\xc3\xa9 \xf0\x9f\x90\xa6"), "\"\xc3\xa9 \xf0\x9f\x90\xa6\"");
}

TEST(Json, WhatIsNotUtf8IsReplaced) {
  const std::string k_instead = "\xef\xbf\xbd";
  EXPECT_EQ(json("a\xff"
                 "b"),
            "\"a" + k_instead + "b\"");
  EXPECT_EQ(json("\xc3"), "\"" + k_instead + "\"");
  EXPECT_EQ(json("\xed\xa0\x80"), "\"" + k_instead + k_instead + k_instead + "\"");
  EXPECT_EQ(json("\xc0\xaf"), "\"" + k_instead + k_instead + "\"");
}

TEST(Json, CommasComeByThemselves) {
  json_writer writer;
  writer.begin('{').field("a", 1).key("b").begin('[').number(1.5).text("x").begin('{').end('}');
  writer.end(']').key("c").boolean(true).end('}');
  EXPECT_EQ(writer.take(), R"({"a":1,"b":[1.5,"x",{}],"c":true})");
}

}  // namespace
}  // namespace magpie::rt
