// Writes the batches that a trace file is made of (format.h), into memory that the caller brings.
//
// Nothing here allocates, locks or calls out, so all of it may be used inside the gate. A batch is
// begun in a piece of memory, filled until an event does not fit, and finished; its bytes can then
// go to the file as they are. Whoever writes events keeps the order: the batches of one thread
// reach the file in the order in which they were begun, and all of one generation before any of
// the next.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/check.h"
#include "base/varint.h"
#include "trace/format.h"

namespace magpie::rt::trace {

// The first bytes of a file.
constexpr std::array<std::uint8_t, k_header_size> file_header(version format) {
  std::array<std::uint8_t, k_header_size> header{};
  constexpr std::string_view k_text = "go 1.NN trace";
  for (std::size_t i = 0; i < k_text.size(); ++i) header[i] = static_cast<std::uint8_t>(k_text[i]);
  const auto number = static_cast<unsigned>(format);
  header[5] = static_cast<std::uint8_t>('0' + number / 10);
  header[6] = static_cast<std::uint8_t>('0' + number % 10);
  return header;
}

// What a frame of a stack is called. `function` and `file` are string ids of the same generation.
// Readers know a frame by its pc: two frames that differ must not share one.
struct frame {
  std::uint64_t pc;
  std::uint64_t function;
  std::uint64_t file;
  std::uint64_t line;
};

// What there is between the begin and the payload of a batch.
inline constexpr std::size_t k_max_batch_header = 1 + 3 * k_max_varint_size + 3;
// One event, at most.
inline constexpr std::size_t k_max_event = 1 + k_max_arguments * k_max_varint_size;
// Memory in which every single string, stack or event fits.
inline constexpr std::size_t k_min_batch_memory =
    k_max_batch_header + 1 + (2 + 4 * k_max_frames) * k_max_varint_size;

class batch_writer {
 public:
  // Events of thread `m`. Times are in units of the generation's clock; `now` is not 0.
  void begin_events(std::span<std::uint8_t> memory, std::uint64_t generation, std::uint64_t m,
                    std::uint64_t now) {
    begin(memory, generation, m, now);
  }
  // A part of the table of strings or of stacks.
  void begin_strings(std::span<std::uint8_t> memory, std::uint64_t generation, std::uint64_t now) {
    begin(memory, generation, k_nobody, now);
    put_kind(event::strings);
  }
  void begin_stacks(std::span<std::uint8_t> memory, std::uint64_t generation, std::uint64_t now) {
    begin(memory, generation, k_nobody, now);
    put_kind(event::stacks);
  }

  // False: it does not fit; finish this batch and begin another. The arguments are those of the
  // event after its time. A clock that went backwards counts as standing still.
  template <event kind, class... Numbers>
  bool write(std::uint64_t now, Numbers... numbers) {
    static_assert(facts_of(kind).name != nullptr, "not an event with a time");
    static_assert(facts_of(kind).arguments == 1 + sizeof...(numbers), "wrong number of arguments");
    if (room() < 1 + (1 + sizeof...(numbers)) * k_max_varint_size) return false;
    // A copy: bytes may alias anything, so at_ itself would be stored and loaded for each of them.
    std::uint8_t* to = at_;
    const std::uint64_t since = now > last_ ? now - last_ : 0;
    last_ += since;
    *to++ = static_cast<std::uint8_t>(kind);
    to = put_varint(to, since);
    ((to = put_varint(to, static_cast<std::uint64_t>(numbers))), ...);
    at_ = to;
    return true;
  }

  // Between begin_strings() and finish(). Each id once in a generation, from 1 on; 0 is the empty
  // string. Longer texts than readers take are cut. False: as for events.
  bool write_string(std::uint64_t id, std::string_view text) {
    text = cut(text);
    if (room() < 1 + 2 * k_max_varint_size + text.size()) return false;
    put_kind(event::string);
    put(id);
    put(text.size());
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
    return true;
  }

  // Between begin_stacks() and finish(). The innermost frame comes first. Of a stack that is too
  // deep the frames before the last are left out: the last one names the goroutine.
  bool write_stack(std::uint64_t id, std::span<const frame> frames) {
    const std::size_t count = frames.size() < k_max_frames ? frames.size() : k_max_frames;
    if (room() < 1 + (2 + 4 * count) * k_max_varint_size) return false;
    put_kind(event::stack);
    put(id);
    put(count);
    for (std::size_t i = 0; i < count; ++i) put(i + 1 < count ? frames[i] : frames.back());
    return true;
  }

  // No event was written since the begin.
  [[nodiscard]] bool empty() const { return at_ == payload_; }
  // The time of the last event.
  [[nodiscard]] std::uint64_t last() const { return last_; }

  // The finished batch.
  std::span<const std::uint8_t> finish() {
    put_padded_size(payload_ - k_size_field, static_cast<std::size_t>(at_ - payload_));
    return {memory_, at_};
  }

 private:
  // The size is known last. Three bytes hold every size that is allowed, whether needed or not.
  static constexpr std::size_t k_size_field = 3;
  static_assert(k_max_batch_payload < (std::size_t{1} << (7 * k_size_field)));

  static void put_padded_size(std::uint8_t* out, std::size_t size) {
    for (std::size_t i = 0; i + 1 < k_size_field; ++i, size >>= 7) {
      out[i] = static_cast<std::uint8_t>(size | 0x80);
    }
    out[k_size_field - 1] = static_cast<std::uint8_t>(size);
  }

  // Not in the middle of a character.
  static std::string_view cut(std::string_view text) {
    if (text.size() <= k_max_string) return text;
    std::size_t end = k_max_string;
    while (end > 0 && (static_cast<std::uint8_t>(text[end]) & 0xc0U) == 0x80U) --end;
    return text.substr(0, end);
  }

  void begin(std::span<std::uint8_t> memory, std::uint64_t generation, std::uint64_t m,
             std::uint64_t now) {
    MAGPIE_DCHECK(memory.size() >= k_min_batch_memory, "too little memory for a batch");
    memory_ = memory.data();
    at_ = memory_;
    last_ = now;
    put_kind(event::event_batch);
    put(generation);
    put(m);
    put(now);
    at_ += k_size_field;
    payload_ = at_;
    const std::size_t left = memory.size() - static_cast<std::size_t>(at_ - memory_);
    end_ = at_ + (left < k_max_batch_payload ? left : k_max_batch_payload);
  }

  [[nodiscard]] std::size_t room() const { return static_cast<std::size_t>(end_ - at_); }
  void put_kind(event kind) { *at_++ = static_cast<std::uint8_t>(kind); }
  void put(std::uint64_t number) { at_ = put_varint(at_, number); }
  void put(const frame& f) {
    put(f.pc);
    put(f.function);
    put(f.file);
    put(f.line);
  }

  std::uint8_t* memory_ = nullptr;
  std::uint8_t* payload_ = nullptr;
  std::uint8_t* at_ = nullptr;
  std::uint8_t* end_ = nullptr;
  std::uint64_t last_ = 0;
};

// The clock of a generation: how many of its units make a second and, read at one moment, what
// it, the monotonic clock and the time of day say.
struct clock_reading {
  std::uint64_t units_per_second;
  std::uint64_t now;              // units
  std::uint64_t monotonic_nanos;  // the rest: only in files from go 1.25 on
  std::uint64_t wall_seconds;
  std::uint64_t wall_nanos;
};

inline constexpr std::size_t k_max_sync_batch = k_max_batch_header + 2 + 1 + 5 * k_max_varint_size;

// The batch that every generation has exactly one of. `memory` has k_max_sync_batch bytes;
// returns how many were used.
inline std::size_t write_sync(std::span<std::uint8_t> memory, version format,
                              std::uint64_t generation, const clock_reading& clock) {
  MAGPIE_DCHECK(memory.size() >= k_max_sync_batch, "too little memory for a batch");
  std::uint8_t payload[3 + 5 * k_max_varint_size];
  std::uint8_t* out = payload;
  if (format >= version::go125) *out++ = static_cast<std::uint8_t>(event::sync);
  *out++ = static_cast<std::uint8_t>(event::frequency);
  out = put_varint(out, clock.units_per_second);
  if (format >= version::go125) {
    *out++ = static_cast<std::uint8_t>(event::clock_snapshot);
    out = put_varint(out, 0);  // read when the batch was begun
    out = put_varint(out, clock.monotonic_nanos);
    out = put_varint(out, clock.wall_seconds);
    out = put_varint(out, clock.wall_nanos);
  }
  const auto size = static_cast<std::size_t>(out - payload);
  std::uint8_t* to = memory.data();
  *to++ = static_cast<std::uint8_t>(event::event_batch);
  to = put_varint(to, generation);
  to = put_varint(to, k_nobody);
  to = put_varint(to, clock.now);
  to = put_varint(to, size);
  std::memcpy(to, payload, size);
  return static_cast<std::size_t>(to + size - memory.data());
}

// What stands after the last batch of a generation: nothing in older files.
constexpr std::size_t end_of_generation_size(version format) {
  return format >= version::go126 ? 1 : 0;
}
inline constexpr std::uint8_t k_end_of_generation =
    static_cast<std::uint8_t>(event::end_of_generation);

}  // namespace magpie::rt::trace
