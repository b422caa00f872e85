// A trace as Chrome's trace-event JSON: for chrome://tracing, Perfetto's page and whatever else
// reads that. A row per P and per thread, a bar per turn of a goroutine, arrows from waker to
// woken; and what the program says: tasks, regions, log lines.
#pragma once

#include <cstdint>
#include <ostream>
#include <set>
#include <string>
#include <string_view>

#include "observe/trace_reader.h"
#include "observe/trace_spans.h"
#include "tools/magpie/notes.h"
#include "tools/magpie/wakes.h"

namespace magpie_tool {

// Text from a file as a JSON string, with its quotes: broken UTF-8 is replaced.
std::string json_string(std::string_view text);

class chrome_converter : private magpie::rt::span_sink, private note_sink {
 public:
  chrome_converter(const magpie::rt::trace_reader& reader, std::ostream& out);

  void add(const magpie::rt::trace_event& event);
  void finish();

 private:
  void goroutine_did(const magpie::rt::goroutine_span& span) override;
  void thread_had_p(std::uint64_t m, std::uint64_t p, std::uint64_t begin,
                    std::uint64_t end) override;
  void task_begins(std::uint64_t task, std::string_view name, std::uint64_t time) override;
  void task_ends(std::uint64_t task, std::string_view name, std::uint64_t time) override;
  void region_begins(std::uint64_t g, std::string_view name, std::uint64_t time) override;
  void region_ends(std::uint64_t g, std::string_view name, std::uint64_t time) override;

  void bar(int process, std::uint64_t row, const magpie::rt::goroutine_span& span,
           std::uint64_t end);
  void arrow(std::string_view phase, std::uint64_t number, std::uint64_t p, std::uint64_t time);
  void note(char phase, std::string_view kind, std::uint64_t id, std::string_view name,
            std::uint64_t time);
  void name_row(int process, std::uint64_t row, std::string_view kind);
  std::ostream& begin_event();
  std::string since_begin(std::uint64_t time) const;

  const magpie::rt::trace_reader& reader_;
  magpie::rt::span_builder spans_;
  note_follower notes_;
  std::ostream& out_;
  wake_arrows arrows_;
  bool any_ = false;
  std::set<std::uint64_t> ps_;
  std::set<std::uint64_t> ms_;
};

}  // namespace magpie_tool
