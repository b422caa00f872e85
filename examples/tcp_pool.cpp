// A pool of workers behind a TCP port: clients send numbers, a line each, and get answers as they
// are ready. Many connections, four workers: `tcp_pool 127.0.0.1:7000`, or without an argument a
// hundred clients of its own.

#include <magpie/magpie.h>

#include <atomic>
#include <charconv>
#include <iostream>
#include <string>

using magpie::net::tcp_listener;
using magpie::net::tcp_stream;

namespace {

struct job {
  long number;
  magpie::channel<std::string> answers;
};

long collatz_steps(long n) {
  long steps = 0;
  for (; n > 1; ++steps) n = n % 2 == 0 ? n / 2 : 3 * n + 1;
  return steps;
}

void work(const magpie::channel<job>& jobs) {
  for (const job& each : jobs) {
    const long steps = collatz_steps(each.number);
    each.answers.send(std::to_string(each.number) + " takes " + std::to_string(steps) + "\n");
  }
}

// Reads numbers until the client has no more, while another goroutine writes the answers.
void serve(const magpie::channel<job>& jobs, tcp_stream client) {
  const magpie::channel<std::string> answers(16);
  magpie::wait_group open;  // numbers without an answer
  auto writer = magpie::async([&] {
    std::error_code gone;
    for (const std::string& answer : answers) {
      client.write(answer, gone);
      open.done();
    }
  });
  std::string text;
  char bytes[1024];
  std::error_code gone;
  while (const std::size_t n = client.read(bytes, sizeof bytes, gone)) {
    text.append(bytes, n);
    for (std::size_t end; (end = text.find('\n')) != text.npos; text.erase(0, end + 1)) {
      long number = 0;
      std::from_chars(text.data(), text.data() + end, number);
      open.add(1);
      jobs.send({number, answers});
    }
  }
  open.wait();
  answers.close();
  writer.get();
}

// Sends its numbers and counts the answers.
long ask(const magpie::net::address& at, long first, long count) {
  auto pool = tcp_stream::connect(at);
  for (long n = first; n < first + count; ++n) pool.write(std::to_string(n) + "\n");
  pool.shutdown_write();
  long answers = 0;
  char bytes[1024];
  while (const std::size_t n = pool.read(bytes, sizeof bytes)) {
    for (const char c : std::string_view(bytes, n)) answers += c == '\n';
  }
  return answers;
}

}  // namespace

int main(int argc, char** argv) {
  magpie::run([&] {
    const magpie::channel<job> jobs(64);
    magpie::wait_group workers;
    for (int i = 0; i < 4; ++i) workers.go([&] { work(jobs); });
    auto listener = tcp_listener::listen(argc > 1 ? argv[1] : "127.0.0.1:0");
    magpie::wait_group connections;
    auto accepting = magpie::async([&] {
      std::error_code closed;
      for (;;) {
        tcp_stream client = listener.accept(closed);
        if (closed) return;
        connections.go([&, c = std::move(client)]() mutable { serve(jobs, std::move(c)); });
      }
    });
    if (argc > 1) accepting.get();  // for ever
    std::atomic<long> answers{0};
    magpie::wait_group clients;
    for (long i = 0; i < 100; ++i) {
      clients.go([&, i] { answers += ask(listener.local_address(), 1 + 100 * i, 100); });
    }
    clients.wait();
    listener.close();
    accepting.get();
    connections.wait();
    jobs.close();
    workers.wait();
    std::cout << "100 clients, 4 workers: " << answers << " answers\n";
  });
}
