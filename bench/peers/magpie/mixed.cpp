// What a service does, all at once: for what tracing costs in production. Magpie's only.

#include "workloads.h"

#include <array>
#include <cstdint>
#include <unordered_map>

#include <magpie/channel.h>
#include <magpie/mutex.h>

namespace workloads {
namespace {

struct request {
  std::uint64_t number = 0;
  magpie::channel<std::uint64_t>* answer = nullptr;
};

// About three microseconds of work that touches a little memory.
std::uint64_t digest(std::uint64_t seed) {
  std::array<std::uint64_t, 256> block;
  for (std::uint64_t& word : block)
    word = seed = seed * 6364136223846793005u + 1442695040888963407u;
  for (int round = 0; round < 8; ++round) {
    for (std::size_t i = 0; i < block.size(); ++i) seed ^= block[(seed + i) % block.size()] + i;
  }
  return seed;
}

// Clients ask over a channel; workers look up or compute, under a lock that is sometimes contended,
// start a goroutine for one request in 8, and answer; a client sleeps after one in 256.
nanoseconds serve(long clients, long requests_each) {
  magpie::channel<request> questions(16);
  magpie::mutex lock;
  std::unordered_map<std::uint64_t, std::uint64_t> known;
  completion workers;
  for (int i = 0; i < 8; ++i) {
    workers.go([&] {
      while (auto asked = questions.receive()) {
        const std::uint64_t found = digest(asked->number);
        {
          const std::lock_guard hold(lock);
          known[asked->number % 1000] = found;
        }
        if (asked->number % 8 == 0) {
          magpie::go([answer = asked->answer, found] { answer->send(digest(found)); });
        } else {
          asked->answer->send(found);
        }
      }
    });
  }
  const nanoseconds took = together(clients, [&] {
    magpie::channel<std::uint64_t> answer(1);
    for (long n = 1; n <= requests_each; ++n) {
      questions.send({static_cast<std::uint64_t>(n), &answer});
      answer.receive();
      if (n % 256 == 0) magpie::this_goroutine::sleep_for(microseconds(100));
    }
  });
  questions.close();
  workers.wait();
  return took;
}

void mixed() {
  const long clients = 64;
  const long each = std::max(1L, count(400'000) / clients);
  serve(clients, std::max(1L, each / 10));
  report("mixed", per_operation(serve(clients, each), clients * each), "ns/op");
}

}  // namespace

void add_mixed(table& to) { to["mixed"] = mixed; }

}  // namespace workloads
