// The memory that events are written into: blocks of 64 KiB, each one batch of one thread. They
// come from the kernel, never from the heap, and are used again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace magpie::rt::trace {

struct buffer {
  static constexpr std::size_t k_size = 64 * 1024;

  buffer* next;
  std::uint64_t generation;
  std::size_t size;  // of the finished batch
  std::uint8_t bytes[k_size - 24];

  std::span<std::uint8_t> memory() { return bytes; }
  [[nodiscard]] std::span<const std::uint8_t> batch() const { return {bytes, size}; }
};
static_assert(sizeof(buffer) == buffer::k_size);

// Any thread, also inside the gate. Ends the process when there is no memory: a trace with a hole
// cannot be read.
buffer* take_buffer();
void give_back(buffer*);

// Finished batches on their way to the recorder, in the order in which they were finished.
void push_finished(buffer*);
// All of them; null: none.
buffer* take_finished();
// Bytes in batches that have been finished since the process started.
std::uint64_t bytes_finished();

}  // namespace magpie::rt::trace
