// Two ends of one TCP connection, on this machine.
#pragma once

#include <magpie/net.h>

#include <string>
#include <utility>

namespace magpie::rt::testing {

struct tcp_pair {
  net::tcp_stream client;
  net::tcp_stream server;
};

inline tcp_pair make_tcp_pair() {
  auto listener = net::tcp_listener::listen("127.0.0.1:0");
  auto client = net::tcp_stream::connect(listener.local_address());
  auto server = listener.accept();
  return {std::move(client), std::move(server)};
}

// What comes next, at most so much; empty at the end.
template <class Stream>
std::string read_some(Stream& from, std::size_t most = 4096) {
  std::string text(most, '\0');
  text.resize(from.read(text.data(), text.size()));
  return text;
}

template <class Stream>
std::string read_all(Stream& from) {
  std::string text;
  for (std::string part; !(part = read_some(from)).empty();) text += part;
  return text;
}

// Exactly so much, unless it ends before.
template <class Stream>
std::string read_exactly(Stream& from, std::size_t size) {
  std::string text;
  while (text.size() < size) {
    const std::string part = read_some(from, size - text.size());
    if (part.empty()) break;
    text += part;
  }
  return text;
}

}  // namespace magpie::rt::testing
