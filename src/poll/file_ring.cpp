#include "poll/file_ring.h"

#include <iterator>
#include <new>
#include <span>

#include "os/memory.h"

namespace magpie::rt {
namespace {

constexpr unsigned k_entries = 128;

void prepare(io_uring_sqe& slot, file_request& r) {
  const auto token = reinterpret_cast<std::uintptr_t>(&r);
  auto* const bytes = static_cast<std::byte*>(r.data);
  switch (r.what) {
    case os::uring_operation::read:
      return os::prepare_read(slot, r.fd, std::span(bytes, r.size), r.offset, token);
    case os::uring_operation::write:
      return os::prepare_write(slot, r.fd, std::span<const std::byte>(bytes, r.size), r.offset,
                               token);
    case os::uring_operation::fsync:
      return os::prepare_fsync(slot, r.fd, os::uring_sync::data_and_metadata, token);
    default:
      return os::prepare_nop(slot, token);
  }
}

}  // namespace

os::result<os::uring> file_ring::open() {
  auto ring = os::uring::create(k_entries);
  if (!ring) return ring;
  const bool able = ring->keeps_overflow() && ring->supports(os::uring_operation::read) &&
                    ring->supports(os::uring_operation::write) &&
                    ring->supports(os::uring_operation::fsync);
  if (!able) return os::error{ENOSYS};
  return ring;
}

file_ring* file_ring::create() {
  auto ring = open();
  if (!ring) return nullptr;
  const auto memory = os::allocate_records(sizeof(file_ring));
  if (!memory) return nullptr;
  return ::new (*memory) file_ring(std::move(*ring));
}

void file_ring::destroy() {
  this->~file_ring();
  (void)os::unmap({this, sizeof(file_ring)});
}

// One slot at a time is in use.
bool file_ring::submit(file_request& r) {
  io_uring_sqe* const slot = ring_.next_submission();
  if (slot == nullptr) return false;
  prepare(*slot, r);
  const os::result<unsigned> taken = ring_.submit();
  if (taken && *taken != 0) return true;
  ring_.withdraw();  // no memory, or too many that nobody has collected
  return false;
}

file_request* file_ring::collect_locked() {
  file_request* first = nullptr;
  file_request** last = &first;
  for (;;) {
    os::uring_completion batch[32];
    const std::size_t count = ring_.reap(batch);
    for (std::size_t i = 0; i < count; ++i) {
      auto* const r = reinterpret_cast<file_request*>(batch[i].token);
      r->result = batch[i].result;
      r->done = true;
      r->next = nullptr;
      *last = r;
      last = &r->next;
    }
    if (count < std::size(batch)) return first;
  }
}

}  // namespace magpie::rt
