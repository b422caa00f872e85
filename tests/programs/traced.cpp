// Programs to take traces of: traced NAME [FILE]. With a file, those that start a trace themselves
// write there; the others are traced by MAGPIE_TRACE. "list" prints the names.

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <magpie/magpie.h>

#include "observe/trace_reader.h"

using namespace std::chrono_literals;

namespace {

std::string g_file;

void compute_for(std::chrono::nanoseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

long tree(int depth) {
  if (depth == 0) return 1;
  auto left = magpie::async([depth] { return tree(depth - 1); });
  auto right = magpie::async([depth] { return tree(depth - 1); });
  return left.get() + right.get();
}

// On a runtime of its own, whose end waits for the ends of its goroutines: a result is there
// before the goroutine that computed it is gone, and the trace of a process that ends right then
// has one end less.
void spawn_tree() {
  magpie::runtime own;
  own.run([] { return tree(9); });
}

void spawn_burst() {
  magpie::run([] {
    magpie::wait_group all;
    for (int i = 0; i < 3000; ++i) all.go([] {});
    all.wait();
  });
}

void ping_pong() {
  magpie::run([] {
    magpie::channel<int> there, back;
    magpie::go([=] {
      for (const int i : there) back.send(i + 1);
      back.close();
    });
    for (int i = 0; i < 500; ++i) {
      there.send(i);
      (void)back.receive();
    }
    there.close();
  });
}

void pipeline() {
  magpie::run([] {
    magpie::channel<int> from(4);
    magpie::channel<int> next(4);
    magpie::go({.name = "source"}, [=] {
      for (int i = 0; i < 500; ++i) from.send(i);
      from.close();
    });
    magpie::go({.name = "square"}, [=] {
      for (const int i : from) next.send(i * i);
      next.close();
    });
    for (const int i : next) (void)i;
  });
}

void select_loop() {
  magpie::run([] {
    magpie::channel<int> a, b;
    magpie::channel<magpie::unit> done;
    for (const auto& c : {a, b}) {
      magpie::go([=] {
        for (int i = 0; i < 200; ++i) c.send(i);
      });
    }
    for (int got = 0; got < 400;) {
      magpie::select(magpie::on_receive(a, [&](auto) { ++got; }),
                     magpie::on_receive(b, [&](auto) { ++got; }), magpie::on_timeout(1s, [] {}));
    }
  });
}

void locks() {
  magpie::run([] {
    magpie::mutex m;
    magpie::shared_mutex s;
    magpie::condition_variable c;
    magpie::semaphore sem(2);
    bool go_on = false;
    magpie::wait_group all;
    for (int i = 0; i < 8; ++i) {
      all.go([&] {
        for (int k = 0; k < 50; ++k) {
          const std::scoped_lock hold(m);
          if (k % 10 == 0) magpie::this_goroutine::yield();
        }
        {
          std::unique_lock hold(m);
          while (!go_on) c.wait(hold);
        }
        sem.acquire();
        s.lock_shared();
        magpie::this_goroutine::yield();
        s.unlock_shared();
        sem.release();
      });
    }
    {
      const std::scoped_lock hold(m);
      go_on = true;
    }
    c.notify_all();
    all.wait();
  });
}

void blocking_calls() {
  magpie::run([] {
    magpie::wait_group all;
    for (int i = 0; i < 6; ++i) {
      all.go([i] {
        for (int k = 0; k < 10; ++k) {
          magpie::blocking([&] { usleep(i % 2 == 0 ? 1 : 3000); });
          magpie::blocking(magpie::hand_off_now, [] { usleep(100); });
        }
      });
    }
    all.wait();
  });
}

void wakes_inside_blocking() {
  magpie::run([] {
    magpie::channel<int> c(1);
    magpie::wait_group all;
    all.go([=] {
      for (int i = 0; i < 50; ++i) (void)c.receive();
    });
    all.go([=] {
      magpie::blocking([=] {
        for (int i = 0; i < 50; ++i) c.send(i);
        magpie::go([] {});
        usleep(2000);
      });
    });
    all.wait();
  });
}

void unannounced() {
  magpie::run([] {
    magpie::wait_group all;
    for (int i = 0; i < 4; ++i) {
      all.go([] {
        for (int k = 0; k < 5; ++k) {
          usleep(5000);
          magpie::this_goroutine::yield();
        }
      });
    }
    all.go([] {
      for (int k = 0; k < 1000; ++k) magpie::this_goroutine::yield();
    });
    all.wait();
  });
}

void hogs() {
  magpie::run([] {
    magpie::wait_group all;
    for (int i = 0; i < 6; ++i) all.go([] { compute_for(60ms); });
    all.wait();
  });
}

void hogs_and_sleepers() {
  magpie::run([] {
    magpie::wait_group all;
    for (int i = 0; i < 3; ++i) all.go([] { compute_for(80ms); });
    for (int i = 0; i < 3; ++i) {
      all.go([] {
        for (int k = 0; k < 20; ++k) magpie::this_goroutine::sleep_for(2ms);
      });
    }
    for (int i = 0; i < 3; ++i) all.go([] { usleep(50000), compute_for(20ms); });
    all.wait();
  });
}

void resize() {
  magpie::run([] {
    magpie::wait_group all;
    std::atomic<bool> stop{false};
    for (int i = 0; i < 8; ++i) {
      all.go([&] {
        while (!stop.load()) {
          compute_for(100us);
          magpie::this_goroutine::yield();
        }
      });
    }
    for (int i = 0; i < 30; ++i) {
      magpie::set_procs(1 + i % 5);
      magpie::this_goroutine::sleep_for(2ms);
    }
    stop = true;
    all.wait();
  });
}

void echo() {
  magpie::run([] {
    auto listener = magpie::net::tcp_listener::listen("127.0.0.1:0");
    const auto address = listener.local_address().to_string();
    magpie::go({.name = "server"}, [&] {
      for (int i = 0; i < 4; ++i) {
        magpie::go([s = listener.accept()]() mutable {
          char buffer[64];
          while (const std::size_t n = s.read(buffer, sizeof buffer)) s.write(buffer, n);
        });
      }
    });
    magpie::wait_group all;
    for (int i = 0; i < 4; ++i) {
      all.go([&] {
        auto s = magpie::net::tcp_stream::connect(address);
        char buffer[64];
        for (int k = 0; k < 50; ++k) {
          s.write("hello");
          s.read(buffer, sizeof buffer);
        }
      });
    }
    all.wait();
  });
}

void timers() {
  magpie::run([] {
    magpie::wait_group all;
    for (int i = 0; i < 20; ++i) {
      all.go([i] { magpie::this_goroutine::sleep_for(std::chrono::microseconds(300 * i)); });
    }
    magpie::ticker tick(1ms);
    for (int i = 0; i < 10; ++i) (void)tick.channel().receive();
    std::atomic<int> fired{0};
    std::vector<magpie::timer> keep;
    for (int i = 0; i < 10; ++i) keep.push_back(magpie::after_func(1ms, [&] { ++fired; }));
    while (fired != 10) magpie::this_goroutine::sleep_for(1ms);
    all.wait();
  });
}

void plain_threads() {
  std::vector<std::thread> threads;
  std::atomic<int> ran{0};
  magpie::channel<int> c(3);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 100; ++k) {
        magpie::go([&] { ++ran; });
        c.send(k);
      }
    });
  }
  magpie::run([&] {
    for (int i = 0; i < 400; ++i) (void)c.receive();
  });
  for (auto& t : threads) t.join();
  while (ran != 400) std::this_thread::yield();
}

void several_runtimes() {
  magpie::config two;
  two.procs = 2;
  for (int round = 0; round < 3; ++round) {
    magpie::runtime a(two), b(two);
    magpie::channel<int> c;
    a.go([=, &b] {
      for (int i = 0; i < 100; ++i) c.send(i);
      b.go([] {});
      c.close();
    });
    b.run([=] {
      for (const int i : c) (void)i;
    });
    magpie::run([] { magpie::this_goroutine::yield(); });
  }
}

void thread_locks() {
  magpie::run([] {
    magpie::wait_group all;
    for (int i = 0; i < 3; ++i) {
      all.go([i] {
        std::optional<magpie::thread_lock> lock(std::in_place);
        for (int k = 0; k < 20; ++k) {
          magpie::this_goroutine::yield();
          if (k % 5 == 0) magpie::this_goroutine::sleep_for(200us);
        }
        if (i != 0) lock.reset();
      });
    }
    auto child = magpie::async([] {
      static thread_local int here = 0;
      auto* const forever = new magpie::thread_lock;
      (void)forever;
      return ++here;
    });
    (void)child.get();
    all.wait();
  });
}

void exits() {
  magpie::run([] {
    magpie::wait_group all;
    for (int i = 0; i < 50; ++i) {
      all.go([i] {
        if (i % 2 == 0) magpie::this_goroutine::exit();
      });
    }
    all.wait();
  });
}

void failures() {
  magpie::run([] {
    for (int i = 0; i < 50; ++i) {
      auto f = magpie::async([i] {
        if (i % 2 == 0) throw std::runtime_error("no");
        return i;
      });
      try {
        (void)f.get();
      } catch (const std::runtime_error&) {
      }
    }
    magpie::group g;
    for (int i = 0; i < 5; ++i) {
      g.go([i](const magpie::context& ctx) {
        if (i == 4) throw std::runtime_error("no");
        (void)ctx.done().receive();
      });
    }
    try {
      g.wait();
    } catch (const std::runtime_error&) {
    }
  });
}

void files() {
  magpie::run([] {
    const std::string path = "/tmp/magpie_traced_" + std::to_string(getpid());
    magpie::wait_group all;
    for (int i = 0; i < 4; ++i) {
      all.go([&, i] {
        auto f = magpie::file::open(path + std::to_string(i),
                                    magpie::open_mode::write | magpie::open_mode::create);
        char bytes[4096] = {};
        for (int k = 0; k < 20; ++k) f.write(std::as_bytes(std::span(bytes)));
        f.sync();
        unlink((path + std::to_string(i)).c_str());
      });
    }
    all.wait();
  });
}

void annotated() {
  magpie::run([] {
    magpie::wait_group all;
    for (int i = 0; i < 4; ++i) {
      all.go([&] {
        for (int k = 0; k < 20; ++k) {
          const magpie::trace::task request("request");
          const magpie::trace::region whole("handle");
          magpie::trace::log("step", "begin " + std::to_string(k));
          {
            const magpie::trace::region part("wait");
            magpie::this_goroutine::sleep_for(200us);
          }
          all.go([&] {
            const magpie::trace::region child("help");
            magpie::trace::log("step", "helped");
          });
          auto outlives = std::make_unique<magpie::trace::region>("first to go");
          const magpie::trace::region inner("last to go");
          outlives.reset();
        }
      });
    }
    all.wait();
  });
}

// A process that is busy all the time, traced now and then.
void now_and_then() {
  std::atomic<bool> stop{false};
  magpie::run([&] {
    magpie::wait_group all;
    magpie::channel<int> c(2);
    for (int i = 0; i < 3; ++i) {
      all.go([&] {
        while (!stop.load()) {
          compute_for(20us);
          c.send(1);
        }
      });
    }
    all.go([&] {
      while (!stop.load()) (void)c.receive_for(*std::make_unique<int>(), 1ms);
      while (c.size() != 0) (void)c.receive();
    });
    all.go([&] {
      while (!stop.load()) magpie::blocking([] { usleep(300); });
    });
    all.go([&] {
      while (!stop.load()) compute_for(3ms), usleep(2000);
    });
    all.go([&] {
      while (!stop.load()) all.go([] {}), magpie::this_goroutine::sleep_for(50us);
    });
    magpie::go([&] {
      while (!stop.load()) (void)c.receive();
    });
    magpie::event never_set;
    magpie::go([&] { never_set.wait(); });
    for (int i = 0; i < 6; ++i) {
      magpie::trace::start(g_file + (i == 5 ? "" : std::to_string(i)));
      magpie::this_goroutine::sleep_for(20ms);
      magpie::trace::stop();
      magpie::this_goroutine::sleep_for(3ms);
    }
    stop = true;
    all.wait();
    std::_Exit(0);  // somebody waits for ever
  });
}

// Stopped by a plain thread while goroutines run.
void stop_in_the_middle() {
  magpie::trace::start(g_file);
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    magpie::run([&] {
      while (!stop.load()) {
        magpie::wait_group all;
        for (int i = 0; i < 100; ++i) all.go([] { magpie::this_goroutine::yield(); });
        all.wait();
      }
    });
  });
  std::this_thread::sleep_for(100ms);
  magpie::trace::stop();
  stop = true;
  worker.join();
}

void to_a_stream() {
  std::ofstream file(g_file, std::ios::binary);
  magpie::trace::start(file);
  spawn_tree();
  magpie::trace::stop();
}

// How many logs of this category are in the whole generations of a trace.
int logs_in(const std::vector<std::uint8_t>& bytes, std::string_view category) {
  int count = 0;
  magpie::rt::trace_reader reader(bytes);
  for (magpie::rt::trace_event event; reader.next(event);) {
    if (event.kind == magpie::rt::trace::event::log && reader.text(event.arguments[1]) == category)
      ++count;
  }
  return count;
}

std::vector<std::uint8_t> bytes_of(std::istream& from) {
  return {std::istreambuf_iterator<char>(from), std::istreambuf_iterator<char>()};
}

bool remembers_first_words(magpie::trace::flight_recorder& recorder) {
  std::stringstream bytes;
  recorder.write_to(bytes);
  return logs_in(bytes_of(bytes), "first words") > 0;
}

// The recorder keeps the last generations only; a trace runs beside it for a while.
void flight() {
  magpie::trace::flight_recorder recorder(30ms, 1 << 20);
  recorder.start();
  magpie::run([&] {
    magpie::trace::log("first words", "soon forgotten");
    magpie::wait_group all;
    for (int i = 0; i < 3; ++i) {
      all.go([] {
        const magpie::trace::region long_one("long");
        for (int k = 0; k < 20; ++k) {
          const magpie::trace::region step("step");
          compute_for(2ms);
          magpie::this_goroutine::sleep_for(3ms);
        }
      });
    }
    magpie::this_goroutine::sleep_for(40ms);
    magpie::trace::start(g_file + "beside");
    all.go([] { compute_for(60ms); });
    magpie::this_goroutine::sleep_for(40ms);
    magpie::trace::stop();
    all.wait();
    while (remembers_first_words(recorder)) magpie::this_goroutine::sleep_for(1ms);
    magpie::trace::log("last words", "remembered");
  });
  std::ofstream file(g_file, std::ios::binary);
  recorder.write_to(file);
  recorder.stop();
}

void asleep_across_generations() {
  magpie::run([] {
    magpie::wait_group all;
    all.go([] { magpie::blocking([] { usleep(60000); }); });
    all.go([] { magpie::blocking(magpie::hand_off_now, [] { usleep(70000); }); });
    all.go([] { usleep(80000); });
    all.go([] { magpie::this_goroutine::sleep_for(90ms); });
    all.go([] { compute_for(50ms); });
    all.wait();
  });
}

void sleep_for_ever() {
  for (;;) magpie::this_goroutine::sleep_for(100us);
}

// Says something beside others that work, and dies.
void work_and_die(const std::function<void()>& die) {
  magpie::run([&] {
    for (int i = 0; i < 4; ++i) magpie::go(sleep_for_ever);
    magpie::trace::log("last words", "of a process that dies");
    die();
  });
}

void wait_until_last_words_are_written() {
  for (;;) {
    std::ifstream file(g_file, std::ios::binary);
    if (logs_in(bytes_of(file), "last words") > 0) return;
    magpie::this_goroutine::sleep_for(1ms);
  }
}

void throws() {
  work_and_die([] {
    magpie::go([] { throw std::runtime_error("nobody catches it"); });
    sleep_for_ever();
  });
}
void misuses() {
  work_and_die([] { magpie::mutex().unlock(); });
}
long overflow(long depth) {
  volatile char frame[4096] = {};
  if (depth < 0) return 0;
  return overflow(depth + 1) + frame[depth % 4096];
}
void overflows() {
  work_and_die([] { overflow(0); });
}
void aborts() {
  work_and_die([] {
    wait_until_last_words_are_written();
    std::abort();
  });
}
void is_killed() {
  work_and_die([] {
    wait_until_last_words_are_written();
    raise(SIGKILL);
  });
}

void plain_function() { magpie::this_goroutine::yield(); }

void functions() {
  magpie::run([] {
    magpie::go(plain_function);
    magpie::group several;
    several.go([] {});
    several.wait();
    magpie::this_goroutine::yield();
  });
}

struct program {
  const char* name;
  void (*run)();
};

constexpr program k_programs[] = {
    {"spawn_tree", spawn_tree},
    {"spawn_burst", spawn_burst},
    {"ping_pong", ping_pong},
    {"pipeline", pipeline},
    {"select_loop", select_loop},
    {"locks", locks},
    {"blocking_calls", blocking_calls},
    {"wakes_inside_blocking", wakes_inside_blocking},
    {"unannounced", unannounced},
    {"hogs", hogs},
    {"hogs_and_sleepers", hogs_and_sleepers},
    {"resize", resize},
    {"echo", echo},
    {"timers", timers},
    {"plain_threads", plain_threads},
    {"several_runtimes", several_runtimes},
    {"thread_locks", thread_locks},
    {"exits", exits},
    {"failures", failures},
    {"files", files},
    {"annotated", annotated},
    {"functions", functions},
    {"asleep_across_generations", asleep_across_generations},
    // These start traces themselves.
    {"own_now_and_then", now_and_then},
    {"own_stop_in_the_middle", stop_in_the_middle},
    {"own_to_a_stream", to_a_stream},
    {"own_flight", flight},
};

// Not in the list.
constexpr program k_that_die[] = {
    {"throws", throws}, {"misuses", misuses},     {"overflows", overflows},
    {"aborts", aborts}, {"is_killed", is_killed},
};

}  // namespace

int main(int count, char** words) {
  const std::string name = count > 1 ? words[1] : "list";
  if (count > 2) g_file = words[2];
  for (const program& each : k_programs) {
    if (name == "list") std::puts(each.name);
    if (name == each.name) {
      each.run();
      return 0;
    }
  }
  for (const program& each : k_that_die) {
    if (name == each.name) each.run();
  }
  return name == "list" ? 0 : 2;
}
