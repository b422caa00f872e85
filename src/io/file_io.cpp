// file_io.cpp: a goroutine waits for a disk.
//
// Comes from: fs/, a read or write of a file.
// Goes to:    sched/polling.cpp, where whoever asks the poller finds that it is done.

#include "io/file_io.h"

#include <magpie/blocking.h>

#include <cerrno>

#include "os/fd.h"
#include "os/file.h"
#include "sched/waiting.h"

namespace magpie::rt {
namespace {

// False: there is no ring to give it to, or the kernel did not take it.
bool do_in_ring(file_request& r) {
  entry inside;
  M* const m = inside.m();
  if (m == nullptr) return false;
  scheduler& home = m->scheduler_;
  file_ring* const ring = home.ring_for_files(*m);
  if (ring == nullptr || !ring->submit(r)) return false;
  for (;;) {
    wake_list others;
    object_guard held(ring->lock);
    scheduler::collect_locked(*ring, others);  // it may be done already
    if (r.done) {
      held.unlock();
      others.wake_all(m);
      return true;
    }
    if (others.empty()) {
      waiter me;
      me.object = ring;
      r.sleeper = &me;
      home.io_wait_begins(m);
      inside.block(me, wait_reason::io_wait, held);
      home.io_wait_ends(inside.m());
      return true;
    }
    held.unlock();
    others.wake_all(m);
  }
}

bool always_in_ring() {
  const M* const m = current_m();
  return m != nullptr && m->scheduler_.settings.io == io_backend::io_uring;
}

os::result<std::size_t> outcome_of(const file_request& r) {
  if (r.result < 0) return os::error{-r.result};
  return static_cast<std::size_t>(r.result);
}

template <class AtOnce, class Waiting>
os::result<std::size_t> transfer(file_request r, AtOnce at_once, Waiting waiting) {
  const bool forced = always_in_ring();
  if (!forced) {
    const os::result<std::size_t> done = at_once();
    if (done || (done.error().code != EAGAIN && done.error().code != EOPNOTSUPP)) {
      if (entry inside; inside.m() != nullptr) inside.end_quick_call();
      return done;
    }
    // Where the file system cannot tell, most calls do not wait, and a thread is the better guess.
    if (done.error().code == EOPNOTSUPP) return blocking(waiting);
  }
  // ECANCELED: the thread that submitted it has ended.
  if (!do_in_ring(r) || r.result == -ECANCELED) return blocking(waiting);
  return outcome_of(r);
}

}  // namespace

os::result<std::size_t> read_file(int fd, std::span<std::byte> into, std::int64_t offset) {
  return transfer(
      {.what = os::uring_operation::read,
       .fd = fd,
       .data = into.data(),
       .size = into.size(),
       .offset = offset},
      [=] { return os::pread_at_once(fd, into, offset); },
      [=] { return offset < 0 ? os::read(fd, into) : os::pread(fd, into, offset); });
}

os::result<std::size_t> write_file(int fd, std::span<const std::byte> bytes, std::int64_t offset) {
  return transfer(
      {.what = os::uring_operation::write,
       .fd = fd,
       .data = const_cast<std::byte*>(bytes.data()),
       .size = bytes.size(),
       .offset = offset},
      [=] { return os::pwrite_at_once(fd, bytes, offset); },
      [=] { return offset < 0 ? os::write(fd, bytes) : os::pwrite(fd, bytes, offset); });
}

std::size_t number_of_p() {
  const entry inside;
  return inside.m() != nullptr ? static_cast<std::size_t>(inside.m()->p->id) : 0;
}

os::error sync_file(int fd) {
  file_request r{.what = os::uring_operation::fsync, .fd = fd};
  if (do_in_ring(r) && r.result != -ECANCELED) return {-r.result};
  return blocking([fd] { return os::sync(fd); });
}

}  // namespace magpie::rt
