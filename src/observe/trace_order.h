// A model of the scheduler, fed with the events of a trace. It says of an event whether it could
// happen now, must wait for another thread's, or can never have happened.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "observe/trace_reader.h"

namespace magpie::rt {

class trace_order {
 public:
  enum class verdict : std::uint8_t {
    done,
    not_yet,  // other threads' events come first
    broken,   // problem() says why
  };

  void begin_generation(const trace_generation& generation);

  // Tries one event of thread event.m; if it is done, appends to `out` what it amounts to.
  verdict advance(trace_event& event, std::vector<trace_event>& out);

  [[nodiscard]] const std::string& problem() const { return problem_; }
  // Why an event that is not_yet waits.
  [[nodiscard]] std::string what_it_waits_for(const trace_event& event) const;

 private:
  static constexpr std::uint64_t k_nobody = trace::k_nobody;

  struct sequence {
    std::uint64_t generation = 0;
    std::uint64_t number = 0;
  };
  // Stretches that are under way, by the event that begins them and, for pauses, their kind.
  using ranges = std::vector<std::pair<trace::event, std::uint64_t>>;
  struct region {
    std::uint64_t task;
    std::string_view name;
    bool operator==(const region&) const = default;
  };
  struct goroutine {
    trace::g_status status;
    sequence last;
    std::vector<region> regions;
    ranges open;
  };
  struct proc {
    trace::p_status status;
    sequence last;
    ranges open;
  };
  struct thread {
    std::uint64_t p = k_nobody;
    std::uint64_t g = k_nobody;
  };
  enum class collector : std::uint8_t {
    unknown,
    resting,
    running,
  };

  verdict dispatch(trace_event& event, thread& self, std::vector<trace_event>& out);

  verdict proc_start(const trace_event& event, thread& self);
  verdict proc_stop(const trace_event& event, thread& self);
  verdict proc_steal(const trace_event& event, thread& self);
  verdict proc_status(trace_event& event, thread& self);
  verdict go_create(const trace_event& event, const thread& self);
  verdict go_create_syscall(const trace_event& event, thread& self);
  verdict go_start(const trace_event& event, thread& self);
  verdict go_leave(const trace_event& event, thread& self);
  verdict go_destroy_syscall(trace_event& event, thread& self, std::vector<trace_event>& out);
  verdict go_unblock(const trace_event& event);
  verdict go_switch(const trace_event& event, thread& self, std::vector<trace_event>& out);
  verdict go_syscall_begin(const trace_event& event, const thread& self);
  verdict go_syscall_end(const trace_event& event, const thread& self);
  verdict go_syscall_end_blocked(const trace_event& event, thread& self);
  verdict go_status(trace_event& event, thread& self);
  verdict go_range(const trace_event& event, const thread& self);
  verdict p_range(const trace_event& event, const thread& self);
  verdict collection(const trace_event& event, const thread& self);
  verdict annotation(const trace_event& event, const thread& self);

  bool needs(const trace_event& event, const thread& self, bool p, bool g);
  bool begin_range(ranges& open, trace::event kind, std::uint64_t which);
  bool end_range(ranges& open, trace::event kind);
  verdict broken(const trace_event& event, std::string_view what);

  [[nodiscard]] bool follows(const sequence& last, std::uint64_t number) const {
    return last.generation == generation_ && number == last.number + 1;
  }
  [[nodiscard]] bool first_generation() const { return generation_ == first_; }
  goroutine* find_g(std::uint64_t id);
  proc* find_p(std::uint64_t id);

  std::unordered_map<std::uint64_t, goroutine> gs_;
  std::unordered_map<std::uint64_t, proc> ps_;
  std::unordered_map<std::uint64_t, thread> ms_;
  std::unordered_map<std::uint64_t, std::string_view> tasks_;  // under way
  const trace_generation* tables_ = nullptr;
  std::uint64_t generation_ = 0;
  std::uint64_t first_ = 0;
  std::uint64_t collections_ = 0;
  collector collector_ = collector::unknown;
  std::string problem_;
};

}  // namespace magpie::rt
