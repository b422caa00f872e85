// What all goroutines do: as data, and as the text that Go prints.
//
// The same text is written when the process gets SIGQUIT (Ctrl-\ on a terminal), and it goes on
// after that; twice within a second ends it. A program that has a handler of its own for SIGQUIT
// when the first runtime starts keeps it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <magpie/blocking.h>
#include <magpie/export.h>
#include <magpie/time.h>

namespace magpie::debug {

struct goroutine_info {
  std::uint64_t id = 0;
  std::uint64_t parent = 0;        // who spawned it; 0: a plain thread or a timer
  std::string name;                // as given to spawn_options or set_name(); mostly empty
  std::string state;               // "runnable", "running", "waiting", "syscall"
  std::string wait_reason;         // "chan receive", "sync.Mutex.Lock"; empty unless it waits
  std::string waiting_on;          // the object, and who holds it: "0x7f... held by goroutine 7"
  std::string spawn_site;          // "main at /src/main.cpp:12"
  duration waited{};               // for how long, to some milliseconds; 0 unless it waits
  std::vector<std::string> stack;  // innermost first: "function at file:line"
  bool thread_locked = false;
};

// Every goroutine of every runtime, the caller included, in the order of their ids.
//
// They go on meanwhile: each is shown as it was at some moment during the call. A stack is read
// while its goroutine is kept from running for some microseconds; that of one which runs is read
// by a signal to its thread, and left out where that does not work. Any thread.
MAGPIE_API std::vector<goroutine_info> goroutines();

// The same as text, to a file descriptor. Any thread.
//
//     goroutine 7 [chan receive, 3 minutes] "reader":
//     serve(connection&)
//             /src/server.cpp:41
//     created by main in goroutine 1
//             /src/main.cpp:12
//
// Where more than a hundred goroutines would make the same block, it is written once:
// "goroutine 8..1007 (1000 goroutines) [chan receive]:".
MAGPIE_API void dump(int fd = 2);

struct server_options {
  // Listen on whatever interface the address means. Everybody who reaches it can read what the
  // program does, down to the names of functions: behind a firewall only.
  bool beyond_loopback = false;
  // Keeps the last seconds of what the scheduler does, for /flight; see trace::flight_recorder.
  bool flight_recorder = false;
};

// Lets others look at this process while it runs: a browser, curl, Prometheus, `magpie top`.
//
//   magpie::debug::server look("127.0.0.1:6060");        // or "unix:/run/program.debug"
//
//   /            a page that shows it all, live
//   /goroutines  what every goroutine does, as dump() writes it; ?format=json, ?id=N for one
//   /sites       how many of them do the same and come from the same place, as JSON
//   /metrics     metrics::prometheus()
//   /stats       numbers about queues, Ps, threads and latencies, as JSON
//   /trace       what happens in the next second, or in ?seconds=N, as an execution trace
//   /flight      what has happened in the last ones, if the flight recorder runs
//
// Nothing can be changed through it. It listens on loopback only, which is any user of this
// machine; or on a unix socket, which nobody but this user (and root) can open. Port 0 is any that
// is free. It runs in goroutines of the current runtime, which it is about, and ends with the
// object.
class MAGPIE_API server {
 public:
  // misuse: the address is not of this machine only, or none at all; std::system_error: nobody can
  // listen there.
  explicit server(std::string_view host_port, server_options = {});
  ~server();  // closes all connections
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  // Where it listens: "127.0.0.1:6060", "unix:/run/program.debug".
  std::string address() const;

 private:
  class state;
  std::unique_ptr<state> state_;
};


// No goroutine of any runtime runs while one exists: for a look at data that goroutines change, or
// at their stacks. From a plain thread, or from a goroutine, which goes on as inside blocking() and
// must not wait for another one. A second pause waits for the end of the first.
//
// Not stopped are those inside blocking(), before they come back. One whose thread sleeps in the
// kernel outside of it may run for a moment when that ends. Where preemption is switched off, and
// inside no_preempt, the pause begins when everybody has made a call into the runtime.
class MAGPIE_API world_pause {
 public:
  world_pause();
  ~world_pause();
  world_pause(const world_pause&) = delete;
  world_pause& operator=(const world_pause&) = delete;

 private:
  detail::blocking_scope without_p_;
};

// Calls visit(low, high, context) for the part in use of the stack of every goroutine but those
// that never ran, under a world_pause: of one inside blocking(), and of the one that pauses, for
// all of the stack. What a goroutine had in registers when a signal stopped it is not on its stack.
// visit must not call the runtime.
MAGPIE_API void visit_stacks(void (*visit)(void* low, void* high, void* context), void* context);

}  // namespace magpie::debug
