// A trace file taken apart: the header, then one generation after the other with its tables and
// its batches of events (trace/format.h). What order the events happened in is not known here;
// trace_reader.h finds it.
//
// The file is in memory, and everything read from it points into it. It may be hostile: sizes are
// checked before they are believed, and memory grows with what is there, not with what is claimed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trace/format.h"

namespace magpie::rt {

// What is wrong with a file, and where.
struct trace_error {
  std::size_t offset = 0;
  std::string what;
  // The file is good as far as it goes, but its last generation is not all there: the process ended
  // while it was written, or the disk was full.
  bool cut = false;
};

struct trace_frame {
  std::uint64_t pc;
  std::string_view function;
  std::string_view file;
  std::uint64_t line;
};

// From ids to values: quick where the ids are dense, as writers are asked to make them, and no
// larger than its contents where they are not.
template <class Value>
class id_table {
 public:
  struct entry {
    std::uint64_t id;
    Value value;
  };

  void clear() {
    entries_.clear();
    places_.clear();
  }
  void add(std::uint64_t id, Value value) { entries_.push_back({id, value}); }

  // After the last add(). Returns an entry whose id was there before it, or is 0; null if all are
  // well.
  const entry* seal() {
    const auto by_id = [](const entry& a, const entry& b) { return a.id < b.id; };
    if (!std::is_sorted(entries_.begin(), entries_.end(), by_id)) {
      std::stable_sort(entries_.begin(), entries_.end(), by_id);
    }
    if (entries_.empty()) return nullptr;
    if (entries_.front().id == 0) return &entries_.front();
    for (std::size_t i = 1; i < entries_.size(); ++i) {
      if (entries_[i].id == entries_[i - 1].id) return &entries_[i];
    }
    const std::uint64_t largest = entries_.back().id;
    if (largest / 4 > entries_.size() + 16) return nullptr;
    places_.assign(static_cast<std::size_t>(largest) + 1, 0);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      places_[static_cast<std::size_t>(entries_[i].id)] = static_cast<std::uint32_t>(i + 1);
    }
    return nullptr;
  }

  [[nodiscard]] const Value* find(std::uint64_t id) const {
    if (!places_.empty()) {
      const std::uint32_t place = id < places_.size() ? places_[static_cast<std::size_t>(id)] : 0;
      return place != 0 ? &entries_[place - 1].value : nullptr;
    }
    const auto found = std::lower_bound(entries_.begin(), entries_.end(), id,
                                        [](const entry& e, std::uint64_t i) { return e.id < i; });
    return found != entries_.end() && found->id == id ? &found->value : nullptr;
  }
  [[nodiscard]] const std::vector<entry>& entries() const { return entries_; }

 private:
  std::vector<entry> entries_;         // by id, once sealed
  std::vector<std::uint32_t> places_;  // by id: place in entries_ plus one, 0 for none
};

struct trace_batch {
  std::uint64_t m;
  std::uint64_t time;  // units of the clock
  std::span<const std::uint8_t> bytes;
};

struct trace_generation {
  std::uint64_t number = 0;
  std::uint64_t units_per_second = 0;
  std::uint64_t first_time = 0;  // the earliest of any batch, in units of the clock
  std::uint64_t wall_nanos = 0;  // the time of day at clock_time; 0 in files before go 1.25
  std::uint64_t clock_time = 0;
  std::size_t cpu_samples = 0;
  std::vector<trace_batch> batches;  // of events; those of one thread are in its order

  struct stack_place {
    std::uint32_t first;
    std::uint32_t count;
    std::size_t offset;  // in the file
  };
  id_table<std::string_view> strings;
  id_table<stack_place> stacks;
  std::vector<trace_frame> frames;

  // Null: there is no such string.
  [[nodiscard]] const std::string_view* string(std::uint64_t id) const {
    static constexpr std::string_view k_empty;
    return id == 0 ? &k_empty : strings.find(id);
  }
  [[nodiscard]] bool has_stack(std::uint64_t id) const {
    return id == 0 || stacks.find(id) != nullptr;
  }
  // The innermost frame comes first; empty for 0 and for what is not there.
  [[nodiscard]] std::span<const trace_frame> stack(std::uint64_t id) const {
    const stack_place* const place = id == 0 ? nullptr : stacks.find(id);
    if (place == nullptr) return {};
    return std::span(frames).subspan(place->first, place->count);
  }
  [[nodiscard]] std::uint64_t nanos(std::uint64_t units) const {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(units) * 1'000'000'000U /
                                      units_per_second);
  }
};

class trace_file {
 public:
  // The bytes must stay.
  explicit trace_file(std::span<const std::uint8_t> bytes);

  // Reads the next generation. False: there is none, or error() says why not.
  bool next(trace_generation& generation);

  [[nodiscard]] const trace_error* error() const { return failed_ ? &error_ : nullptr; }
  [[nodiscard]] trace::version version() const { return version_; }
  // Whether something may be missing because the file ends too early, and not because it is
  // wrong: before go 1.26 nothing marks the end of a generation, and its tables come last.
  [[nodiscard]] bool may_be_cut() const {
    return at_ == bytes_.data() + bytes_.size() && version_ < trace::version::go126;
  }
  [[nodiscard]] std::size_t offset_of(const std::uint8_t* place) const {
    return static_cast<std::size_t>(place - bytes_.data());
  }

 private:
  struct batch;
  class parts;
  struct raw_frame {  // whose names are not known yet
    std::uint64_t pc, function, file, line;
    std::size_t offset;
  };
  struct sample_stack {
    std::uint64_t id;
    std::size_t offset;
  };

  bool read_header();
  bool read_batch(batch& into);
  bool take(trace_generation& generation, const batch& read);
  bool take_strings(trace_generation& generation, parts from);
  bool take_stacks(trace_generation& generation, parts from);
  bool take_samples(trace_generation& generation, parts from);
  bool take_sync(trace_generation& generation, parts from, std::uint64_t time);
  bool seal(trace_generation& generation, std::size_t began);
  bool name_frames(trace_generation& generation);
  bool fail(std::size_t offset, std::string what);
  bool fail_cut(std::size_t offset, std::string what);
  bool fail_missing(std::size_t offset, std::string what);

  std::span<const std::uint8_t> bytes_;
  const std::uint8_t* at_;
  trace::version version_ = trace::version::go122;
  bool failed_ = false;
  bool clock_seen_ = false;
  trace_error error_;
  std::vector<raw_frame> raw_frames_;
  std::vector<sample_stack> sample_stacks_;
};

}  // namespace magpie::rt
