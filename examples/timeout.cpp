// Waiting, but not for ever: a select with a timeout, and a context with a deadline.
#include <magpie/magpie.h>

#include <chrono>
#include <iostream>
#include <optional>
#include <string>
#include <system_error>

using namespace std::chrono_literals;

// Answers after a while. Room for one answer: nobody may be there to take it.
magpie::receiver<std::string> ask(std::string who, magpie::duration thinks) {
  magpie::channel<std::string> answer(1);
  magpie::go([=] {
    magpie::this_goroutine::sleep_for(thinks);
    answer.send(who + " says yes");
  });
  return answer;
}

// For this one question.
void ask_and_wait(const std::string& who, magpie::duration thinks) {
  magpie::select(magpie::on_receive(ask(who, thinks),
                                    [](const std::optional<std::string>& answer) {
                                      std::cout << answer.value() << '\n';
                                    }),
                 magpie::on_timeout(200ms, [&] { std::cout << who << " is too slow\n"; }));
}

// For work of many steps: whoever is given the context learns that the time is over.
int count_until_done(const magpie::context& ctx) {
  const magpie::ticker tick(10ms);
  int ticks = 0;
  bool done = false;
  while (!done) {
    magpie::select(magpie::on_receive(tick.channel(), [&] { ++ticks; }),
                   magpie::on_done(ctx, [&] { done = true; }));
  }
  return ticks;
}

int main() {
  magpie::run([] {
    ask_and_wait("the magpie", 1ms);
    ask_and_wait("the owl", 10s);

    const auto [ctx, cancel] = magpie::with_timeout(magpie::context::background(), 100ms);
    const int ticks = count_until_done(ctx);
    const bool late = ctx.error() == std::errc::timed_out;  // or operation_canceled, by cancel()
    std::cout << ticks << " ticks, then " << (late ? "the time was up" : "it was cancelled")
              << '\n';
  });
}
