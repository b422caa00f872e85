// Mistakes that real programs were found to make, one per argument, each as the one schedule in
// which goroutines are left behind. When nothing moves any more, their names and what they wait
// for are printed.
//
// What they share is never freed: they wait for it until the process ends.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <magpie/debug.h>
#include <magpie/magpie.h>

using namespace magpie;
using namespace std::chrono_literals;

namespace {

template <class T>
T& kept() {
  return *new T;
}

bool waits(std::string_view name) {
  const auto all = debug::goroutines();
  return std::any_of(all.begin(), all.end(), [&](const debug::goroutine_info& info) {
    return info.name == name && info.state == "waiting";
  });
}

void let_wait(std::string_view name) {
  while (!waits(name)) this_goroutine::yield();
}

// Who asked has gone: the answer finds nobody.
void abandoned_answer() {
  const channel<int> answer;
  const channel<unit> gave_up(1);
  gave_up.send({});
  go({.name = "worker"}, [=] { answer.send(1); });
  select(on_receive(gave_up, [](auto) {}));
}

// The last error is sent where only the first is received.
void second_error() {
  const channel<int> errors;
  for (const char* const name : {"first", "second"}) {
    go({.name = name}, [=] { errors.send(1); });
    let_wait(name);
  }
  errors.receive();
}

// The producer returns early and does not close what the consumer ranges over.
void never_closed() {
  const channel<int> items(1);
  go({.name = "consumer"}, [=] {
    for ([[maybe_unused]] const int item : items) {
    }
  });
  items.send(1);
}

// A way out of the function that forgets to unlock.
void early_return() {
  auto& m = kept<mutex>();
  m.lock();
  go({.name = "next"}, [&] { m.lock(); });
}

// A method that takes the lock its caller has.
void double_lock() {
  auto& m = kept<mutex>();
  go({.name = "caller"}, [&] {
    const std::scoped_lock outer(m);
    const std::scoped_lock inner(m);
  });
}

// Two locks, taken in both orders.
void lock_order() {
  struct shared {
    mutex a, b;
    latch both_have_one{2};
  };
  auto& s = kept<shared>();
  const auto take = [&s](mutex& first, mutex& second) {
    const std::scoped_lock hold_first(first);
    s.both_have_one.arrive_and_wait();
    const std::scoped_lock hold_second(second);
  };
  go({.name = "ab"}, [=, &s] { take(s.a, s.b); });
  go({.name = "ba"}, [=, &s] { take(s.b, s.a); });
}

// A reader reads once more inside, and a writer has come in between.
void reader_writer_reader() {
  struct shared {
    shared_mutex m;
    event read_locked, writer_waits;
  };
  auto& s = kept<shared>();
  go({.name = "reader"}, [&s] {
    const std::shared_lock outer(s.m);
    s.read_locked.set();
    s.writer_waits.wait();
    const std::shared_lock inner(s.m);
  });
  s.read_locked.wait();
  go({.name = "writer"}, [&s] { const std::scoped_lock hold(s.m); });
  let_wait("writer");
  s.writer_waits.set();
}

// One sends with the lock held that the receiver takes before it receives.
void lock_around_send() {
  struct shared {
    mutex m;
    channel<int> c;
    event locked;
  };
  auto& s = kept<shared>();
  go({.name = "sender"}, [&s] {
    const std::scoped_lock hold(s.m);
    s.locked.set();
    s.c.send(1);
  });
  s.locked.wait();
  go({.name = "receiver"}, [&s] {
    const std::scoped_lock hold(s.m);
    s.c.receive();
  });
}

// One of those counted leaves without saying so.
void done_forgotten() {
  auto& all = kept<wait_group>();
  all.add(2);
  go([&] { all.done(); });
  go({.name = "waiter"}, [&] { all.wait(); });
}

// A wait inside the loop that starts those it waits for.
void wait_in_the_loop() {
  struct shared {
    wait_group all;
    channel<int> c;
  };
  auto& s = kept<shared>();
  s.all.add(2);
  go({.name = "starter"}, [&s] {
    for (int i = 0; i < 2; ++i) {
      go({.name = "started"}, [&s] {
        s.c.send(1);
        s.all.done();
      });
      s.all.wait();  // the second is not there yet
    }
  });
}

// The notification comes before the one who would wait for it.
void notified_too_early() {
  struct shared {
    mutex m;
    condition_variable changed;
  };
  auto& s = kept<shared>();
  s.changed.notify_one();
  go({.name = "late"}, [&s] {
    std::unique_lock hold(s.m);
    s.changed.wait(hold);
  });
}

// Everybody who could stop the loop has gone.
void nobody_stops_the_loop() {
  const channel<int> work;
  const channel<unit> stop;
  go({.name = "loop"}, [=] {
    for (bool ends = false; !ends;) {
      select(on_receive(work, [](auto) {}), on_receive(stop, [&](auto) { ends = true; }));
    }
  });
  work.send(1);
}

// A channel that was never made.
void never_made() {
  go({.name = "receiver"}, [] { receiver<int>().receive(); });
  go({.name = "sender"}, [] { sender<int>().send(1); });
}

struct program {
  const char* name;
  void (*run)();
};

constexpr program k_programs[] = {
    {"abandoned_answer", abandoned_answer},
    {"second_error", second_error},
    {"never_closed", never_closed},
    {"early_return", early_return},
    {"double_lock", double_lock},
    {"lock_order", lock_order},
    {"reader_writer_reader", reader_writer_reader},
    {"lock_around_send", lock_around_send},
    {"done_forgotten", done_forgotten},
    {"wait_in_the_loop", wait_in_the_loop},
    {"notified_too_early", notified_too_early},
    {"nobody_stops_the_loop", nobody_stops_the_loop},
    {"never_made", never_made},
};

// Each is seen at a moment of its own: that is what they all do only if nothing has moved
// meanwhile.
std::vector<debug::goroutine_info> goroutines_at_rest() {
  const auto moves = [] {
    const stats now = runtime::current().read_stats();
    return std::vector{now.spawned, now.finished, now.parks, now.readies};
  };
  for (;;) {
    const auto before = moves();
    const auto all = debug::goroutines();
    const bool all_wait =
        std::all_of(all.begin(), all.end(), [](const debug::goroutine_info& info) {
          return info.state == "waiting" && !info.name.empty();
        });
    if (all_wait && moves() == before) return all;
    std::this_thread::yield();
  }
}

// On the main thread, which does not wait itself: nobody calls it a deadlock.
void print_who_is_left() {
  const auto all = goroutines_at_rest();
  std::vector<std::string> lines;
  for (const auto& info : all) lines.push_back(info.name + ": " + info.wait_reason);
  std::sort(lines.begin(), lines.end());
  for (const std::string& line : lines) std::puts(line.c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int, char** arguments) {
  for (const program& each : k_programs) {
    if (std::string_view(arguments[1]) != each.name) continue;
    run(each.run);
    print_who_is_left();
    std::_Exit(0);
  }
  return 2;
}
