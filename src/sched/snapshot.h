// One copy of what all goroutines, Ps and threads do. Everything that looks at the scheduler from
// above (dumps, metrics, the debug server) reads this and nothing else.
//
// Nobody is stopped for it: each goroutine is as it was at some moment while the snapshot was
// taken. What is said about one goroutine belongs together; what is said about two need not.
// No heap, and no lock but the runtime's own: it can be taken while the process dies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fiber/unwind.h"
#include "goroutine/g.h"
#include "os/clock.h"
#include "os/mapped_list.h"
#include "os/modules.h"
#include "os/signal.h"
#include "os/thread_view.h"

namespace magpie::rt {

enum class stack_view : std::uint8_t {
  whole,
  not_begun,    // it has never run
  interrupted,  // of one that runs: by a signal to its thread, or while that slept
  unavailable,  // it runs, and its thread did not answer
};

enum class holder_kind : std::uint8_t {
  none,  // nobody, or not known
  goroutine,
  thread,  // one that is no goroutine
  ended,   // a goroutine that has ended
};

struct goroutine_record {
  std::uint64_t id = 0;
  std::uint64_t parent = 0;  // 0: spawned by a plain thread or a timer
  int runtime = 0;           // a number: equal for those of the same
  goroutine_state state = goroutine_state::dead;
  wait_reason reason = wait_reason::none;
  bool locked = false;
  bool is_caller = false;  // it took the snapshot
  stack_view view = stack_view::not_begun;
  int system_call = -1;  // its thread sleeps in this one, outside of blocking()
  os::nanos waited = 0;  // to some milliseconds; 0: it does not wait
  const void* spawn_site = nullptr;
  const void* object = nullptr;  // it waits in; null: in none
  const void* holder_place = nullptr;
  holder_kind held_by = holder_kind::none;
  std::uint64_t holder = 0;

  std::uint32_t name_at = 0, name_size = 0;      // in snapshot::names()
  std::uint32_t first_frame = 0, frames = 0;     // in snapshot::frames()
  std::uint32_t inner_frames = 0, left_out = 0;  // so many are missing after the inner ones

  std::uintptr_t stack_low = 0, stack_high = 0;  // 0: none
  std::uintptr_t stack_pointer = 0;              // where it stopped
};

struct proc_record {
  int runtime = 0;
  int id = 0;
  int thread = -1;              // the number of its M; -1: nobody has it
  std::uint64_t goroutine = 0;  // which runs there; 0: none
  std::uint64_t turns = 0;
  std::size_t queue_length = 0, stopped = 0;
  bool in_call = false;
};

struct runtime_record {
  int threads = 0, idle_threads = 0, procs = 0, idle_procs = 0;
  std::size_t global_queue_length = 0;
};

class snapshot {
 public:
  enum class caution {
    none,
    dying,  // the process ends: locks are tried for a while only
  };

  // How many frames of a stack are kept, at either end.
  static constexpr std::size_t k_inner = 50, k_outer = 50;

  snapshot() = default;
  // Of every runtime. Any thread; inside the gate and with locks of the runtime held only with
  // caution. False: not all goroutines are there.
  bool take(caution = caution::none);
  // The calling goroutine and nobody else; nothing on a plain thread. Waits for nobody.
  void take_caller();
  // The same in a signal handler: as it was when it was interrupted. The stack may be full.
  void take_caller(const os::signal_event&);
  void remove_caller();

  const os::mapped_list<goroutine_record>& goroutines() const { return goroutines_; }
  const os::mapped_list<proc_record>& procs() const { return procs_; }
  const os::mapped_list<runtime_record>& runtimes() const { return runtimes_; }

  std::string_view name_of(const goroutine_record& g) const {
    return {names_.begin() + g.name_at, g.name_size};
  }
  // Addresses inside the instructions that called, innermost first: for tables of lines.
  const std::uintptr_t* frames_of(const goroutine_record& g) const {
    return frames_.begin() + g.first_frame;
  }

 private:
  friend class scheduler;
  void add_frames(goroutine_record&, stack_walk&);
  void find_holders();

  os::module_table modules_;
  os::mapped_list<goroutine_record> goroutines_;
  os::mapped_list<proc_record> procs_;
  os::mapped_list<runtime_record> runtimes_;
  os::mapped_list<std::uintptr_t> frames_;
  os::mapped_list<char> names_;
  const G* caller_ = nullptr;
  unwind_registers caller_stands_;
  bool caller_was_interrupted_ = false;
  int runtime_ = 0;
  bool dying_ = false;
};

// Of a thread that sleeps, with a copy of the top of its stack: the frames, as frames_of() has
// them. Returns how many.
std::size_t walk_sleeper(const os::thread_view&, const std::uintptr_t* stack, std::size_t words,
                         std::uintptr_t* out, std::size_t room);

}  // namespace magpie::rt
