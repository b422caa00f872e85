// Reads a trace from begin to end: every event in the order in which it happened, each checked
// against a model of the scheduler.
//
//   trace_reader reader(bytes);
//   for (trace_event event; reader.next(event);) ...
//   if (const trace_error* error = reader.error()) ...
//
// A trace has an order for each thread only. The rest follows from the sequence numbers of
// goroutines and Ps and from what a scheduler can do at all: of all threads' next events the
// earliest that is possible now comes next. When none is possible, the file is broken. The reader
// is as strict as Go's own, and stricter in a few places where Go's tools would stumble later
// (a stack of a CPU sample that is not there, for one).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "observe/trace_file.h"
#include "trace/format.h"

namespace magpie::rt {

struct trace_event {
  trace::event kind = trace::event::none;
  std::uint64_t time = 0;  // nanoseconds; rises from event to event
  // Who did it, as it was just before; trace::k_nobody where there is none.
  std::uint64_t m = trace::k_nobody;
  std::uint64_t p = trace::k_nobody;
  std::uint64_t g = trace::k_nobody;
  // As in the file, without the time: trace/format.h says which are ids of strings and stacks.
  std::array<std::uint64_t, trace::k_max_arguments> arguments{};
  std::size_t offset = 0;  // in the file

  // The goroutine that the event is about.
  [[nodiscard]] std::uint64_t subject() const;
};

class trace_reader {
 public:
  // The bytes must stay until the reader is gone; texts and stacks point into them.
  explicit trace_reader(std::span<const std::uint8_t> bytes);
  ~trace_reader();

  // A direct switch (go_switch) comes as its three parts: go_unblock, go_block or go_destroy,
  // go_start. The other events come as they are in the file. False: the trace is over, or broken;
  // all events before the break have been given.
  bool next(trace_event& event);
  [[nodiscard]] const trace_error* error() const;

  [[nodiscard]] trace::version version() const;
  // That of the event given last.
  [[nodiscard]] const trace_generation& generation() const;
  // A string of that generation; its bytes are those of the file.
  [[nodiscard]] std::string_view text(std::uint64_t id) const;
  // A stack of that generation, until the next one begins.
  [[nodiscard]] std::span<const trace_frame> stack(std::uint64_t id) const {
    return generation().stack(id);
  }
  [[nodiscard]] std::size_t generations() const;

 private:
  class inside;
  std::unique_ptr<inside> inside_;
};

}  // namespace magpie::rt
