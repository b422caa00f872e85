#include <magpie/debug.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

#include "fiber/sanitizer.h"
#include "support/prometheus.h"
#include "support/subprocess.h"

namespace magpie {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class DebugServer : public ::testing::TestWithParam<int> {
 protected:
  runtime r{{.procs = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Ps, DebugServer, ::testing::Values(1, 4));

struct answer {
  std::string head, body;
  int status() const { return head.size() > 12 ? std::stoi(head.substr(9, 3)) : 0; }
};

answer read_answer(net::stream& from) {
  std::string all;
  char part[4096];
  std::error_code gone;
  while (const std::size_t n = from.read(part, sizeof part, gone)) all.append(part, n);
  const std::size_t end = all.find("\r\n\r\n");
  if (end == all.npos) return {all, ""};
  return {all.substr(0, end + 2), all.substr(end + 4)};
}

answer ask_raw(const std::string& where, std::string_view request) {
  std::error_code gone;
  if (where.starts_with("unix:")) {
    auto to = net::unix_stream::connect(where);
    to.write(request, gone);
    return read_answer(to);
  }
  auto to = net::tcp_stream::connect(where);
  to.write(request, gone);
  return read_answer(to);
}

answer get(const std::string& where, const std::string& path, const std::string& more = {}) {
  return ask_raw(where, "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1:1\r\n" + more + "\r\n");
}

std::filesystem::path fresh_path(const char* name) {
  return std::filesystem::temp_directory_path() /
         ("magpie_" + std::to_string(getpid()) + "_" + name);
}

TEST_P(DebugServer, HasThePagesItPromises) {
  r.run([] {
    const debug::server look("127.0.0.1:0");
    EXPECT_THAT(look.address(), StartsWith("127.0.0.1:"));
    const answer page = get(look.address(), "/");
    EXPECT_EQ(page.status(), 200);
    EXPECT_THAT(page.head, HasSubstr("Content-Type: text/html"));
    EXPECT_THAT(page.head, HasSubstr("Content-Security-Policy: default-src 'none'"));
    EXPECT_THAT(page.body, HasSubstr("</html>"));
    const answer numbers = get(look.address(), "/metrics");
    EXPECT_THAT(numbers.head, HasSubstr("version=0.0.4"));
    EXPECT_NO_THROW(rt::testing::parse_prometheus(numbers.body));
    const answer stats = get(look.address(), "/stats");
    EXPECT_THAT(stats.body, HasSubstr("\"goroutines\":{\"all\":"));
    EXPECT_THAT(stats.head, HasSubstr("application/json"));
    EXPECT_EQ(get(look.address(), "/sites").status(), 200);
  });
}

TEST_P(DebugServer, ShowsGoroutines) {
  r.run([] {
    const debug::server look("127.0.0.1:0");
    event over, begun;
    std::uint64_t id = 0;
    wait_group one;
    one.add(1);
    go({.name = "the one who \"waits\""}, [&] {
      id = this_goroutine::id();
      begun.set();
      over.wait();
      one.done();
    });
    begun.wait();
    const std::string number = std::to_string(id);
    // It may be on its way still.
    while (get(look.address(), "/goroutines?id=" + number).body.find("[event wait") ==
           std::string::npos) {
      this_goroutine::yield();
    }
    EXPECT_THAT(get(look.address(), "/goroutines").body, HasSubstr("goroutine " + number + " ["));
    EXPECT_THAT(get(look.address(), "/goroutines?format=json").body,
                HasSubstr(R"("name":"the one who \"waits\"")"));
    const answer alone = get(look.address(), "/goroutines?id=" + number);
    EXPECT_THAT(alone.body, StartsWith("goroutine " + number + " ["));
    EXPECT_EQ(alone.body.find("\n\n"), std::string::npos);
    EXPECT_THAT(get(look.address(), "/goroutines?format=json&id=" + number).body,
                StartsWith("[{\"id\":" + number + ","));
    EXPECT_THAT(get(look.address(), "/sites").body, HasSubstr(R"("wait_reason":"event wait")"));
    over.set();
    one.wait();
    EXPECT_EQ(get(look.address(), "/goroutines?id=999999999").status(), 404);
  });
}

TEST_P(DebugServer, AnswersBadRequestsClearly) {
  r.run([] {
    const debug::server look("127.0.0.1:0");
    const std::string at = look.address();
    const answer lost = get(at, "/nowhere");
    EXPECT_EQ(lost.status(), 404);
    EXPECT_THAT(lost.body, HasSubstr("/goroutines"));
    const answer post =
        ask_raw(at, "POST /stats HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc");
    EXPECT_EQ(post.status(), 405);
    EXPECT_THAT(post.head, HasSubstr("Allow: GET, HEAD"));
    EXPECT_EQ(ask_raw(at, "nonsense\r\n\r\n").status(), 400);
    EXPECT_EQ(ask_raw(at, "GET / HTTP/1.1\r\n\r\n").status(), 400);
    EXPECT_EQ(get(at, "/goroutines?format=xml").status(), 400);
    EXPECT_EQ(get(at, "/goroutines?id=x").status(), 400);
    EXPECT_EQ(get(at, "/" + std::string(20'000, 'a')).status(), 431);
    const answer head = ask_raw(at, "HEAD /stats HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(head.status(), 200);
    EXPECT_EQ(head.body, "");
    EXPECT_THAT(head.head, HasSubstr("Content-Length: "));
  });
}

TEST_P(DebugServer, DoesNotAnswerPagesFromElsewhere) {
  r.run([] {
    const debug::server look("localhost:0");
    const std::string at = look.address();
    EXPECT_EQ(ask_raw(at, "GET /stats HTTP/1.1\r\nHost: evil.example\r\n\r\n").status(), 403);
    EXPECT_EQ(ask_raw(at, "GET /stats HTTP/1.1\r\nHost: localhost:1\r\n\r\n").status(), 200);
    EXPECT_EQ(get(at, "/stats", "Sec-Fetch-Site: cross-site\r\n").status(), 403);
    EXPECT_EQ(get(at, "/stats", "Sec-Fetch-Site: same-origin\r\n").status(), 200);
    EXPECT_THAT(get(at, "/stats").head, Not(HasSubstr("Access-Control")));
  });
}

TEST_P(DebugServer, ListensOnLoopbackUnlessToldOtherwise) {
  r.run([] {
    EXPECT_THROW(debug::server("0.0.0.0:0"), misuse);
    EXPECT_THROW(debug::server("[::]:0"), misuse);
    EXPECT_THROW(debug::server("nonsense"), misuse);
    EXPECT_THAT(debug::server(":0").address(), StartsWith("127.0.0.1:"));
    const debug::server open("0.0.0.0:0", {.beyond_loopback = true});
    const std::string port = open.address().substr(open.address().rfind(':'));
    EXPECT_EQ(get("127.0.0.1" + port, "/stats").status(), 200);
    EXPECT_THROW(debug::server("127.0.0.1" + port), std::system_error);
  });
}

TEST_P(DebugServer, AUnixSocketIsForItsOwner) {
  const std::filesystem::path path = fresh_path("debug");
  r.run([&] {
    const std::string where = "unix:" + path.string();
    {
      const debug::server look(where);
      EXPECT_EQ(look.address(), where);
      struct stat found {};
      ASSERT_EQ(stat(path.c_str(), &found), 0);
      EXPECT_EQ(found.st_mode & 0777, 0600u);
      EXPECT_EQ(get(where, "/stats").status(), 200);
      EXPECT_THROW(debug::server{where}, std::system_error);  // it is in use
      EXPECT_EQ(get(where, "/stats").status(), 200);
    }
    EXPECT_FALSE(std::filesystem::exists(path));
  });
}

// As a process that was killed leaves it.
TEST_P(DebugServer, ASocketThatNobodyListensOnIsReplaced) {
  const std::filesystem::path path = fresh_path("stale");
  r.run([&] {
    const std::filesystem::path kept = path.string() + ".kept";
    {
      auto left = net::unix_listener::listen(path.string());
      std::filesystem::rename(path, kept);
    }
    std::filesystem::rename(kept, path);
    const debug::server look("unix:" + path.string());
    EXPECT_EQ(get(look.address(), "/stats").status(), 200);
  });
}

TEST_P(DebugServer, AFileInTheWayStays) {
  const std::filesystem::path path = fresh_path("file");
  r.run([&] {
    file::open(path, open_mode::write | open_mode::create).close();
    EXPECT_THROW(debug::server("unix:" + path.string()), std::system_error);
    EXPECT_TRUE(std::filesystem::is_regular_file(path));
  });
  std::filesystem::remove(path);
}

TEST_P(DebugServer, EndsWithConnectionsOpen) {
  r.run([] {
    std::vector<net::tcp_stream> silent;
    {
      const debug::server look("127.0.0.1:0");
      for (int i = 0; i < 5; ++i) silent.push_back(net::tcp_stream::connect(look.address()));
      silent[0].write("GET / HT");
      EXPECT_EQ(get(look.address(), "/stats").status(), 200);
    }
    for (net::tcp_stream& one : silent) {
      std::error_code ignored;
      char byte = 0;
      EXPECT_EQ(one.read(&byte, 1, ignored), 0u);
    }
  });
  while (r.read_stats().goroutines != 0) std::this_thread::yield();  // none is left behind
}

TEST_P(DebugServer, TurnsAwayTooMany) {
  r.run([] {
    const debug::server look("127.0.0.1:0");
    std::vector<net::tcp_stream> silent;
    for (int i = 0; i < 32; ++i) silent.push_back(net::tcp_stream::connect(look.address()));
    EXPECT_EQ(get(look.address(), "/stats").status(), 503);
    silent.clear();
    while (get(look.address(), "/stats").status() != 200) this_goroutine::sleep_for(1ms);
  });
}

TEST_P(DebugServer, AnswersManyAtATimeWhileOthersSpin) {
  r.run([] {
    const debug::server look("127.0.0.1:0");
    std::atomic<bool> over{false};
    wait_group hogs;
    for (int i = 0; i < 4; ++i) {
      hogs.go([&] {
        while (!over.load(std::memory_order_relaxed)) {
        }
      });
    }
    wait_group clients;
    for (int i = 0; i < 8; ++i) {
      clients.go([&] {
        for (const char* const path : {"/stats", "/goroutines", "/sites", "/metrics"}) {
          EXPECT_EQ(get(look.address(), path).status(), 200) << path;
        }
      });
    }
    clients.wait();
    over = true;
    hogs.wait();
  });
}

TEST_P(DebugServer, RecordsATrace) {
  r.run([] {
    const debug::server look("127.0.0.1:0");
    auto other = async([&] { return get(look.address(), "/trace?seconds=1"); });
    while (!trace::enabled()) this_goroutine::sleep_for(1ms);
    EXPECT_EQ(get(look.address(), "/trace").status(), 409);
    const answer recorded = other.get();
    EXPECT_EQ(recorded.status(), 200);
    EXPECT_THAT(recorded.body, StartsWith("go 1."));
    EXPECT_FALSE(trace::enabled());
    for (const char* const wrong : {"0", "61", "x", "-1", "1.5"}) {
      EXPECT_EQ(get(look.address(), std::string("/trace?seconds=") + wrong).status(), 400);
    }
  });
}

// Nobody waits for it any more.
TEST_P(DebugServer, EndsInTheMiddleOfATrace) {
  r.run([] {
    wait_group asked;
    {
      const debug::server look("127.0.0.1:0");
      asked.go([at = look.address()] { get(at, "/trace?seconds=60"); });
      while (!trace::enabled()) this_goroutine::sleep_for(1ms);
    }
    asked.wait();
    EXPECT_FALSE(trace::enabled());
  });
}

TEST_P(DebugServer, HasTheLastSeconds) {
  r.run([] {
    EXPECT_EQ(get(debug::server("127.0.0.1:0").address(), "/flight").status(), 404);
    const debug::server look("127.0.0.1:0", {.flight_recorder = true});
    for (int i = 0; i < 100; ++i) async([] {}).get();
    const answer recorded = get(look.address(), "/flight");
    EXPECT_EQ(recorded.status(), 200);
    EXPECT_THAT(recorded.body, StartsWith("go 1."));
  });
  EXPECT_FALSE(trace::enabled());
}

constexpr bool k_own_new = rt::sanitizer::k_thread || rt::sanitizer::k_address;

TEST(DebugServerMemory, OneConnectionEndsAndNoMoreThanThat) {
  if (k_own_new) GTEST_SKIP() << "the sanitizer has its own operator new";
  const auto end = rt::testing::run_program("server_memory", {"accept"});
  EXPECT_EQ(end.exit_code, 0) << end.signal;
  EXPECT_EQ(end.output, "some were refused\n");
}

TEST(DebugServerMemory, OneThatCannotBeMadeLeavesNothing) {
  if (k_own_new) GTEST_SKIP() << "the sanitizer has its own operator new";
  const auto end = rt::testing::run_program("server_memory", {"make"});
  EXPECT_EQ(end.exit_code, 0) << end.signal;
  EXPECT_EQ(end.output, "some were not made, 0 descriptors more\n");
}

TEST(DebugServerOutside, CanBeMadeByAPlainThread) {
  const debug::server look("127.0.0.1:0");
  EXPECT_EQ(run([&] { return get(look.address(), "/stats").status(); }), 200);
}

}  // namespace
}  // namespace magpie
