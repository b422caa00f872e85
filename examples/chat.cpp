// A chat room: `chat 127.0.0.1:7000` and several `nc 127.0.0.1 7000`; without an argument three
// guests come by themselves. Who is in the room is known to one goroutine, so there is no lock.

#include <magpie/magpie.h>

#include <iostream>
#include <map>
#include <string>

using magpie::channel;
using magpie::net::tcp_listener;
using magpie::net::tcp_stream;

namespace {

using lines = channel<std::string>;

struct arrival {
  std::string name;
  lines outbox;
};

struct room {
  channel<arrival> arrivals;
  channel<std::string> departures;
  channel<std::string> said;
};

// Passes on what is said. A guest that does not read does not hold up the others: what does not fit
// into its outbox is lost.
void keep(const room& r) {
  std::map<std::string, lines> guests;
  const auto tell_all = [&](const std::string& line) {
    for (auto& [name, outbox] : guests) outbox.try_send(std::string(line));
  };
  for (;;) {
    magpie::select(
        magpie::on_receive(r.arrivals,
                           [&](std::optional<arrival> guest) {
                             guests.emplace(guest->name, guest->outbox);
                             tell_all("* " + guest->name + " comes in\n");
                           }),
        magpie::on_receive(r.departures,
                           [&](std::optional<std::string> name) {
                             guests.extract(*name).mapped().close();
                             tell_all("* " + *name + " leaves\n");
                           }),
        magpie::on_receive(r.said, [&](std::optional<std::string> line) { tell_all(*line); }));
  }
}

// The next line without its end; empty: there is none.
std::string next_line(tcp_stream& from, std::string& rest) {
  std::size_t end;
  while ((end = rest.find('\n')) == rest.npos) {
    char bytes[512];
    std::error_code gone;
    const std::size_t n = from.read(bytes, sizeof bytes, gone);
    if (n == 0 || rest.size() > 10'000) return {};
    rest.append(bytes, n);
  }
  std::string line = rest.substr(0, end);
  rest.erase(0, end + 1);
  return line;
}

// Two goroutines for each guest: this one reads, the other writes.
void serve(const room& r, tcp_stream guest) {
  std::string rest;
  const std::string name = next_line(guest, rest);
  if (name.empty()) return;
  const lines outbox(100);
  auto writer = magpie::async([&] {
    std::error_code gone;
    for (const std::string& line : outbox) guest.write(line, gone);
  });
  r.arrivals.send({name, outbox});
  for (std::string line; !(line = next_line(guest, rest)).empty();) {
    r.said.send(name + ": " + line + "\n");
  }
  r.departures.send(name);
  writer.get();
}

// Says something once everybody is there, and leaves when it has heard three others.
void visit(const magpie::net::address& at, const std::string& name, const char* words) {
  auto room = tcp_stream::connect(at);
  room.write(name + "\n");
  std::string rest, line;
  int heard = 0;
  bool spoken = false;
  while (heard < 3 && !(line = next_line(room, rest)).empty()) {
    if (name == "wren") std::cout << line << '\n';
    if (line.find(": ") != line.npos) ++heard;
    if (!spoken && line.find("wren comes in") != line.npos) {
      room.write(std::string(words) + "\n");
      spoken = true;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  magpie::run([&] {
    auto listener = tcp_listener::listen(argc > 1 ? argv[1] : "127.0.0.1:0");
    const room r;
    magpie::go([r] { keep(r); });
    auto doorman = magpie::async([&] {
      std::error_code closed;
      for (;;) {
        tcp_stream guest = listener.accept(closed);
        if (closed) return;
        magpie::go([r, g = std::move(guest)]() mutable { serve(r, std::move(g)); });
      }
    });
    if (argc > 1) doorman.get();  // for ever
    magpie::wait_group guests;
    const auto at = listener.local_address();
    guests.go([&] { visit(at, "magpie", "is anybody here?"); });
    guests.go([&] { visit(at, "jackdaw", "where is my ring?"); });
    magpie::this_goroutine::sleep_for(std::chrono::milliseconds(20));
    guests.go([&] { visit(at, "wren", "not here"); });
    guests.wait();
    listener.close();
    doorman.get();
  });
}
