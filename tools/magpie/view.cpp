// view.cpp: the smallest server that a browser is content with.

#include "tools/magpie/view.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <iostream>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>

#include "tools/magpie/page.h"

namespace magpie_tool {

namespace {

constexpr std::size_t k_max_request = 16 * 1024;
constexpr timeval k_patience{10, 0};  // with a browser that opens a connection and says nothing
constexpr std::chrono::milliseconds k_pause{50};

struct site {
  std::string secret;
  std::string page;
  const std::vector<std::uint8_t>& trace;
};

class descriptor {
 public:
  explicit descriptor(int number) : number_(number) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (number_ >= 0) close(number_);
  }
  [[nodiscard]] int get() const { return number_; }

 private:
  int number_;
};

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

std::string make_secret() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) fail("no random numbers");
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4U];
    text += "0123456789abcdef"[byte & 15U];
  }
  return text;
}

bool send_all(int socket, const void* data, std::size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = send(socket, at, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

void respond(int socket, std::string_view status, std::string_view type, const void* data,
             std::size_t size) {
  const std::string head = "HTTP/1.1 " + std::string(status) +
                           "\r\nContent-Type: " + std::string(type) +
                           "\r\nContent-Length: " + std::to_string(size) +
                           "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff"
                           "\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n";
  if (send_all(socket, head.data(), head.size())) send_all(socket, data, size);
}

// The path of a request for something; empty if it is no such request.
std::string read_request(int socket) {
  std::string request;
  while (request.find("\r\n\r\n") == std::string::npos && request.size() < k_max_request) {
    char part[2048];
    const ssize_t got = recv(socket, part, sizeof part, 0);
    if (got <= 0) return {};
    request.append(part, static_cast<std::size_t>(got));
  }
  constexpr std::string_view k_method = "GET ";
  if (!request.starts_with(k_method)) return {};
  const std::size_t end = request.find(' ', k_method.size());
  return end == std::string::npos ? "" : request.substr(k_method.size(), end - k_method.size());
}

void answer(int socket, const site& of) {
  const std::string path = read_request(socket);
  if (path.empty()) return;
  if (path == "/" + of.secret + "/") {
    respond(socket, "200 OK", "text/html; charset=utf-8", of.page.data(), of.page.size());
  } else if (path == "/" + of.secret + "/trace") {
    respond(socket, "200 OK", "application/octet-stream", of.trace.data(), of.trace.size());
  } else {
    constexpr std::string_view k_text = "There is nothing here.\n";
    respond(socket, "404 Not Found", "text/plain", k_text.data(), k_text.size());
  }
}

int listen_on_loopback(std::uint16_t port) {
  const int socket_number = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_number < 0) fail("cannot make a socket");
  const int yes = 1;
  setsockopt(socket_number, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (bind(socket_number, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(socket_number, 16) != 0) {
    const int error = errno;
    close(socket_number);
    errno = error;
    fail("cannot listen on loopback");
  }
  return socket_number;
}

std::uint16_t port_of(int socket_number) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (getsockname(socket_number, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    fail("cannot tell the port");
  }
  return ntohs(address.sin_port);
}

// The next connection; -1: not now. Whoever connects waits meanwhile.
int accept_one(int listener) {
  const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (connection >= 0) return connection;
  switch (errno) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:  // until some of the others have been answered
      std::this_thread::sleep_for(k_pause);
      return -1;
    case EBADF:
    case EINVAL:
    case ENOTSOCK:
    case EOPNOTSUPP:
      fail("cannot accept a connection");
    default:  // something about that connection, or an interruption
      return -1;
  }
}

// In a thread of its own: a browser opens several at once, and uses some of them later.
void answer_aside(int connection, const site& of) {
  const auto work = [connection, &of] {
    const descriptor open(connection);
    answer(open.get(), of);
  };
  try {
    std::thread(work).detach();
  } catch (const std::system_error&) {  // no more threads
    work();
  }
}

// It is nice if it works, and the address is printed anyway.
void open_browser(const std::string& address) {
  std::string program = "xdg-open";
  std::string argument = address;
  char* const words[] = {program.data(), argument.data(), nullptr};
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", 1, 0);
  posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", 1, 0);
  pid_t child = -1;
  posix_spawnp(&child, program.c_str(), &quiet, nullptr, words, environ);
  posix_spawn_file_actions_destroy(&quiet);
}

}  // namespace

int serve_view(const view_settings& settings) {
  const descriptor listener(listen_on_loopback(settings.port));
  const site served{make_secret(), page_for(settings.name, "trace"), settings.bytes};
  const std::string address =
      "http://127.0.0.1:" + std::to_string(port_of(listener.get())) + "/" + served.secret + "/";
  std::cout << settings.name << " is at " << address << "  (Ctrl-C ends)" << std::endl;
  signal(SIGCHLD, SIG_IGN);
  if (settings.browser) open_browser(address);
  for (;;) {
    const int connection = accept_one(listener.get());
    if (connection < 0) continue;
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &k_patience, sizeof k_patience);
    setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &k_patience, sizeof k_patience);
    // `served` stays until the process ends: this function is never left by a return.
    answer_aside(connection, served);
  }
}

}  // namespace magpie_tool
