// Servers for the load programs: each prints "listening <port>" and answers until it is killed.

#include "workloads.h"

#include <cstring>
#include <string_view>

namespace workloads {
namespace {

using magpie::net::tcp_listener;
using magpie::net::tcp_stream;

tcp_listener listen_on_any_port() {
  tcp_listener listener = tcp_listener::listen("127.0.0.1:0");
  std::printf("listening %d\n", listener.local_address().port());
  std::fflush(stdout);
  return listener;
}

void echo(tcp_stream& client) {
  char bytes[2048];
  std::error_code ec;
  for (;;) {
    const std::size_t got = client.read(bytes, sizeof bytes, ec);
    if (got == 0) return;
    if (client.write(bytes, got, ec) == 0) return;
  }
}

void echo_server() {
  tcp_listener listener = listen_on_any_port();
  for (;;) {
    magpie::go([client = listener.accept()]() mutable { echo(client); });
  }
}

constexpr std::string_view k_answer =
    "HTTP/1.1 200 OK\r\n"
    "Content-Type: text/plain\r\n"
    "Content-Length: 14\r\n"
    "\r\n"
    "Hello, world!\n";

// Answers every request whose head has come; those of wrk have no body. Requests may come in
// pieces, and several at a time.
void hello(tcp_stream& client) {
  constexpr std::string_view k_end = "\r\n\r\n";
  char bytes[2048];
  std::size_t filled = 0;
  std::error_code ec;
  for (;;) {
    const std::size_t got = client.read(bytes + filled, sizeof bytes - filled, ec);
    if (got == 0) return;
    filled += got;
    std::string_view rest(bytes, filled);
    for (std::size_t end; (end = rest.find(k_end)) != rest.npos;) {
      if (client.write(k_answer, ec) == 0) return;
      rest.remove_prefix(end + k_end.size());
    }
    filled = rest.size();
    if (filled == sizeof bytes) return;  // too long a head
    std::memmove(bytes, rest.data(), filled);
  }
}

void hello_server() {
  tcp_listener listener = listen_on_any_port();
  for (;;) {
    magpie::go([client = listener.accept()]() mutable { hello(client); });
  }
}

}  // namespace

void add_servers(table& to) {
  to["echo_server"] = echo_server;
  to["hello_server"] = hello_server;
}

}  // namespace workloads
