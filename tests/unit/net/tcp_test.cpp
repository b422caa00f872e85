#include <magpie/net/tcp.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

#include "support/loopback.h"
#include "support/process_counts.h"

namespace magpie::net {
namespace {

using namespace std::chrono_literals;
using rt::testing::make_tcp_pair;
using rt::testing::read_all;
using rt::testing::read_exactly;
using rt::testing::read_some;
using rt::testing::tcp_pair;
using ::testing::HasSubstr;

// A pattern that shows when something is missing or doubled.
std::string pattern(std::size_t size) {
  std::string bytes(size, '\0');
  std::uint32_t x = 1;
  for (char& byte : bytes) byte = static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
  return bytes;
}

std::string what_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::system_error& e) {
    return e.what();
  }
  return "nothing thrown";
}

// The peer gets a reset instead of an end.
void reset(tcp_stream& stream) {
  const linger now{1, 0};
  ASSERT_EQ(setsockopt(stream.native_handle(), SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
  stream.close();
}

int option(const tcp_stream& stream, int level, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  EXPECT_EQ(getsockopt(stream.native_handle(), level, name, &value, &size), 0);
  return value;
}

TEST(Tcp, EchoesWhatIsSent) {
  run([] {
    auto listener = tcp_listener::listen("127.0.0.1:0");
    auto server = async([&] {
      auto client = listener.accept();
      char bytes[100];
      while (const std::size_t n = client.read(bytes, sizeof bytes)) client.write(bytes, n);
    });
    auto client = tcp_stream::connect(listener.local_address().to_string(), 5s);
    for (const char* word : {"a", "magpie", "steals"}) {
      EXPECT_EQ(client.write(word), std::string(word).size());
      EXPECT_EQ(read_exactly(client, std::string(word).size()), word);
    }
    client.shutdown_write();
    EXPECT_EQ(read_all(client), "");
    server.get();
  });
}

TEST(Tcp, WorksOnPlainThreads) {
  tcp_pair both = make_tcp_pair();
  std::thread other([&] { EXPECT_EQ(read_all(both.server), "from a thread"); });
  both.client.write("from a thread");
  both.client.close();
  other.join();
}

TEST(Tcp, BothEndsKnowWhereTheyAre) {
  run([] {
    auto listener = tcp_listener::listen("127.0.0.1:0");
    auto client = tcp_stream::connect(listener.local_address());
    auto server = listener.accept();
    EXPECT_NE(listener.local_address().port(), 0);
    EXPECT_EQ(client.remote_address(), listener.local_address());
    EXPECT_EQ(server.local_address(), listener.local_address());
    EXPECT_EQ(client.local_address(), server.remote_address());
    const address peer = server.remote_address();
    server.close();
    EXPECT_EQ(server.remote_address(), peer);
    std::error_code ec;
    server.local_address(ec);
    EXPECT_EQ(ec, std::errc::operation_canceled);
  });
}

TEST(Tcp, WithoutAHostListensEverywhere) {
  run([] {
    auto listener = tcp_listener::listen(":0");
    const std::string port = std::to_string(listener.local_address().port());
    for (const std::string host : {"127.0.0.1:", "", "localhost:"}) {
      auto client = tcp_stream::connect(host + (host.empty() ? ":" : "") + port);
      auto server = listener.accept();
      EXPECT_EQ(client.local_address(), server.remote_address());
    }
  });
}

TEST(Tcp, ReadingNothingReturnsAtOnce) {
  run([] {
    tcp_pair both = make_tcp_pair();
    EXPECT_EQ(both.client.read(std::span<std::byte>()), 0U);
    EXPECT_EQ(both.client.write(""), 0U);
    both.client.close();
    std::error_code ec;
    both.client.read(std::span<std::byte>(), ec);
    EXPECT_EQ(ec, std::errc::operation_canceled);
  });
}

TEST(Tcp, AHalfClosedStreamStillReads) {
  run([] {
    tcp_pair both = make_tcp_pair();
    both.client.write("question");
    both.client.shutdown_write();
    EXPECT_EQ(read_all(both.server), "question");
    both.server.write("answer");
    both.server.close();
    EXPECT_EQ(read_all(both.client), "answer");
    EXPECT_THAT(what_of([&] { both.client.write("more"); }), HasSubstr("Broken pipe"));
  });
}

// More than the kernel takes at once, to a peer that reads slowly.
TEST(Tcp, ALargeWriteArrivesWhole) {
  run([] {
    tcp_pair both = make_tcp_pair();
    const std::string sent = pattern(16 << 20);
    auto reader = async([&] {
      std::string got;
      for (std::string part; !(part = read_some(both.server, 60'000)).empty();) {
        got += part;
        if (got.size() % 7 == 0) this_goroutine::sleep_for(100us);
      }
      return got;
    });
    EXPECT_EQ(both.client.write(sent), sent.size());
    both.client.close();
    EXPECT_TRUE(reader.get() == sent);
  });
}

TEST(Tcp, PiecesArriveAsOne) {
  run([] {
    tcp_pair both = make_tcp_pair();
    const std::string whole = pattern(4 << 20);
    std::vector<std::span<const std::byte>> pieces;
    const auto bytes = std::as_bytes(std::span(whole));
    std::size_t at = 0, size = 0;
    while (at < bytes.size()) {  // of all sizes, none at all among them
      const std::size_t length = std::min(size % 9000, bytes.size() - at);
      pieces.push_back(bytes.subspan(at, length));
      at += length;
      size = size * 5 + 3;
    }
    auto reader = async([&] { return read_all(both.server); });
    both.client.write(pieces);
    both.client.write(std::span<const std::span<const std::byte>>());
    both.client.close();
    EXPECT_TRUE(reader.get() == whole);
    std::error_code ec;
    both.client.write(pieces, ec);
    EXPECT_EQ(ec, std::errc::operation_canceled);
  });
}

// Two writers do not mix, however large what they write is.
TEST(Tcp, WritersTakeTurns) {
  run([] {
    tcp_pair both = make_tcp_pair();
    constexpr std::size_t k_size = 1 << 20;
    wait_group writers;
    for (const char letter : {'a', 'b', 'c'}) {
      writers.go([&, letter] { both.client.write(std::string(k_size, letter)); });
    }
    std::string seen;
    for (int i = 0; i < 3; ++i) {
      const std::string block = read_exactly(both.server, k_size);
      EXPECT_EQ(block.find_first_not_of(block[0]), std::string::npos);
      seen += block[0];
    }
    writers.wait();
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, "abc");
  });
}

TEST(Tcp, ReadersTakeTurns) {
  run([] {
    tcp_pair both = make_tcp_pair();
    std::atomic<std::size_t> total{0};
    wait_group readers;
    for (int i = 0; i < 10; ++i) {
      readers.go([&] {
        char byte;
        while (both.server.read(&byte, 1) != 0) ++total;
      });
    }
    both.client.write(std::string(1000, 'x'));
    both.client.shutdown_write();
    readers.wait();
    EXPECT_EQ(total, 1000U);
  });
}

TEST(Tcp, ReadsAndWritesAtTheSameTime) {
  run([] {
    tcp_pair both = make_tcp_pair();
    const std::string sent = pattern(4 << 20);
    const auto converse = [&sent](tcp_stream& stream) {
      auto writer = async([&] { stream.write(sent); });
      const std::string got = read_exactly(stream, sent.size());
      writer.get();
      return got == sent;
    };
    auto there = async([&] { return converse(both.client); });
    EXPECT_TRUE(converse(both.server));
    EXPECT_TRUE(there.get());
  });
}

// ---- Errors -----------------------------------------------------------------------------------

TEST(Tcp, RefusedConnectionsNameThePeer) {
  run([] {
    auto listener = tcp_listener::listen("127.0.0.1:0");
    const std::string place = listener.local_address().to_string();
    listener.close();
    EXPECT_EQ(what_of([&] { tcp_stream::connect(place); }),
              "connect " + place + ": Connection refused");
    std::error_code ec;
    EXPECT_FALSE(tcp_stream::connect(place, 1s, ec));
    EXPECT_EQ(ec, std::errc::connection_refused);
    EXPECT_FALSE(tcp_stream::connect("nonsense", ec));
    EXPECT_EQ(ec, std::errc::invalid_argument);
    EXPECT_FALSE(tcp_stream::connect(address(), 1s, ec));
    EXPECT_TRUE(ec);
  });
}

TEST(Tcp, AddressesInUseAreNamed) {
  run([] {
    auto listener = tcp_listener::listen("127.0.0.1:0");
    const std::string place = listener.local_address().to_string();
    EXPECT_EQ(what_of([&] { tcp_listener::listen(place); }),
              "listen " + place + ": Address already in use");
    std::error_code ec;
    EXPECT_FALSE(tcp_listener::listen(place, ec));
    EXPECT_EQ(ec, std::errc::address_in_use);
    EXPECT_FALSE(tcp_listener::listen(address::parse("unix:/x"), {}, ec));
    EXPECT_EQ(ec, std::errc::address_family_not_supported);
  });
}

TEST(Tcp, AResetIsAnErrorThatNamesThePeer) {
  run([] {
    tcp_pair both = make_tcp_pair();
    const std::string peer = both.server.remote_address().to_string();
    auto reading = async([&] { return what_of([&] { read_some(both.server); }); });
    this_goroutine::sleep_for(1ms);
    reset(both.client);
    EXPECT_EQ(reading.get(), "read " + peer + ": Connection reset by peer");
  });
}

// Without an end of the process by SIGPIPE.
TEST(Tcp, WritingToOneWhoIsGoneFails) {
  run([] {
    tcp_pair both = make_tcp_pair();
    both.client.close();
    std::error_code ec;
    for (int i = 0; i < 10'000 && !ec; ++i) both.server.write("anybody there?", ec);
    EXPECT_TRUE(ec == std::errc::broken_pipe || ec == std::errc::connection_reset) << ec.message();
  });
}

TEST(Tcp, WhatIsClosedSaysSo) {
  run([] {
    tcp_stream none;
    EXPECT_FALSE(none);
    EXPECT_EQ(none.native_handle(), -1);
    std::error_code ec;
    char byte = 0;
    EXPECT_EQ(none.read(&byte, 1, ec), 0U);
    EXPECT_EQ(ec, std::errc::operation_canceled);
    EXPECT_EQ(none.write("x", ec), 0U);
    EXPECT_EQ(ec, std::errc::operation_canceled);
    none.shutdown_write(ec);
    EXPECT_EQ(ec, std::errc::operation_canceled);
    none.set_no_delay(true, ec);
    EXPECT_EQ(ec, std::errc::operation_canceled);
    none.set_deadline(never);
    none.close();
    EXPECT_THROW(none.read(&byte, 1), std::system_error);
    tcp_listener nowhere;
    EXPECT_FALSE(nowhere.accept(ec));
    EXPECT_EQ(ec, std::errc::operation_canceled);

    tcp_pair both = make_tcp_pair();
    EXPECT_TRUE(both.client);
    both.client.close();
    both.client.close();
    EXPECT_FALSE(both.client);
    both.client.read(&byte, 1, ec);
    EXPECT_EQ(ec, std::errc::operation_canceled);
    ec.clear();
    both.client.write("x", ec);
    EXPECT_EQ(ec, std::errc::operation_canceled);
  });
}

TEST(Tcp, MovingTakesTheConnectionAlong) {
  run([] {
    tcp_pair one = make_tcp_pair(), two = make_tcp_pair();
    tcp_stream taken = std::move(one.client);
    EXPECT_FALSE(one.client);
    taken.write("x");
    EXPECT_EQ(read_some(one.server), "x");
    taken = std::move(two.client);
    EXPECT_EQ(read_all(one.server), "");  // the old one was closed
    taken.write("y");
    EXPECT_EQ(read_some(two.server), "y");
    stream any = std::move(taken);
    any.write("z");
    EXPECT_EQ(read_some(two.server), "z");
  });
}

// ---- Close while in use -----------------------------------------------------------------------

TEST(Tcp, CloseWakesWhoWaits) {
  run([] {
    for (int i = 0; i < 50; ++i) {
      tcp_pair both = make_tcp_pair();
      auto listener = tcp_listener::listen("127.0.0.1:0");
      std::vector<future<std::error_code>> waiting;
      for (int k = 0; k < 3; ++k) {
        waiting.push_back(async([&] {
          char byte;
          std::error_code ec;
          both.client.read(&byte, 1, ec);
          return ec;
        }));
        waiting.push_back(async([&] {
          std::error_code ec;
          while (!ec) both.client.write(std::string(1 << 20, 'x'), ec);
          return ec;
        }));
        waiting.push_back(async([&] {
          std::error_code ec;
          listener.accept(ec);
          return ec;
        }));
      }
      if (i % 2 == 0) this_goroutine::sleep_for(100us);
      both.client.close();
      listener.close();
      for (auto& each : waiting) EXPECT_EQ(each.get(), std::errc::operation_canceled);
    }
  });
}

TEST(Tcp, NothingIsLeftBehind) {
  run([] { make_tcp_pair(); });  // the poller has descriptors of its own
  const std::size_t before = rt::testing::descriptor_count();
  run([] {
    for (int i = 0; i < 100; ++i) {
      tcp_pair both = make_tcp_pair();
      both.client.write("x");
      EXPECT_EQ(read_some(both.server), "x");
      std::error_code ec;
      tcp_stream::connect("127.0.0.1:1", ec);
    }
  });
  EXPECT_EQ(rt::testing::descriptor_count(), before);
}

// ---- Deadlines --------------------------------------------------------------------------------

// A listener whose queue is full does not answer.
TEST(Tcp, ConnectTimesOut) {
  run([] {
    auto listener = tcp_listener::listen(address::parse("127.0.0.1:0"), {.backlog = 1});
    std::vector<tcp_stream> queued;
    std::error_code ec;
    while (!ec && queued.size() < 20) {
      const auto start = clock::now();
      queued.push_back(tcp_stream::connect(listener.local_address(), 100ms, ec));
      if (ec) {
        EXPECT_GE(clock::now() - start, 100ms);
      }
    }
    EXPECT_EQ(ec, std::errc::timed_out);
    EXPECT_EQ(ec.category(), std::generic_category());
    const std::string place = listener.local_address().to_string();
    EXPECT_THAT(what_of([&] { tcp_stream::connect(place, 10ms); }), HasSubstr("connect " + place));
    tcp_stream::connect(place, -1s, ec);
    EXPECT_EQ(ec, std::errc::timed_out);
  });
}

TEST(Tcp, AcceptReadAndWriteTimeOut) {
  run([] {
    auto listener = tcp_listener::listen("127.0.0.1:0");
    std::error_code ec;
    auto start = clock::now();
    listener.set_deadline(start + 20ms);
    EXPECT_FALSE(listener.accept(ec));
    EXPECT_EQ(ec, std::errc::timed_out);
    EXPECT_GE(clock::now() - start, 20ms);

    tcp_pair both = make_tcp_pair();
    char byte;
    start = clock::now();
    both.client.set_read_deadline(start + 20ms);
    both.client.read(&byte, 1, ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    EXPECT_GE(clock::now() - start, 20ms);
    both.client.write("fine", ec);
    EXPECT_FALSE(ec);

    start = clock::now();
    both.client.set_write_deadline(start + 20ms);
    while (!ec) both.client.write(std::string(1 << 20, 'x'), ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    EXPECT_GE(clock::now() - start, 20ms);
  });
}

TEST(Tcp, ALaterDeadlineMakesItUsableAgain) {
  run([] {
    tcp_pair both = make_tcp_pair();
    both.server.write("there");
    both.client.set_deadline(clock::now() - 1s);
    std::error_code ec;
    char bytes[8];
    both.client.read(bytes, sizeof bytes, ec);
    EXPECT_EQ(ec, std::errc::timed_out);  // although there is something
    both.client.write("x", ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    both.client.set_deadline(never);
    EXPECT_EQ(both.client.read(bytes, sizeof bytes, ec), 5U);
    EXPECT_FALSE(ec);
    both.client.write("x");
    EXPECT_EQ(read_some(both.server), "x");
  });
}

TEST(Tcp, ADeadlineThatComesWhileWaitingCounts) {
  run([] {
    tcp_pair both = make_tcp_pair();
    auto reading = async([&] {
      char byte;
      std::error_code ec;
      both.client.read(&byte, 1, ec);
      return ec;
    });
    this_goroutine::sleep_for(1ms);
    both.client.set_read_deadline(clock::now() + 5ms);
    EXPECT_EQ(reading.get(), std::errc::timed_out);
  });
}

// ---- Options ----------------------------------------------------------------------------------

TEST(Tcp, SmallWritesAreSentAtOnceUnlessTold) {
  run([] {
    tcp_pair both = make_tcp_pair();
    for (const tcp_stream* each : {&both.client, &both.server}) {
      EXPECT_NE(option(*each, IPPROTO_TCP, TCP_NODELAY), 0);
      EXPECT_NE(option(*each, SOL_SOCKET, SO_KEEPALIVE), 0);
    }
    both.client.set_no_delay(false);
    both.client.set_keep_alive(false);
    EXPECT_EQ(option(both.client, IPPROTO_TCP, TCP_NODELAY), 0);
    EXPECT_EQ(option(both.client, SOL_SOCKET, SO_KEEPALIVE), 0);
  });
}

TEST(Tcp, ListenersCanShareAPort) {
  run([] {
    auto one = tcp_listener::listen("127.0.0.1:0", listen_options{.reuse_port = true});
    auto two = tcp_listener::listen(one.local_address(), {.reuse_port = true});
    EXPECT_EQ(one.local_address(), two.local_address());
    std::atomic<int> accepted{0};
    wait_group all;
    for (tcp_listener* each : {&one, &two}) {
      all.go([&accepted, each] {
        std::error_code ec;
        while (each->accept(ec)) ++accepted;
      });
    }
    for (int i = 0; i < 50; ++i) {
      auto client = tcp_stream::connect(one.local_address());
    }
    while (accepted != 50) this_goroutine::sleep_for(100us);
    one.close();
    two.close();
    all.wait();
  });
}

TEST(Tcp, ConnectionsThatAreGoneAreStillAccepted) {
  run([] {
    auto listener = tcp_listener::listen("127.0.0.1:0");
    for (int i = 0; i < 20; ++i) {
      auto client = tcp_stream::connect(listener.local_address());
      reset(client);
    }
    auto good = tcp_stream::connect(listener.local_address());
    good.write("good");
    for (;;) {
      auto accepted = listener.accept();
      std::error_code ec;
      char bytes[10];
      if (accepted.read(bytes, sizeof bytes, ec) == 4) break;
      EXPECT_EQ(ec, std::errc::connection_reset);
    }
  });
}

}  // namespace
}  // namespace magpie::net
