// A server at its limits, with its clients in a process of their own.
//
//   sockets out_of_descriptors    128 descriptors, 1000 clients: how much it computes meanwhile,
//   and
//                                 how soon it serves again
//   sockets idle <count>          so many idle connections: the memory of each
//
// prints what it found as "name=value" lines.

#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <magpie/magpie.h>

namespace {

using namespace std::chrono_literals;
using magpie::net::tcp_listener;
using magpie::net::tcp_stream;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::_Exit(1);
}

void allow_descriptors(rlim_t count) {
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  if (count > limit.rlim_max) {
    std::printf("skipped: only %lu descriptors are allowed here\n",
                static_cast<unsigned long>(limit.rlim_max));
    std::fflush(stdout);
    std::_Exit(0);
  }
  limit.rlim_cur = count;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) fail("setrlimit");
}

// ---- The clients' process: no magpie in it ----------------------------------------------------

// The two processes tell each other to go on, a byte at a time.
struct line {
  int in, out;
  void tell() const {
    if (write(out, "x", 1) != 1) fail("tell");
  }
  void await() const {
    char byte;
    if (read(in, &byte, 1) != 1) std::_Exit(1);
  }
};

int connect_to(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  if (fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) fail("connect");
  return fd;
}

// Milliseconds until the server has answered a byte.
double time_of_one_answer(int port) {
  const auto start = std::chrono::steady_clock::now();
  const int fd = connect_to(port);
  char byte = 'x';
  if (write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1) fail("answer");
  close(fd);
  const auto taken = std::chrono::steady_clock::now() - start;
  return std::chrono::duration<double, std::milli>(taken).count();
}

[[noreturn]] void clients(int port, int count, line parent) {
  allow_descriptors(static_cast<rlim_t>(count) + 50);
  std::vector<int> all;
  for (int i = 0; i < count; ++i) all.push_back(connect_to(port));
  parent.tell();
  parent.await();
  for (const int fd : all) close(fd);
  std::printf("recovery_ms=%.1f\n", time_of_one_answer(port));
  std::fflush(stdout);
  parent.tell();
  std::_Exit(0);
}

// A socket that nobody listens at yet: both processes need to know the port.
line start_clients(int port, int count) {
  int down[2], up[2];
  if (pipe(down) != 0 || pipe(up) != 0) fail("pipe");
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // If the parent has ended before that, there is nothing to await.
    close(down[1]);
    close(up[0]);
    const line parent{down[0], up[1]};
    parent.await();
    clients(port, count, parent);
  }
  return {up[0], down[1]};
}

// ---- The server's -----------------------------------------------------------------------------

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  if (bind(fd, reinterpret_cast<sockaddr*>(&at), size) != 0) fail("bind");
  getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size);
  close(fd);
  return ntohs(at.sin_port);
}

double cpu_seconds() {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// Anonymous memory of the process, in bytes.
double own_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) == 0) return std::atof(line.c_str() + 8) * 1024;
  }
  return 0;
}

std::atomic<int> g_open{0};

void serve(tcp_stream& client) {
  char bytes[256];
  std::error_code ec;
  while (const std::size_t n = client.read(bytes, sizeof bytes, ec)) {
    if (client.write(bytes, n, ec) == 0) return;
  }
}

void serve_all(tcp_listener& listener) {
  for (std::error_code ec;;) {
    tcp_stream client = listener.accept(ec);
    if (ec == std::errc::operation_canceled) return;
    if (ec) {
      std::printf("accept: %s\n", ec.message().c_str());
      std::_Exit(1);
    }
    magpie::go([c = std::move(client)]() mutable {
      ++g_open;
      serve(c);
      --g_open;
    });
  }
}

// A thread of the kernel waits, so that the server's goroutines have their Ps for themselves.
void await(const line& child) {
  magpie::blocking(magpie::hand_off_now, [&] { child.await(); });
}

void out_of_descriptors() {
  const int port = free_port();
  const line child = start_clients(port, 1000);
  allow_descriptors(128);
  magpie::run([&] {
    auto listener = tcp_listener::listen("127.0.0.1:" + std::to_string(port));
    auto accepting = magpie::async([&] { serve_all(listener); });
    child.tell();
    await(child);
    magpie::this_goroutine::sleep_for(200ms);
    const int open = g_open;
    const double before = cpu_seconds();
    magpie::this_goroutine::sleep_for(1s);
    std::printf("served=%d\ncpu_percent=%.2f\n", open, 100 * (cpu_seconds() - before));
    std::fflush(stdout);
    child.tell();
    await(child);
    listener.close();
    accepting.get();
  });
}

void idle(int count) {
  const int port = free_port();
  const line child = start_clients(port, count);
  allow_descriptors(static_cast<rlim_t>(count) + 50);
  magpie::run([&] {
    auto listener = tcp_listener::listen("127.0.0.1:" + std::to_string(port));
    auto accepting = magpie::async([&] { serve_all(listener); });
    const double before = own_memory();
    child.tell();
    await(child);
    while (g_open != count) magpie::this_goroutine::sleep_for(10ms);
    std::printf("bytes_each=%.0f\n", (own_memory() - before) / count);
    std::fflush(stdout);
    child.tell();
    await(child);
    listener.close();
    accepting.get();
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "out_of_descriptors") {
    out_of_descriptors();
  } else if (mode == "idle" && argc > 2) {
    idle(std::atoi(argv[2]));
  } else {
    return 2;
  }
  std::fflush(stdout);
  std::_Exit(0);
}
