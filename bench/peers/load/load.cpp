// The client of the echo servers: closed loop, that is every connection sends its next request when
// the answer to the last one is there.
//
//   load <name> <procs> <divisor> <server program> [its arguments]
//
// starts the server, which prints "listening <port>", keeps 100 connections busy with 64 bytes each
// for four seconds, and prints rate and latency as the other programs here do. The first one and a
// half do not count: a server that traces itself has looked up its names by then. One thread.
//
//   load modes <procs> <seconds> <server program> [its arguments]
//
// compares a server without a trace, one that traces itself (into the file MAGPIE_BENCH_TRACE) and
// one with a flight recorder: all three run, and get a tenth of a second of work each, in turn.
// What is compared is their processor time for a request: the rate goes up and down with the
// machine.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using clock_type = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr int k_connections = 100;
constexpr std::size_t k_size = 64;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

struct server {
  pid_t process;
  int port;
};

server start(char** words, const char* variable = nullptr, const char* value = "1") {
  int ends[2];
  if (pipe(ends) != 0) fail("pipe");
  const pid_t process = fork();
  if (process < 0) fail("fork");
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(ends[1], 1);
    close(ends[0]);
    close(ends[1]);
    if (variable != nullptr) setenv(variable, value, 1);
    execv(words[0], words);
    fail(words[0]);
  }
  close(ends[1]);
  std::FILE* const said = fdopen(ends[0], "r");
  int port = 0;
  if (std::fscanf(said, "listening %d", &port) != 1) {
    std::fprintf(stderr, "load: %s did not say where it listens\n", words[0]);
    std::exit(1);
  }
  return {process, port};
}

struct connection {
  int fd;
  std::size_t received;  // of the current answer
  clock_type::time_point sent;
};

int connect_to(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  if (connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) fail("connect");
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

class client {
 public:
  explicit client(int port) : poll_(epoll_create1(EPOLL_CLOEXEC)) {
    for (int i = 0; i < k_connections; ++i) {
      connections_.push_back({connect_to(port), 0, {}});
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u32 = static_cast<std::uint32_t>(i);
      epoll_ctl(poll_, EPOLL_CTL_ADD, connections_.back().fd, &event);
    }
    start();
  }

  void start() {
    for (connection& each : connections_) request(each);
  }
  // Until every request has its answer.
  void stop() {
    for (connection& each : connections_) {
      char bytes[k_size];
      while (each.received < k_size) {
        const ssize_t got = recv(each.fd, bytes, k_size - each.received, 0);
        if (got <= 0) fail("recv");
        each.received += static_cast<std::size_t>(got);
      }
    }
    answers_ += connections_.size();
  }
  std::size_t answers() const { return answers_; }  // since the beginning

  // Returns the rate, in requests per second.
  double run(nanoseconds duration) {
    times_.clear();
    const auto start = clock_type::now();
    const auto end = start + duration;
    epoll_event events[k_connections];
    auto now = start;
    while (now < end) {
      const int count = epoll_wait(poll_, events, k_connections, 1000);
      if (count == 0) {
        std::fprintf(stderr, "load: no answer for a second\n");
        std::exit(1);
      }
      for (int i = 0; i < count; ++i) answer(connections_[events[i].data.u32]);
      now = clock_type::now();
    }
    return static_cast<double>(times_.size()) / std::chrono::duration<double>(now - start).count();
  }

  double microseconds_at(double share) {
    const auto index = static_cast<std::size_t>(share * static_cast<double>(times_.size() - 1));
    std::nth_element(times_.begin(), times_.begin() + static_cast<long>(index), times_.end());
    return times_[index] / 1e3;
  }

 private:
  void request(connection& one) {
    char bytes[k_size] = {'m'};
    one.received = 0;
    one.sent = clock_type::now();
    if (send(one.fd, bytes, sizeof bytes, MSG_NOSIGNAL) != sizeof bytes) fail("send");
  }

  void answer(connection& one) {
    char bytes[k_size];
    const ssize_t got = recv(one.fd, bytes, sizeof bytes - one.received, 0);
    if (got <= 0) fail("recv");
    one.received += static_cast<std::size_t>(got);
    if (one.received < k_size) return;
    times_.push_back(static_cast<double>(nanoseconds(clock_type::now() - one.sent).count()));
    ++answers_;
    request(one);
  }

  const int poll_;
  std::size_t answers_ = 0;
  std::vector<connection> connections_;
  std::vector<double> times_;  // of the answers
};

// User and system time of all its threads.
double processor_nanos(pid_t process) {
  clockid_t clock;
  timespec time;
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) fail("clock");
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

void end(const server& one) {
  kill(one.process, SIGKILL);
  waitpid(one.process, nullptr, 0);
}

// One of the three, and what it has used since it had warmed up.
class contender {
 public:
  contender(const char* mode, const server& of) : mode_(mode), server_(of), load_(of.port) {
    load_.run(milliseconds(1500));
    load_.stop();
  }
  void begin() {
    used_before_ = processor_nanos(server_.process);
    answers_before_ = load_.answers();
  }
  void take_turn() {
    load_.start();
    load_.run(milliseconds(100));
    load_.stop();
  }
  void report(const char* procs) const {
    std::printf("workload=%s procs=%s value=%.1f unit=ns\n", mode_, procs,
                (processor_nanos(server_.process) - used_before_) /
                    static_cast<double>(load_.answers() - answers_before_));
    end(server_);
  }

 private:
  const char* const mode_;
  const server server_;
  client load_;
  double used_before_ = 0;
  std::size_t answers_before_ = 0;
};

void compare_modes(const char* procs, int seconds, char** words) {
  const char* const file = std::getenv("MAGPIE_BENCH_TRACE");
  contender all[] = {
      {"off", start(words)},
      {"tracing", start(words, "MAGPIE_TRACE", file != nullptr ? file : "/dev/null")},
      {"flight", start(words, "MAGPIE_BENCH_FLIGHT")}};
  for (contender& each : all) each.begin();
  for (int i = 0; i < 10 * seconds; ++i) all[i % 3].take_turn();
  for (const contender& each : all) each.report(procs);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: load <name> <procs> <divisor> <server> [its arguments]\n");
    return 2;
  }
  const int number = std::max(1, std::atoi(argv[3]));
  if (std::string(argv[1]) == "modes") {
    compare_modes(argv[2], number, argv + 4);
    return 0;
  }
  const server echo = start(argv + 4);
  client all(echo.port);
  all.run(milliseconds(1500) / number);
  const double rate = all.run(milliseconds(2500) / number);
  const double p50 = all.microseconds_at(0.5), p99 = all.microseconds_at(0.99);
  std::printf("workload=%s procs=%s value=%.0f unit=req/s\n", argv[1], argv[2], rate);
  std::printf("workload=%s_p50 procs=%s value=%.1f unit=us\n", argv[1], argv[2], p50);
  std::printf("workload=%s_p99 procs=%s value=%.1f unit=us\n", argv[1], argv[2], p99);
  end(echo);
}
