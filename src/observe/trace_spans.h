// The events of a trace as stretches of time: what every goroutine did from when to when, and who
// woke whom. Converters and the summary are made of these.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "observe/trace_reader.h"

namespace magpie::rt {

enum class activity : std::uint8_t {
  running,
  runnable,  // wants to run, and waits for a P
  waiting,
  syscall,
};
inline constexpr std::size_t k_activities = 4;

constexpr std::string_view activity_name(activity what) {
  constexpr std::string_view k_names[k_activities] = {"running", "runnable", "waiting", "syscall"};
  return k_names[static_cast<std::size_t>(what)];
}

// Who did something: the thread, and what it had.
struct trace_actor {
  std::uint64_t m = trace::k_nobody;
  std::uint64_t p = trace::k_nobody;
  std::uint64_t g = trace::k_nobody;
};

struct goroutine_span {
  std::uint64_t g;
  std::string_view name;  // of the goroutine: the function it began with, if known
  activity what;
  std::uint64_t begin;
  std::uint64_t end;
  // Running, or in a system call: where. The P is held until p_end; a long call loses it.
  std::uint64_t m;
  std::uint64_t p;
  std::uint64_t p_end;
  // Why it waits, or why it stopped running though it could go on.
  std::string_view reason;
  // Runnable: by whom. Nobody if it came out of a system call or was so when the trace began.
  trace_actor by;
  bool created;          // runnable because it is new
  bool to_be_continued;  // the trace ends before it does
};

class span_sink {
 public:
  virtual ~span_sink() = default;
  // As they end: not in the order of their beginnings.
  virtual void goroutine_did(const goroutine_span& span) = 0;
  // A thread had a P.
  virtual void thread_had_p(std::uint64_t /*m*/, std::uint64_t /*p*/, std::uint64_t /*begin*/,
                            std::uint64_t /*end*/) {}
};

class span_builder {
 public:
  span_builder(const trace_reader& reader, span_sink& sink) : reader_(reader), sink_(sink) {}

  // Every event, in order.
  void add(const trace_event& event);
  // After the last: what is still under way ends here.
  void finish();

  [[nodiscard]] std::uint64_t first_time() const { return first_; }
  [[nodiscard]] std::uint64_t last_time() const { return last_; }

 private:
  struct goroutine {
    std::string_view name;
    bool known = false;  // what it does
    activity what = activity::waiting;
    std::uint64_t since = 0;
    std::uint64_t m = trace::k_nobody;
    std::uint64_t p = trace::k_nobody;
    std::uint64_t p_end = 0;  // 0: it has it still
    std::string_view reason;
    trace_actor by;
    bool created = false;
  };
  struct holding {
    std::uint64_t m;
    std::uint64_t since;
  };

  void change(std::uint64_t g, activity what, const trace_event& event, std::string_view reason);
  void end_span(std::uint64_t g, goroutine& of, bool open);
  void listed(const trace_event& event);
  void gone(std::uint64_t g);
  void call_ended(std::uint64_t g, const goroutine& of);
  void p_taken(std::uint64_t p, std::uint64_t m);
  void p_left(std::uint64_t p);
  void name(std::uint64_t g, std::uint64_t stack);

  const trace_reader& reader_;
  span_sink& sink_;
  std::unordered_map<std::uint64_t, goroutine> gs_;
  std::unordered_map<std::uint64_t, holding> ps_;
  std::unordered_map<std::uint64_t, std::uint64_t> in_call_;  // P -> the goroutine in a call on it
  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
};

}  // namespace magpie::rt
