// The recorder: a plain thread that cuts what the streams write into generations, lists in each of
// them what nobody has spoken of, adds the tables, and hands it on as the bytes of a file.
//
// Nobody who writes events waits for it, and it may wait for anybody: for malloc's lock, for the
// disk. It exists while a trace is being written, or kept in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "os/clock.h"
#include "trace/stream.h"

namespace magpie::rt::trace {

// ---- What a trace is about --------------------------------------------------------------------

void add_stream(stream&);
void remove_stream(stream&);

// Where a runtime tells what it has.
class lister {
 public:
  // One that nobody runs; `state` as it is now, for those that the reader has never heard of:
  // nothing for one that is not to be listed then. `record`: as in trace::goroutine.
  virtual void goroutine(mark&, std::uint64_t id, belief state, const void* record) = 0;
  // `idle`: nobody holds it.
  virtual void proc(trace::proc&, bool idle) = 0;

 protected:
  ~lister() = default;
};

class source {
 public:
  // Everything there is. By the recorder.
  virtual void list(lister&) = 0;
  // At the beginning of a trace: those that run user code are found_running(). By the recorder.
  virtual void find_runners() = 0;

  list_links<source> links;

 protected:
  ~source() = default;
};
void add_source(source&);
// When it returns nobody looks at the source any more.
void remove_source(source&);

// Numbers of Ps are small, since viewers draw a row for each, and not used twice in one trace.
std::uint32_t take_proc_number();
void give_back_proc_number(std::uint32_t);
// So many more of them are in use, in some runtime.
void change_procs(int difference);

// ---- Where it goes ----------------------------------------------------------------------------

// The bytes of one generation, in pieces, in the order of the file. Buffers that are nearly full
// are pieces as they are: who writes to a file or keeps the last seconds in memory needs no copy,
// and no memory that nobody has touched yet, which would cost more than the copy.
class generation_bytes {
 public:
  generation_bytes() = default;
  ~generation_bytes();
  generation_bytes(const generation_bytes&) = delete;
  generation_bytes& operator=(const generation_bytes&) = delete;

  void add(std::span<const std::uint8_t>);
  void add(buffer*);  // its own from now on

  template <class Visit>  // (span<const uint8_t>)
  void visit(Visit v) const {
    for (const piece& each : pieces_) v(each.bytes());
  }
  std::size_t memory() const { return memory_; }  // that it takes

 private:
  struct piece {
    buffer* whole = nullptr;
    std::vector<std::uint8_t> copied{};

    std::span<const std::uint8_t> bytes() const {
      return whole != nullptr ? whole->batch() : std::span<const std::uint8_t>(copied);
    }
  };

  std::vector<piece> pieces_;
  std::size_t memory_ = 0;
};
using shared_generation = std::shared_ptr<const generation_bytes>;

// Gets one generation after the other. By the recorder.
class sink {
 public:
  virtual void take(const shared_generation&) = 0;

  os::nanos period = 1'000'000'000;  // how long a generation is, at most
  // One that has grown so large ends early: its bytes are kept in memory until it ends.
  std::uint64_t largest = 16 << 20;

 protected:
  ~sink() = default;
};

// These wait for the recorder, and allocate; several threads at a time are served one by one.
//
// From the next generation on, which begins now.
void attach(sink&);
// It gets all that has happened until now, and nothing more.
void detach(sink&);
// All sinks get what has happened until now.
void cut();

// The process is about to end without its exit handlers: all sinks get what has happened until now,
// and nothing more unless they are detached. Waits for at most so long, since the recorder may wait
// for somebody who will not come any more; signal-safe.
void save_before_death(os::nanos patience);

// 1 while the recorder exists: for those who count the threads of the process.
int recorder_threads();

void prepare_outside_stream();

}  // namespace magpie::rt::trace
