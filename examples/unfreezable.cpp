// The classic freeze: on every worker a task that spins and a task that blocks its thread. Most
// runtimes stop here. This one keeps answering on a socket, and says what it was asked to bear.
//
//   unfreezable [seconds]

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <magpie/magpie.h>

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

namespace {

// Answers whatever it is sent.
void serve(magpie::net::tcp_stream client) {
  char text[64];
  while (const std::size_t size = client.read(text, sizeof text)) client.write(text, size);
}

// How long an answer takes, one after the other.
std::vector<steady::duration> ask_until(steady::time_point end,
                                        const magpie::net::address& server) {
  auto connection = magpie::net::tcp_stream::connect(server.to_string());
  std::vector<steady::duration> times;
  while (steady::now() < end) {
    const auto start = steady::now();
    char answer[4];
    connection.write("ping");
    for (std::size_t got = 0; got < sizeof answer;) {
      got += connection.read(answer + got, sizeof answer - got);
    }
    times.push_back(steady::now() - start);
    magpie::this_goroutine::sleep_for(1ms);
  }
  return times;
}

double in_ms(steady::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

}  // namespace

int main(int argc, char** argv) {
  const auto length = std::chrono::seconds(argc > 1 ? std::atoi(argv[1]) : 2);
  magpie::run([&] {
    std::atomic<bool> over{false};
    magpie::wait_group freezers;
    for (int i = 0; i < magpie::procs(); ++i) {
      // Not a single call in the loop.
      freezers.go([&] {
        while (!over.load(std::memory_order_relaxed)) {
        }
      });
      // Plain libc: the kernel holds the thread, and nobody has told magpie.
      freezers.go([&] {
        while (!over) usleep(100'000);
      });
    }
    auto listener = magpie::net::tcp_listener::listen("127.0.0.1:0");
    const auto where = listener.local_address();
    magpie::go([&] { serve(listener.accept()); });
    auto times = ask_until(steady::now() + length, where);
    over = true;
    freezers.wait();
    std::sort(times.begin(), times.end());
    std::printf(
        "%d Ps, each with a goroutine that spins and one that blocks: %zu answers, "
        "half of them within %.2f ms, the slowest after %.2f ms\n",
        magpie::procs(), times.size(), in_ms(times[times.size() / 2]), in_ms(times.back()));
    const auto s = magpie::runtime::current().read_stats();
    std::printf("stopped %llu times, %llu Ps taken from sleeping threads, at most %d threads\n",
                static_cast<unsigned long long>(s.preemptions),
                static_cast<unsigned long long>(s.retakes), s.threads_peak);
  });
}
