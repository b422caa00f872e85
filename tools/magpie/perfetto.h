// A trace in Perfetto's format, for ui.perfetto.dev and its SQL: tracks per P, per thread and per
// goroutine, with the goroutine's states, flows from waker to woken, tasks, regions and log lines.
//
// The file is a sequence of protobuf messages; the few fields needed are written by hand, so that
// no protobuf library is.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <unordered_set>

#include "observe/trace_reader.h"
#include "observe/trace_spans.h"
#include "tools/magpie/notes.h"
#include "tools/magpie/wakes.h"

namespace magpie_tool {

class perfetto_converter : private magpie::rt::span_sink, private note_sink {
 public:
  perfetto_converter(const magpie::rt::trace_reader& reader, std::ostream& out);

  void add(const magpie::rt::trace_event& event);
  void finish() {
    spans_.finish();
    notes_.finish();
  }

 private:
  enum class group : std::uint64_t {
    procs = 1,
    threads = 2,
    goroutines = 3,
    regions = 4,  // a track for each goroutine that has some
    tasks = 5,
  };

  void goroutine_did(const magpie::rt::goroutine_span& span) override;
  void task_begins(std::uint64_t task, std::string_view name, std::uint64_t time) override;
  void task_ends(std::uint64_t task, std::string_view name, std::uint64_t time) override;
  void region_begins(std::uint64_t g, std::string_view name, std::uint64_t time) override;
  void region_ends(std::uint64_t g, std::string_view name, std::uint64_t time) override;

  std::uint64_t track(group of, std::uint64_t id, std::string_view name);
  std::uint64_t proc_track(std::uint64_t p);
  template <class More>
  void instant(std::uint64_t p, std::string_view name, std::uint64_t time, More more);
  void describe_group(group which, std::string_view name);
  void slice(std::uint64_t track, std::string_view name, std::uint64_t begin, std::uint64_t end,
             const std::string& extra);
  void edge(std::uint64_t track, std::uint64_t type, std::string_view name, std::uint64_t time,
            const std::string& extra);
  void packet(std::uint64_t time, const std::string& rest);

  const magpie::rt::trace_reader& reader_;
  magpie::rt::span_builder spans_;
  note_follower notes_;
  std::ostream& out_;
  bool first_packet_ = true;
  wake_arrows arrows_;
  std::unordered_set<std::uint64_t> described_;
};

}  // namespace magpie_tool
