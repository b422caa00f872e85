// What a program calls its work, for the converters: tasks, and regions of goroutines. They begin
// and end at events of their own; some never do.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "observe/trace_reader.h"

namespace magpie_tool {

class note_sink {
 public:
  virtual ~note_sink() = default;
  virtual void task_begins(std::uint64_t task, std::string_view name, std::uint64_t time) = 0;
  virtual void task_ends(std::uint64_t task, std::string_view name, std::uint64_t time) = 0;
  // Those of one goroutine lie within one another.
  virtual void region_begins(std::uint64_t g, std::string_view name, std::uint64_t time) = 0;
  virtual void region_ends(std::uint64_t g, std::string_view name, std::uint64_t time) = 0;
};

class note_follower {
 public:
  note_follower(const magpie::rt::trace_reader& reader, note_sink& sink)
      : reader_(reader), sink_(sink) {}

  // Every event, in order. What ended but began before the trace is left out.
  void add(const magpie::rt::trace_event& event) {
    using kind = magpie::rt::trace::event;
    last_ = event.time;
    switch (event.kind) {
      case kind::task_begin:
        tasks_[event.arguments[0]] = reader_.text(event.arguments[2]);
        sink_.task_begins(event.arguments[0], reader_.text(event.arguments[2]), last_);
        break;
      case kind::task_end:
        if (const auto task = tasks_.extract(event.arguments[0])) {
          sink_.task_ends(task.key(), task.mapped(), last_);
        }
        break;
      case kind::region_begin:
        regions_[event.g].push_back(reader_.text(event.arguments[1]));
        sink_.region_begins(event.g, regions_[event.g].back(), last_);
        break;
      case kind::region_end:
        end_regions(event.g, 1);
        break;
      case kind::go_destroy:
      case kind::go_destroy_syscall:
        end_regions(event.g, k_all);
        break;
      default:
        break;
    }
  }

  // After the last: whatever is under way ends here.
  void finish() {
    for (const auto& [task, name] : tasks_) sink_.task_ends(task, name, last_);
    while (!regions_.empty()) end_regions(regions_.begin()->first, k_all);
  }

 private:
  static constexpr std::size_t k_all = ~std::size_t{0};

  void end_regions(std::uint64_t g, std::size_t count) {
    const auto found = regions_.find(g);
    if (found == regions_.end()) return;
    std::vector<std::string_view>& open = found->second;
    for (; count > 0 && !open.empty(); --count) {
      sink_.region_ends(g, open.back(), last_);
      open.pop_back();
    }
    if (open.empty()) regions_.erase(found);
  }

  const magpie::rt::trace_reader& reader_;
  note_sink& sink_;
  std::uint64_t last_ = 0;
  std::unordered_map<std::uint64_t, std::string_view> tasks_;
  std::unordered_map<std::uint64_t, std::vector<std::string_view>> regions_;  // by goroutine
};

}  // namespace magpie_tool
