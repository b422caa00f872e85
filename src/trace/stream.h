// stream: the events of one thread, and the verbs by which the stations of src/sched tell what they
// do.
//
// The tension. A reader of the file replays the scheduler, event by event, and refuses what cannot
// have happened: a goroutine started that nobody made runnable, a P taken that somebody holds. But
// the trace begins in the middle of a busy process, without stopping it; it is cut into generations
// which each must stand alone; and nobody who writes an event may wait for anybody.
//
// Rejected: to stop the world at the start and between generations, as it costs every goroutine a
// pause just when somebody looks; and to write what happens as it is, and to let the recorder put
// it in order later, as the order is not in the clocks.
//
// The rule. With every goroutine and every P goes a mark (mark.h): what the reader believes about
// it. Whoever owns the goroutine, and so may change its state, knows the truth; before it writes
// what it does it brings the belief in line, by status events where the reader has not heard of it
// in this generation, and by what was missed otherwise. So it does not matter what happened before
// the trace began, nor whether a thread has noticed at once that it did: for each goroutine the
// events that are written are those from some moment on, without a gap. (Without a gap: ownership
// is handed over by release and acquire, so a thread that takes over from one who knows that a
// trace is on knows it, too.)
//
// Three write about a goroutine or a P in a generation for the first time: its owner; the recorder,
// for those that nobody owns (they wait, they are queued, they are idle); and the recorder in the
// name of a thread that runs and does not come by. Each is settled by one compare-and-swap: of the
// mark, or of stream::listed_ for what a thread has bound. What the recorder reads before it wins
// is what was true when it won, as the loser's changes come after.
//
// Generations. A section is the time in which a thread writes: it says that it does (writing_),
// then reads the generation. The recorder makes a new generation known, then looks at all threads:
// with barriers in between, each is seen outside, or has seen the new one. After that nobody
// touches the buffers of the old one, and the recorder takes them.
//
//   M: section                            recorder: a new generation
//     writing_ = true                       generation = N + 1
//     (light fence)                         heavy fence
//     read generation                       wait until writing_ is false
//
// An event is written after the thread has come to own what it is about and before it lets go: so
// an event that follows from another is never in an older generation.
//
// Who may write into a stream: the thread itself, inside the gate; and who has just taken the P of
// a thread that is outside of it or in a blocking call, under the scheduler's lock: the thread
// takes that lock before it goes on. A thread that is in a blocking call, and one that is no M,
// write into a stream that all of them share, under its lock: outside_stream.
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

#include "base/atomic.h"
#include "base/cacheline.h"
#include "base/intrusive.h"
#include "os/clock.h"
#include "os/fence.h"
#include "os/lock.h"
#include "trace/batch.h"
#include "trace/buffer.h"
#include "trace/format.h"
#include "trace/mark.h"
#include "trace/place.h"
#include "trace/tables.h"

namespace magpie::rt::trace {

// Written by the recorder, read at every station: lines of their own.
struct alignas(k_cache_line) session_state {
  atomic<std::uint64_t> generation{0};  // 0: no trace is being written
  atomic<std::uint64_t> first{0};       // generation of the session
  tables* of_generation[2] = {};        // by its last bit
  // In which generation the number of Ps was told; 0: it has changed since.
  alignas(k_cache_line) atomic<std::uint64_t> procs_told{0};
  atomic<int> procs{0};  // of all runtimes
};
extern session_state g_session;

// All that a station does while there is no trace.
inline bool on() { return g_session.generation.load(relaxed) != 0; }  // relaxed: see stream.h

// What goes with a P. Numbers are unique in the process.
struct proc {
  trace::mark mark;
  std::uint32_t number = 0;
};

// A goroutine, to be spoken of.
struct goroutine {
  trace::mark* mark;
  std::uint64_t id;
  const void* record;  // for facts_of()
};

// What is asked when one is introduced, of its owner only.
struct goroutine_facts {
  std::string_view name;       // empty: none
  std::uintptr_t begins = 0;   // its first function
  std::uintptr_t spawned = 0;  // where
};
using describe_goroutine = goroutine_facts (*)(const void* record);
// The recorder's way: without owning it. The name may be cut, and is kept in `for_name`.
inline constexpr std::size_t k_longest_name = 128;
using look_at_goroutine = goroutine_facts (*)(const void* record, char (&for_name)[k_longest_name]);
// One frame that stands for it where it has no name; 0: none is known.
inline std::uintptr_t frame_naming(const goroutine_facts& facts) {
  // A frame is a return address; the first byte of a function is not.
  return facts.begins != 0 ? facts.begins + 1 : facts.spawned;
}
// By whoever knows what the records are, before the first one is spoken of.
void set_description(describe_goroutine, look_at_goroutine);
look_at_goroutine how_to_look();

class stream {
 public:
  explicit stream(std::uint64_t thread);
  ~stream();
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  // Ps. start(): the thread holds `p` now. stop(): it is about to let go of it.
  void proc_start(proc& p);
  void proc_stop(proc& p);

  // Goroutines; `g` is about to do what the name says, on `p`.
  void go_start(proc& p, const goroutine& g);
  void go_block(proc& p, const goroutine& g, text reason, const place& at);
  void go_stop(proc& p, const goroutine& g, text reason, const place& at);
  void go_destroy(proc& p, const goroutine& g);
  // By `self`, or by nobody: a timer, or one who has no goroutine just now.
  void go_create(proc& p, const goroutine* self, const goroutine& made, const place& at);
  void go_unblock(const goroutine& g, const place& at);

  // Blocking calls. The P stays bound until it is lost: by stop(), or by proc_steal() in the name
  // of this thread.
  void syscall_begin(proc& p, const goroutine& g, const place& at);
  void syscall_end(proc& p, const goroutine& g);
  void syscall_end_blocked(const goroutine& g);  // before it has a P again
  void proc_steal(proc& p);
  // The P was taken from a thread that turned out to sleep in the kernel. By the one who took it.
  void found_asleep(proc& p, const goroutine& g);
  // It runs. For the beginning of a trace, by one who may write here.
  void found_running(proc& p, const goroutine& g);

  // What the program says about itself.
  void go_label(proc& p, const goroutine& g, std::string_view name);
  void task_begin(proc& p, const goroutine& g, std::uint64_t task, std::uint64_t parent,
                  std::string_view type, const place& at);
  void task_end(proc& p, const goroutine& g, std::uint64_t task, const place& at);
  // Whether they were written.
  bool region_begin(proc& p, const goroutine& g, std::uint64_t task, std::string_view type,
                    const place& at);
  bool region_end(proc& p, const goroutine& g, std::uint64_t task, std::string_view type,
                  const place& at);
  void log(proc& p, const goroutine& g, std::uint64_t task, std::string_view category,
           std::string_view message, const place& at);

  // A goroutine that stops and the one that starts after it share one reading of the clock, which
  // is most of what an event costs. Not when the thread has looked for work in between.
  void moment_passed() { moment_lasts_ = false; }
  // So do those who are made runnable at one go.
  void begin_moment() {
    now_ = os::ticks();
    moment_lasts_ = true;
  }

  // The recorder's.
  void wait_until_outside() const;
  void flush(std::uint64_t generation);
  std::uint64_t last_generation() const { return generation_; }  // once it writes no more
  struct bound {
    std::uint64_t thread = k_nobody;
    std::uint32_t proc = k_no_proc;
    std::uint64_t g = 0;
    bool in_call = false;
  };
  // What to list in the name of this thread, which has not come by in the generation. False: it
  // has, or nothing is bound.
  bool claim_listing(std::uint64_t generation, bound& out);
  static constexpr std::uint32_t k_no_proc = ~std::uint32_t{0};

  list_links<stream> links;  // of the recorder's list

 private:
  class section;
  struct slot {
    batch_writer out;
    buffer* in = nullptr;
  };

  template <event kind, class... Numbers>
  void write(Numbers... numbers);
  template <event kind>
  bool region(proc& p, const goroutine& g, std::uint64_t task, std::string_view type,
              const place& at);
  void next_buffer();
  void begin_generation(std::uint64_t generation);
  void bind_p(proc* p);
  void bind_g(const goroutine* g, bool in_call);

  bool is_first() const;
  std::uint64_t introduce(const goroutine& g, mark_value& is);
  std::uint32_t stack_of(const place& at) {
    if (at.frame != nullptr) return stack_of_chain(at);
    return at.pc != 0 ? stack_of_one(at.pc) : 0;
  }
  std::uint32_t stack_of_chain(const place& at);
  std::uint32_t stack_of_one(std::uintptr_t frame);
  std::uint32_t name_of(const goroutine_facts&);
  void hold(proc& p);
  void make_runnable(const goroutine& g, belief unless_known);
  void start_runnable(const goroutine& g);
  void run(proc& p, const goroutine& g);
  void tell_procs();

  const std::uint64_t thread_;
  atomic<bool> writing_{false};
  std::uint64_t generation_ = 0;  // of the last section
  std::uint64_t now_ = 0;         // of the section
  bool moment_lasts_ = false;     // and of the next one
  tables* names_ = nullptr;       // of the generation
  // Stacks met lately, and their ids in this generation. Goroutines that do the same are at the
  // same depth, by which they are found here.
  struct known_stack {
    std::uint32_t count = 0;  // 0: none
    std::uint32_t id;
    std::uintptr_t frames[31];
    bool is_at(const place& at) const;
    void walk(const place& at);
  };
  known_stack known_stacks_[16];
  known_stack& known_by(std::uintptr_t number) {
    return known_stacks_[(number ^ (number >> 4)) % std::size(known_stacks_)];
  }
  slot* to_ = nullptr;
  slot slots_[2];
  bool foreign_ = false;  // somebody else writes in the name of the thread

  // What the reader believes to be bound to the thread. The recorder reads the atomic ones.
  proc* p_ = nullptr;
  mark* g_ = nullptr;
  atomic<std::uint64_t> listed_{0};  // the generation in which they are listed
  atomic<std::uint32_t> bound_p_{k_no_proc};
  atomic<std::uint64_t> bound_g_{0};
  atomic<bool> in_call_{false};
};

// That of all threads which have none of their own, with its lock.
class outside_stream {
 public:
  outside_stream();
  ~outside_stream();
  outside_stream(const outside_stream&) = delete;
  outside_stream& operator=(const outside_stream&) = delete;
  stream* operator->() const;
};

// A goroutine made by a thread that has no P: told when it starts.
inline void create_later(const goroutine& g) {
  // relaxed: see on().
  g.mark->set({g_session.generation.load(relaxed), belief::unborn, 0});
}

}  // namespace magpie::rt::trace
