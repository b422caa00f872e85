// An io_uring for the files of one P: reads, writes and syncs that the kernel does meanwhile.
//
// The thread that holds the P submits, inside the gate; any thread may collect what is done, under
// the lock, which is an object's lock (sched/waiting.h). The kernel says through the poller when
// there is something.
#pragma once

#include <cstddef>
#include <cstdint>

#include <magpie/detail/waiting.h>

#include "os/uring.h"

namespace magpie::rt {

struct waiter;

// On the stack of the one who waits for it.
struct file_request {
  os::uring_operation what;
  int fd;
  void* data = nullptr;
  std::size_t size = 0;
  std::int64_t offset = os::k_current_position;

  // Under the ring's lock.
  std::int32_t result = 0;  // once it is done: as of the system call, or -errno
  bool done = false;
  waiter* sleeper = nullptr;  // who is to be woken then
  file_request* next = nullptr;
};

class file_ring {
 public:
  // In memory of its own. Null: the kernel does not allow it, or there is no room.
  static file_ring* create();
  void destroy();

  // The holder of the P. False: it is not on its way, and never will be.
  bool submit(file_request&);

  // Under the lock: those that are done, marked so. Null: none.
  file_request* collect_locked();

  detail::lock_word lock;
  int fd() const { return ring_.fd(); }

 private:
  explicit file_ring(os::uring ring) : ring_(std::move(ring)) {}
  static os::result<os::uring> open();

  os::uring ring_;
};

}  // namespace magpie::rt
