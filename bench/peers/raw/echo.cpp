// The echo server that echo servers are measured against: one thread, epoll, no library.
//
//   raw_echo
//
// prints "listening <port>" and answers until it is killed.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

void check(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::exit(1);
}

int listen_on_any_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  check(fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&at), size) == 0, "bind");
  check(listen(fd, SOMAXCONN) == 0, "listen");
  check(getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) == 0, "getsockname");
  std::printf("listening %d\n", ntohs(at.sin_port));
  std::fflush(stdout);
  return fd;
}

void watch(int poll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  check(epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
}

void accept_all(int poll, int listener) {
  for (;;) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    watch(poll, fd);
  }
}

// Requests are small: what is read at once can be written at once.
void echo(int fd) {
  char bytes[4096];
  const ssize_t got = recv(fd, bytes, sizeof bytes, 0);
  if (got <= 0) {
    close(fd);
  } else {
    check(send(fd, bytes, static_cast<std::size_t>(got), MSG_NOSIGNAL) == got, "send");
  }
}

}  // namespace

int main() {
  const int listener = listen_on_any_port();
  const int poll = epoll_create1(EPOLL_CLOEXEC);
  watch(poll, listener);
  epoll_event events[128];
  for (;;) {
    const int count = epoll_wait(poll, events, 128, -1);
    for (int i = 0; i < count; ++i) {
      if (events[i].data.fd == listener) {
        accept_all(poll, listener);
      } else {
        echo(events[i].data.fd);
      }
    }
  }
}
