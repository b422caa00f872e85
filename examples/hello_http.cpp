// A tiny HTTP/1.1 server: keep-alive and pipelining, one goroutine for each connection. `hello_http
// 127.0.0.1:8080` for curl, a browser or wrk; without an argument it asks itself.

#include <magpie/magpie.h>

#include <iostream>
#include <string>
#include <string_view>

using magpie::net::tcp_listener;
using magpie::net::tcp_stream;
using namespace std::chrono_literals;

namespace {

std::string answer_to(std::string_view head) {
  const bool good = head.starts_with("GET ");
  const std::string_view body = good ? "Hello, world!\n" : "Only GET is spoken here.\n";
  std::string answer =
      good ? "HTTP/1.1 200 OK\r\n" : "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET\r\n";
  answer +=
      "Content-Type: text/plain\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  return answer.append(body);
}

bool wants_to_close(std::string_view head) {
  return head.find("HTTP/1.0\r\n") != head.npos || head.find("Connection: close") != head.npos;
}

// Requests may come in pieces, and several at a time.
void serve(tcp_stream client) {
  constexpr std::string_view k_end = "\r\n\r\n";
  std::string text;
  char bytes[2048];
  std::error_code gone;
  for (;;) {
    client.set_read_deadline(magpie::clock::now() +
                             60s);  // the patience with those who say nothing
    const std::size_t n = client.read(bytes, sizeof bytes, gone);
    if (n == 0 || text.size() > 16'384) return;
    text.append(bytes, n);
    std::string answers;
    bool last = false;
    for (std::size_t end; !last && (end = text.find(k_end)) != text.npos;) {
      const std::string_view head = std::string_view(text).substr(0, end + 2);
      answers += answer_to(head);
      last = wants_to_close(head) || !head.starts_with("GET ");  // it may have a body
      text.erase(0, end + k_end.size());
    }
    if (!answers.empty()) client.write(answers, gone);
    if (last || gone) return;
  }
}

void ask(const magpie::net::address& server) {
  auto self = tcp_stream::connect(server);
  self.write("GET / HTTP/1.1\r\nHost: here\r\n\r\n");
  self.write("GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
  char bytes[512];
  while (const std::size_t n = self.read(bytes, sizeof bytes))
    std::cout.write(bytes, static_cast<long>(n));
  std::cout.flush();
}

}  // namespace

int main(int argc, char** argv) {
  magpie::run([&] {
    auto listener = tcp_listener::listen(argc > 1 ? argv[1] : "127.0.0.1:0");
    if (argc < 2) {
      auto asked = magpie::async([at = listener.local_address()] { ask(at); });
      serve(listener.accept());
      return asked.get();
    }
    for (;;) magpie::go(serve, listener.accept());
  });
}
