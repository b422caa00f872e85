// io_uring by its three raw system calls: requests are written into a ring that the kernel reads,
// completions come back in another one.
//
//   if (io_uring_sqe* request = ring.next_submission()) {
//     prepare_read(*request, fd, buffer, offset, token);
//   }
//   ring.submit_and_wait(1, -1);
//   for (const uring_completion& done : records.first(ring.reap(records))) ...
//
// Buffers belong to the kernel from submit() until their completion is reaped. Destroying the
// ring does not change that: the kernel cancels what is in flight, but not before close returns.
// So cancel and reap first, then free. It also interrupts the threads that submitted, some time
// later: a call of theirs that blocks then may return EINTR although no signal came.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "os/error.h"
#include "os/fd.h"

struct io_uring_sqe;  // <linux/io_uring.h>; only os/ looks inside
struct io_uring_cqe;

namespace magpie::rt::os {

// Bits of io_uring_setup. Polling by a kernel thread (SQPOLL) is left out on purpose: a CPU that
// spins for us is a CPU that runs no goroutine.
enum class uring_setup : std::uint32_t {
  none = 0,
  clamp = 1U << 4,           // too many entries become the maximum instead of EINVAL
  submit_all = 1U << 7,      // 5.18: a refused request does not stop those behind it
  coop_taskrun = 1U << 8,    // 5.19: no interrupt to post completions, the next system call does
  taskrun_flag = 1U << 9,    // 5.19: tells reap() that completions wait for a system call
  single_issuer = 1U << 12,  // 6.0: the thread that made the ring promises to be the only one
  defer_taskrun = 1U << 13,  // 6.1: completions only in submit_and_wait() and reap()
};

constexpr uring_setup operator|(uring_setup a, uring_setup b) {
  return uring_setup{static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b)};
}

enum class uring_mappings {
  fewest,    // one for both rings where the kernel can (5.4)
  separate,  // one each; for tests of what older kernels need
};

struct uring_options {
  uring_setup setup = uring_setup::none;
  unsigned completion_entries = 0;  // 0: twice the submission entries
  uring_mappings mappings = uring_mappings::fewest;
};

// The operations that there is a prepare function for.
enum class uring_operation : std::uint8_t {
  nop = 0,
  fsync = 3,
  poll_add = 6,
  cancel = 14,
  read = 22,
  write = 23,
};

struct uring_completion {
  std::uint64_t token;
  std::int32_t result;  // what the system call would return; -errno when it failed
  std::uint32_t flags;
};

// One thread at a time on the submitting side (next_submission, submit, submit_and_wait) and one
// at a time on the reaping side (ready, reap). The two may run at the same time.
class uring {
 public:
  // Rounds `entries` up to a power of two. ENOSYS without io_uring in the kernel, EPERM when the
  // administrator or a sandbox forbids it, EINVAL for a setup bit that the kernel does not know.
  static result<uring> create(unsigned entries, const uring_options& options = {}) noexcept;
  uring(uring&&) noexcept = default;
  uring& operator=(uring&&) noexcept = default;

  // The next free slot, cleared; null when all wait for submit(). Must be prepared before
  // submit(), else it is a nop with token 0.
  io_uring_sqe* next_submission() noexcept;

  // Tells the kernel about all slots taken since; returns how many it took. On an error (EAGAIN,
  // EBUSY: reap first) they stay in the ring for the next submit().
  result<unsigned> submit() noexcept;

  // Takes back the slots that submit() left in the ring, when it failed.
  void withdraw() noexcept;

  // submit(), and wait until `wanted` completions are ready or `timeout` nanoseconds are over
  // (negative: for ever). Returns how many are ready: fewer than wanted when the time is over
  // or a signal came; only the caller knows whether it still wants to wait. ENOTSUP for a
  // positive timeout before Linux 5.11.
  result<unsigned> submit_and_wait(unsigned wanted, std::int64_t timeout) noexcept;

  // Completions in the ring. The kernel may hold back more, which reap() gets.
  unsigned ready() const noexcept;

  // Moves completions, oldest first, into the front of `out` and returns how many. Makes a
  // system call only if the kernel holds completions back that did not fit the ring.
  std::size_t reap(std::span<uring_completion> out) noexcept;

  // True when the kernel keeps completions that do not fit the ring (5.5). Where it drops them
  // never have more in flight than completion_entries().
  bool keeps_overflow() const noexcept;

  // Asks the kernel: for start-up. No kernel before 5.6 can be asked, so the answer is no there.
  bool supports(uring_operation operation) const noexcept;

  // The kernel adds 1 to the eventfd with every completion. One eventfd at a time.
  error register_eventfd(int fd) noexcept;
  error unregister_eventfd() noexcept;

  unsigned submission_entries() const { return submissions_.entries; }
  unsigned completion_entries() const { return completions_.entries; }
  int fd() const { return fd_.get(); }  // readable when a completion is ready

 private:
  // Memory shared with the kernel, unmapped when destroyed.
  class mapping {
   public:
    mapping() = default;
    mapping(mapping&& other) noexcept
        : address_(std::exchange(other.address_, nullptr)), size_(other.size_) {}
    mapping& operator=(mapping&& other) noexcept {
      std::swap(address_, other.address_);
      std::swap(size_, other.size_);
      return *this;
    }
    ~mapping();

    error map(int fd, std::uint64_t offset, std::size_t size) noexcept;
    template <class T>
    T* at(std::uint32_t offset) const {
      return reinterpret_cast<T*>(static_cast<std::byte*>(address_) + offset);
    }

   private:
    void* address_ = nullptr;
    std::size_t size_ = 0;
  };

  // Indices run free and wrap at 2^32; `entries` is a power of two, so index & (entries - 1) is
  // the slot.
  struct submission_ring {
    std::uint32_t* head = nullptr;   // the kernel's: up to here it has read
    std::uint32_t* tail = nullptr;   // ours: up to here it may read
    std::uint32_t* flags = nullptr;  // the kernel's: IORING_SQ_
    io_uring_sqe* slots = nullptr;
    std::uint32_t entries = 0;
    std::uint32_t taken = 0;  // up to here next_submission() gave slots out; tail follows
  };
  struct completion_ring {
    std::uint32_t* head = nullptr;  // ours: up to here we have read
    std::uint32_t* tail = nullptr;  // the kernel's: up to here it has written
    const io_uring_cqe* slots = nullptr;
    std::uint32_t entries = 0;
  };
  struct parameters;  // struct io_uring_params

  uring() = default;
  error map_rings(const parameters&, uring_mappings) noexcept;
  unsigned publish_submissions() noexcept;
  result<unsigned> enter(unsigned submitted, unsigned wanted, std::int64_t timeout) noexcept;
  std::size_t take_completions(std::span<uring_completion> out) noexcept;
  bool kernel_holds_back() const noexcept;

  std::uint32_t features_ = 0;
  submission_ring submissions_;
  completion_ring completions_;
  mapping submission_memory_;
  mapping completion_memory_;  // empty when the rings share one mapping
  mapping slot_memory_;
  file_descriptor fd_;
};

// What a slot of next_submission() shall do; `token` comes back with its completion.
//
// An offset of k_current_position reads and writes at the file's own position, as pipes and
// sockets need it.
inline constexpr std::int64_t k_current_position = -1;

enum class uring_sync {
  data_and_metadata,
  data,  // and what is needed to find it again: fdatasync
};

void prepare_nop(io_uring_sqe&, std::uint64_t token) noexcept;
void prepare_read(io_uring_sqe&, int fd, std::span<std::byte> buffer, std::int64_t offset,
                  std::uint64_t token) noexcept;
void prepare_write(io_uring_sqe&, int fd, std::span<const std::byte> bytes, std::int64_t offset,
                   std::uint64_t token) noexcept;
void prepare_fsync(io_uring_sqe&, int fd, uring_sync, std::uint64_t token) noexcept;
// Once; `events` as for poll(2), and so is the completion's result.
void prepare_poll_add(io_uring_sqe&, int fd, std::uint32_t events, std::uint64_t token) noexcept;
// Cancels a request by its token. Completes with 0, -ENOENT (no such request) or -EALREADY (too
// late to stop); the cancelled one completes too, mostly with -ECANCELED.
void prepare_cancel(io_uring_sqe&, std::uint64_t cancelled_token, std::uint64_t token) noexcept;

}  // namespace magpie::rt::os
