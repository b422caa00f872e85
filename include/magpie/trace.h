// A record of what the scheduler does: which goroutine ran where and when, what it waited for, who
// woke it. The guide (docs/guide/tracing.md) says how to look at one.
//
//   magpie::trace::start("trace.out");
//   ...
//   magpie::trace::stop();
//
// or, without a change to the program: MAGPIE_TRACE=trace.out ./program
//
// The file is Go's execution trace, so that `magpie trace`, `go tool trace` and gotraceui open it.
// A trace may begin and end at any time, while goroutines run; none of them is stopped for it. It
// is about all runtimes of the process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>

#include <magpie/export.h>
#include <magpie/time.h>

namespace magpie::trace {

// Begins to write a trace. The file is for its owner only (0600), and is overwritten. Every second
// or so what has happened is appended: a process that is killed loses the last second, and one
// that ends with a report (an exception that escapes, a deadlock, a stack overflow) loses nothing.
// Throws std::system_error when the file cannot be written, and misuse when a trace is being
// written already.
MAGPIE_API void start(const std::filesystem::path&);
// The same into a stream, which must stay until stop() and is written to by another thread.
MAGPIE_API void start(std::ostream&);
// Returns when all is written. Does nothing when no trace is being written. Throws
// std::system_error when not all could be written. A trace that nobody stops ends with exit().
MAGPIE_API void stop();

// Whether a trace is being written, or a flight recorder runs.
MAGPIE_API bool enabled() noexcept;

// ---- What the program says about itself -------------------------------------------------------
//
// All of this costs next to nothing while no trace is written, and does nothing on a plain thread
// or inside blocking().

// Work that several goroutines may take part in: a request, say. Until the end of its scope, what
// the goroutine that made it logs, and the regions it enters, belong to it; another goroutine names
// it. Tasks nest.
class MAGPIE_API task {
 public:
  explicit task(std::string_view type);
  ~task();
  task(const task&) = delete;
  task& operator=(const task&) = delete;

  std::uint64_t id() const noexcept { return id_; }  // 0: no trace was being written

 private:
  std::uint64_t id_ = 0;
  std::uint64_t outer_ = 0;
};

// What this goroutine does, until the end of the scope. Regions nest.
class MAGPIE_API region {
 public:
  explicit region(std::string_view type);
  region(const task&, std::string_view type);
  ~region();
  region(const region&) = delete;
  region& operator=(const region&) = delete;

 private:
  void begin(std::uint64_t task, std::string_view type);

  std::uint64_t id_ = 0;  // 0: not in the trace
  std::uint64_t outer_ = 0;
  std::uint64_t task_ = 0;
  std::uint64_t goroutine_ = 0;
  std::string type_;
};

// A line, at this time. The category is a word that others share.
MAGPIE_API void log(std::string_view category, std::string_view message);
MAGPIE_API void log(const task&, std::string_view category, std::string_view message);

// ---- The flight recorder ----------------------------------------------------------------------

// Keeps the last seconds in memory, for when something goes wrong:
//
//   magpie::trace::flight_recorder recorder;
//   recorder.start();
//   ...
//   if (took_too_long) recorder.write_to(file);
//
// It keeps what has happened in the last `min_age` and a little more, as far as that fits into
// `max_bytes`. A trace may be written at the same time.
class MAGPIE_API flight_recorder {
 public:
  flight_recorder(duration min_age = std::chrono::seconds(10), std::size_t max_bytes = 10 << 20);
  template <class Rep, class Period>
  flight_recorder(std::chrono::duration<Rep, Period> min_age, std::size_t max_bytes = 10 << 20)
      : flight_recorder(detail::to_duration(min_age), max_bytes) {}
  ~flight_recorder();  // stops it
  flight_recorder(const flight_recorder&) = delete;
  flight_recorder& operator=(const flight_recorder&) = delete;

  void start();  // misuse: it runs
  void stop();   // forgets everything; nothing when it does not run
  bool enabled() const noexcept;
  // All it has, until now, as the bytes of a trace file. misuse: it does not run.
  void write_to(std::ostream&);

 private:
  class memory;
  std::unique_ptr<memory> memory_;
};

}  // namespace magpie::trace
