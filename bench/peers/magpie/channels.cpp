// Channels and select.

#include "workloads.h"

#include <magpie/channel.h>
#include <magpie/select.h>

#include <array>
#include <cstddef>

namespace workloads {
namespace {

// Ping-pong: one ball between two goroutines, over two unbuffered channels.
nanoseconds pingpong_all(long rounds) {
  const magpie::channel<long> ping(0);
  const magpie::channel<long> pong(0);
  magpie::go([ping, pong] {
    for (const long ball : ping) pong.send(ball);
  });
  const instant start = now();
  for (long r = 0; r < rounds; ++r) {
    ping.send(r);
    if (pong.receive() != r) fail("pingpong: not the ball that was sent");
  }
  const nanoseconds elapsed = now() - start;
  ping.close();
  return elapsed;
}

void pingpong() {
  const long rounds = count(1'000'000);
  pingpong_all(std::max(1L, rounds / 10));
  report("pingpong", per_operation(pingpong_all(rounds), rounds), "ns/op");
}

// Pass: items from producers to consumers, over one channel with room for 128.
nanoseconds pass_all(long producers, long consumers, long each) {
  const magpie::channel<long> line(128);
  completion sent;
  completion received;
  std::atomic<long> sum{0};
  const instant start = now();
  for (long i = 0; i < producers; ++i) {
    sent.go([&line, each] {
      for (long item = 0; item < each; ++item) line.send(item);
    });
  }
  for (long i = 0; i < consumers; ++i) {
    received.go([&line, &sum] {
      long mine = 0;
      for (const long item : line) mine += item;
      sum += mine;
    });
  }
  sent.wait();
  line.close();
  received.wait();
  const nanoseconds elapsed = now() - start;
  if (sum != producers * (each * (each - 1) / 2)) fail("channel: wrong sum");
  return elapsed;
}

void pass(const char* name, long producers, long consumers) {
  const long each = std::max(1L, count(4'000'000) / producers);
  pass_all(producers, consumers, std::max(1L, each / 10));
  report(name, per_operation(pass_all(producers, consumers, each), producers * each), "ns/op");
}

// Select: one goroutine takes an item from any of several channels, all ready, and puts it back.
template <std::size_t... Index>
nanoseconds choose_often(long rounds, std::index_sequence<Index...> indices) {
  std::array<magpie::channel<long>, indices.size()> channels;
  for (auto& channel : channels) {
    channel = magpie::channel<long>(1);
    channel.send(1);
  }
  const auto put_back = [](const magpie::channel<long>& channel) {
    return magpie::on_receive(channel,
                              [&channel](std::optional<long> item) { channel.send(*item); });
  };
  const instant start = now();
  for (long r = 0; r < rounds; ++r) magpie::select(put_back(channels[Index])...);
  return now() - start;
}

template <std::size_t Channels>
void choose(const char* name) {
  constexpr std::make_index_sequence<Channels> indices;
  const long rounds = count(1'000'000);
  choose_often(std::max(1L, rounds / 10), indices);
  report(name, per_operation(choose_often(rounds, indices), rounds), "ns/op");
}

}  // namespace

void add_channels(table& to) {
  to["pingpong"] = pingpong;
  to["chan_1p1c"] = [] { pass("chan_1p1c", 1, 1); };
  to["chan_4p4c"] = [] { pass("chan_4p4c", 4, 4); };
  to["select2"] = [] { choose<2>("select2"); };
  to["select8"] = [] { choose<8>("select8"); };
}

}  // namespace workloads
