// trace_file.cpp: the frame of a trace file, and its tables.

#include "observe/trace_file.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/varint.h"

namespace magpie::rt {

using trace::event;

namespace {

std::string number(std::uint64_t value) {
  return value == trace::k_nobody ? std::string("-1") : std::to_string(value);
}

constexpr std::uint8_t byte_of(event kind) { return static_cast<std::uint8_t>(kind); }

}  // namespace

struct trace_file::batch {
  const std::uint8_t* began = nullptr;
  bool end_of_generation = false;
  bool experimental = false;
  std::uint64_t generation = 0;
  std::uint64_t m = 0;
  std::uint64_t time = 0;
  std::span<const std::uint8_t> bytes;
};

// What is left of a payload.
class trace_file::parts {
 public:
  explicit parts(std::span<const std::uint8_t> bytes)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  [[nodiscard]] bool done() const { return at_ == end_; }
  [[nodiscard]] const std::uint8_t* at() const { return at_; }
  std::uint8_t kind() { return *at_++; }

  template <class... Numbers>
  bool read(Numbers&... numbers) {
    return (read_one(numbers) && ...);
  }
  bool read_text(std::uint64_t length, std::string_view& text) {
    if (length > static_cast<std::size_t>(end_ - at_)) return false;
    text = {reinterpret_cast<const char*>(at_), static_cast<std::size_t>(length)};
    at_ += length;
    return true;
  }

 private:
  bool read_one(std::uint64_t& value) {
    const std::uint8_t* const next = get_varint(at_, end_, value);
    if (next == nullptr) return false;
    at_ = next;
    return true;
  }

  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

trace_file::trace_file(std::span<const std::uint8_t> bytes) : bytes_(bytes), at_(bytes.data()) {
  read_header();
}

bool trace_file::fail(std::size_t offset, std::string what) {
  failed_ = true;
  error_ = {offset, std::move(what), false};
  return false;
}

// The file ends where more should be.
bool trace_file::fail_cut(std::size_t offset, std::string what) {
  fail(offset, std::move(what));
  error_.cut = true;
  return false;
}

// Something that a generation refers to is not in it.
bool trace_file::fail_missing(std::size_t offset, std::string what) {
  fail(offset, std::move(what));
  error_.cut = may_be_cut();
  return false;
}

bool trace_file::read_header() {
  constexpr std::string_view k_pattern{"go 1.NN trace\0\0\0", trace::k_header_size};
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data()),
                              std::min(bytes_.size(), trace::k_header_size));
  if (text.empty()) return fail(0, "the file is empty");
  const auto fits = [](char c, char wanted) {
    return wanted == 'N' ? c >= '0' && c <= '9' : c == wanted;
  };
  if (!std::equal(text.begin(), text.end(), k_pattern.begin(), fits)) {
    return fail(0, "this is not a trace: it does not begin with \"go 1.NN trace\"");
  }
  if (text.size() < trace::k_header_size) {
    return fail_cut(text.size(), "the file ends in its header");
  }
  const std::string_view digits = text.substr(k_pattern.find('N'), 2);
  const int minor = (digits[0] - '0') * 10 + (digits[1] - '0');
  if (minor != 22 && minor != 23 && minor != 25 && minor != 26) {
    return fail(5, "the header says version go 1." + std::string(digits) +
                       "; known are go 1.22, 1.23, 1.25 and 1.26");
  }
  version_ = static_cast<trace::version>(minor);
  at_ += trace::k_header_size;
  return true;
}

bool trace_file::read_batch(batch& into) {
  into = batch{};
  into.began = at_;
  const std::uint8_t* const end = bytes_.data() + bytes_.size();
  const std::uint8_t kind = *at_++;
  if (kind == byte_of(event::end_of_generation) && version_ >= trace::version::go126) {
    into.end_of_generation = true;
    return true;
  }
  const std::size_t offset = offset_of(into.began);
  if (kind == byte_of(event::experimental_batch) && version_ >= trace::version::go123) {
    into.experimental = true;
    if (at_ == end) return fail_cut(offset, "the file ends in the head of a batch");
    if (*at_ != 1) return fail(offset + 1, "unknown experiment " + std::to_string(*at_));
    ++at_;
  } else if (kind != byte_of(event::event_batch)) {
    return fail(offset, "here should be a batch, but there is byte " + std::to_string(kind));
  }
  std::uint64_t size = 0;
  for (std::uint64_t* const field : {&into.generation, &into.m, &into.time, &size}) {
    const std::uint8_t* const next = get_varint(at_, end, *field);
    if (next == nullptr) {
      constexpr std::ptrdiff_t k_longest = 10;  // of a number of 64 bits
      if (end - at_ < k_longest) return fail_cut(offset, "the file ends in the head of a batch");
      return fail(offset, "the head of a batch holds a number of more than 64 bits");
    }
    at_ = next;
  }
  if (size > trace::k_max_batch_payload) {
    return fail(offset, "a batch of " + std::to_string(size) + " bytes; the most is " +
                            std::to_string(trace::k_max_batch_payload));
  }
  const auto left = static_cast<std::size_t>(end - at_);
  if (size > left) {
    return fail_cut(offset, "a batch of " + std::to_string(size) + " bytes, of which " +
                                std::to_string(left) + " are there");
  }
  if (into.generation == 0) return fail(offset, "a batch of generation 0; they count from 1");
  into.bytes = {at_, static_cast<std::size_t>(size)};
  at_ += size;
  return true;
}

bool trace_file::next(trace_generation& generation) {
  const std::uint8_t* const end = bytes_.data() + bytes_.size();
  if (failed_ || at_ == end) return false;
  const std::uint64_t before = generation.number;
  generation.number = 0;
  generation.units_per_second = 0;
  generation.first_time = 0;
  generation.wall_nanos = 0;
  generation.clock_time = 0;
  generation.cpu_samples = 0;
  generation.batches.clear();
  generation.strings.clear();
  generation.stacks.clear();
  generation.frames.clear();
  raw_frames_.clear();
  sample_stacks_.clear();
  clock_seen_ = false;

  const std::size_t began = offset_of(at_);
  bool ended = false;
  while (!ended && at_ != end) {
    const std::uint8_t* const here = at_;
    batch read;
    if (!read_batch(read)) return false;
    if (read.end_of_generation) {
      ended = true;
    } else if (generation.number == 0) {
      if (version_ < trace::version::go126 && before != 0 && read.generation != before + 1) {
        return fail(began, "generation " + number(read.generation) + " follows generation " +
                               number(before));
      }
      if (read.generation == before) {
        return fail(began, "two generations with the number " + number(before));
      }
      generation.number = read.generation;
    } else if (read.generation != generation.number) {
      if (version_ < trace::version::go126 && read.generation == generation.number + 1) {
        at_ = here;
        break;
      }
      return fail(offset_of(here), "a batch of generation " + number(read.generation) +
                                       " among those of generation " + number(generation.number));
    }
    if (!ended && !take(generation, read)) return false;
  }
  if (!ended && version_ >= trace::version::go126) {
    return fail_cut(bytes_.size(), "generation " + number(generation.number) + " has no end");
  }
  return seal(generation, began);
}

bool trace_file::take(trace_generation& generation, const batch& read) {
  if (generation.first_time == 0 || read.time < generation.first_time) {
    generation.first_time = read.time;
  }
  if (read.experimental || read.bytes.empty()) return true;
  const std::uint8_t kind = read.bytes.front();
  const parts rest(read.bytes.subspan(1));
  if (kind == byte_of(event::strings)) return take_strings(generation, rest);
  if (kind == byte_of(event::stacks)) return take_stacks(generation, rest);
  if (kind == byte_of(event::cpu_samples)) return take_samples(generation, rest);
  if (version_ < trace::version::go125) {
    if (kind == byte_of(event::frequency)) {
      return take_sync(generation, parts(read.bytes), read.time);
    }
  } else if (kind == byte_of(event::sync)) {
    return take_sync(generation, rest, read.time);
  }
  generation.batches.push_back({read.m, read.time, read.bytes});
  return true;
}

bool trace_file::take_strings(trace_generation& generation, parts from) {
  while (!from.done()) {
    const std::size_t offset = offset_of(from.at());
    if (from.kind() != byte_of(event::string)) {
      return fail(offset, "something else than a string in a table of strings");
    }
    std::uint64_t id = 0;
    std::uint64_t length = 0;
    std::string_view text;
    if (!from.read(id, length)) return fail(offset, "a string without id and length");
    if (length > trace::k_max_string) {
      return fail(offset, "a string of " + number(length) + " bytes; the most is " +
                              std::to_string(trace::k_max_string));
    }
    if (!from.read_text(length, text)) return fail(offset, "a string runs over its batch");
    generation.strings.add(id, text);
  }
  return true;
}

bool trace_file::take_stacks(trace_generation& generation, parts from) {
  while (!from.done()) {
    const std::size_t offset = offset_of(from.at());
    if (from.kind() != byte_of(event::stack)) {
      return fail(offset, "something else than a stack in a table of stacks");
    }
    std::uint64_t id = 0;
    std::uint64_t count = 0;
    if (!from.read(id, count)) return fail(offset, "a stack without id and number of frames");
    if (count > trace::k_max_frames) {
      return fail(offset, "a stack of " + number(count) + " frames; the most is " +
                              std::to_string(trace::k_max_frames));
    }
    const std::size_t first = raw_frames_.size();
    if (first > std::numeric_limits<std::uint32_t>::max() - count) {
      return fail(offset, "too many frames in one generation");
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      raw_frame frame{0, 0, 0, 0, offset};
      if (!from.read(frame.pc, frame.function, frame.file, frame.line)) {
        return fail(offset, "stack " + number(id) + " runs over its batch");
      }
      raw_frames_.push_back(frame);
    }
    generation.stacks.add(
        id, {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(count), offset});
  }
  return true;
}

bool trace_file::take_samples(trace_generation& generation, parts from) {
  while (!from.done()) {
    const std::size_t offset = offset_of(from.at());
    std::uint64_t time = 0;
    std::uint64_t m = 0;
    std::uint64_t p = 0;
    std::uint64_t g = 0;
    std::uint64_t stack = 0;
    if (from.kind() != byte_of(event::cpu_sample) || !from.read(time, m, p, g, stack)) {
      return fail(offset, "a broken CPU sample");
    }
    sample_stacks_.push_back({stack, offset});
    ++generation.cpu_samples;
  }
  return true;
}

bool trace_file::take_sync(trace_generation& generation, parts from, std::uint64_t time) {
  while (!from.done()) {
    const std::size_t offset = offset_of(from.at());
    const std::uint8_t kind = from.kind();
    if (kind == byte_of(event::frequency)) {
      if (generation.units_per_second != 0) {
        return fail(offset, "generation " + number(generation.number) + " has two frequencies");
      }
      if (!from.read(generation.units_per_second)) return fail(offset, "a cut frequency");
      if (generation.units_per_second == 0) return fail(offset, "a clock of frequency 0");
    } else if (kind == byte_of(event::clock_snapshot) && version_ >= trace::version::go125) {
      if (clock_seen_) {
        return fail(offset, "generation " + number(generation.number) + " has two clock readings");
      }
      clock_seen_ = true;
      std::uint64_t since = 0;
      std::uint64_t monotonic = 0;
      std::uint64_t seconds = 0;
      std::uint64_t nanos = 0;
      if (!from.read(since, monotonic, seconds, nanos)) return fail(offset, "a cut clock reading");
      generation.wall_nanos = seconds * 1'000'000'000U + nanos;
      generation.clock_time = time + since;
    } else {
      return fail(offset, "byte " + std::to_string(kind) + " in a sync batch");
    }
  }
  return true;
}

bool trace_file::seal(trace_generation& generation, std::size_t began) {
  const std::string which = "generation " + number(generation.number);
  if (const auto* const again = generation.strings.seal()) {
    return fail(
        offset_of(reinterpret_cast<const std::uint8_t*>(again->value.data())),
        "string " + number(again->id) +
            (again->id == 0 ? " stands for the empty one" : " is defined twice in " + which));
  }
  if (const auto* const again = generation.stacks.seal()) {
    return fail(again->value.offset, "stack " + number(again->id) +
                                         (again->id == 0 ? " stands for the empty one"
                                                         : " is defined twice in " + which));
  }
  if (generation.units_per_second == 0) return fail_missing(began, which + " has no frequency");
  if (version_ >= trace::version::go125 && !clock_seen_) {
    return fail_missing(began, which + " has no clock reading");
  }
  for (const sample_stack& sample : sample_stacks_) {
    if (!generation.has_stack(sample.id)) {
      return fail_missing(sample.offset, "a CPU sample with unknown stack " + number(sample.id));
    }
  }
  return name_frames(generation);
}

bool trace_file::name_frames(trace_generation& generation) {
  generation.frames.reserve(raw_frames_.size());
  for (const raw_frame& raw : raw_frames_) {
    const std::string_view* const function = generation.string(raw.function);
    const std::string_view* const file = generation.string(raw.file);
    if (function == nullptr || file == nullptr) {
      return fail_missing(raw.offset, "a frame with unknown string " +
                                          number(function == nullptr ? raw.function : raw.file));
    }
    generation.frames.push_back({raw.pc, *function, *file, raw.line});
  }
  return true;
}

}  // namespace magpie::rt
