#include "trace/buffer.h"

#include "base/atomic.h"
#include "base/check.h"
#include "os/lock.h"
#include "os/memory.h"

namespace magpie::rt::trace {
namespace {

constexpr std::size_t k_block = 16;  // buffers made at once

constinit os::lock g_lock{os::lock_rank::leaf};
buffer* g_free = nullptr;
buffer* g_first_finished = nullptr;
buffer* g_last_finished = nullptr;
atomic<std::uint64_t> g_bytes{0};

void make_block_locked() {
  const auto memory = os::allocate_records(k_block * sizeof(buffer));
  if (!memory) fatal("no memory for the trace");
  auto* const block = static_cast<buffer*>(*memory);
  for (std::size_t i = 0; i < k_block; ++i) {
    block[i].next = g_free;
    g_free = block + i;
  }
}

}  // namespace

buffer* take_buffer() {
  const os::lock_guard hold(g_lock);
  if (g_free == nullptr) make_block_locked();
  buffer* const taken = g_free;
  g_free = taken->next;
  return taken;
}

void give_back(buffer* b) {
  const os::lock_guard hold(g_lock);
  b->next = g_free;
  g_free = b;
}

void push_finished(buffer* b) {
  g_bytes.fetch_add(b->size, relaxed);  // relaxed: a number
  b->next = nullptr;
  const os::lock_guard hold(g_lock);
  (g_last_finished != nullptr ? g_last_finished->next : g_first_finished) = b;
  g_last_finished = b;
}

buffer* take_finished() {
  const os::lock_guard hold(g_lock);
  buffer* const all = g_first_finished;
  g_first_finished = g_last_finished = nullptr;
  return all;
}

std::uint64_t bytes_finished() { return g_bytes.load(relaxed); }  // relaxed: a number

}  // namespace magpie::rt::trace
