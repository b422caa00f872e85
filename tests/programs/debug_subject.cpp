// A program with a debug server, for those that look at it: says where it listens, and ends when
// its standard input does.

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>

#include <magpie/magpie.h>

using namespace magpie;
using namespace std::chrono_literals;

int main(int count, char** words) {
  run({.procs = 2}, [&] {
    const debug::server look(count > 1 ? words[1] : "127.0.0.1:0", {.flight_recorder = true});
    channel<unit> over;
    static mutex wanted;  // some want it to the end
    wanted.lock();
    const int receivers = count > 2 ? std::atoi(words[2]) : 50;
    for (int i = 0; i < receivers; ++i) go({.name = "receiver"}, [=] { over.receive(); });
    for (int i = 0; i < 7; ++i) {
      go([] {
        wanted.lock();
        wanted.unlock();
      });
    }
    go([=] {
      for (;;) this_goroutine::sleep_for(1ms);
    });
    std::cout << look.address() << std::endl;
    char byte = 0;
    while (blocking(hand_off_now, [&] { return read(STDIN_FILENO, &byte, 1); }) > 0) {
    }
    wanted.unlock();
    over.close();
  });
}
