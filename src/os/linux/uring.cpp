// The rings are shared with the kernel, which runs the other half of each protocol. The words are
// plain integers in its layout, so they are read and written through std::atomic_ref; the model
// checker's alias of base/atomic.h has no kernel to put on the other side.
//
//   submission   we write slots, publish tail      the kernel reads slots, publishes head
//   completion   the kernel writes slots, tail     we read slots, publish head
#include "os/uring.h"

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <limits>

#include "base/atomic.h"

namespace magpie::rt::os {
namespace {

static_assert(static_cast<int>(uring_operation::nop) == IORING_OP_NOP);
static_assert(static_cast<int>(uring_operation::fsync) == IORING_OP_FSYNC);
static_assert(static_cast<int>(uring_operation::poll_add) == IORING_OP_POLL_ADD);
static_assert(static_cast<int>(uring_operation::cancel) == IORING_OP_ASYNC_CANCEL);
static_assert(static_cast<int>(uring_operation::read) == IORING_OP_READ);
static_assert(static_cast<int>(uring_operation::write) == IORING_OP_WRITE);
static_assert(static_cast<std::uint32_t>(uring_setup::clamp) == IORING_SETUP_CLAMP);

// Our own name because the headers of an older distribution lack it (5.19).
constexpr std::uint32_t k_sq_taskrun = 1U << 2;
#ifdef IORING_SQ_TASKRUN
static_assert(k_sq_taskrun == IORING_SQ_TASKRUN);
#endif

std::uint32_t load_shared(std::uint32_t* word, std::memory_order order) noexcept {
  return std::atomic_ref(*word).load(order);
}

void store_shared(std::uint32_t* word, std::uint32_t value, std::memory_order order) noexcept {
  std::atomic_ref(*word).store(value, order);
}

error register_with(int fd, unsigned operation, const void* argument, unsigned count) noexcept {
  const long outcome = ::syscall(SYS_io_uring_register, fd, operation, argument, count);
  return outcome == 0 ? error{} : last_error();
}

// The slot comes cleared from next_submission().
void prepare(io_uring_sqe& request, uring_operation operation, int fd,
             std::uint64_t token) noexcept {
  request.opcode = static_cast<std::uint8_t>(operation);
  request.fd = fd;
  request.user_data = token;
}

void prepare_transfer(io_uring_sqe& request, const std::byte* data, std::size_t size,
                      std::int64_t offset) noexcept {
  constexpr std::size_t longest = std::numeric_limits<std::int32_t>::max();
  request.addr = reinterpret_cast<std::uintptr_t>(data);
  // As read and write do, it transfers at most what the 32-bit result can tell.
  request.len = static_cast<std::uint32_t>(std::min(size, longest));
  request.off = static_cast<std::uint64_t>(offset);
}

}  // namespace

struct uring::parameters : io_uring_params {};

error uring::mapping::map(int fd, std::uint64_t offset, std::size_t size) noexcept {
  // MAP_POPULATE: no page fault later, where the scheduler holds a P.
  void* const address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
                               static_cast<off_t>(offset));
  if (address == MAP_FAILED) return last_error();
  address_ = address;
  size_ = size;
  return {};
}

uring::mapping::~mapping() {
  if (address_ != nullptr) (void)::munmap(address_, size_);
}

result<uring> uring::create(unsigned entries, const uring_options& options) noexcept {
  parameters wanted{};
  wanted.flags = static_cast<std::uint32_t>(options.setup);
  if (options.completion_entries != 0) {
    wanted.flags |= IORING_SETUP_CQSIZE;
    wanted.cq_entries = options.completion_entries;
  }
  const long fd = ::syscall(SYS_io_uring_setup, entries, static_cast<io_uring_params*>(&wanted));
  if (fd < 0) return last_error();

  uring ring;
  ring.fd_ = file_descriptor(static_cast<int>(fd));
  ring.features_ = wanted.features;
  if (const error failure = ring.map_rings(wanted, options.mappings)) return failure;
  return ring;
}

error uring::map_rings(const parameters& given, uring_mappings mappings) noexcept {
  std::size_t submission_size = given.sq_off.array + given.sq_entries * sizeof(std::uint32_t);
  const std::size_t completion_size = given.cq_off.cqes + given.cq_entries * sizeof(io_uring_cqe);
  const bool shared =
      (features_ & IORING_FEAT_SINGLE_MMAP) != 0 && mappings == uring_mappings::fewest;
  if (shared) submission_size = std::max(submission_size, completion_size);

  const int fd = fd_.get();
  if (const error e = submission_memory_.map(fd, IORING_OFF_SQ_RING, submission_size)) return e;
  if (!shared) {
    if (const error e = completion_memory_.map(fd, IORING_OFF_CQ_RING, completion_size)) return e;
  }
  const std::size_t slots_size = given.sq_entries * sizeof(io_uring_sqe);
  if (const error e = slot_memory_.map(fd, IORING_OFF_SQES, slots_size)) return e;

  const mapping& sq = submission_memory_;
  submissions_ = {.head = sq.at<std::uint32_t>(given.sq_off.head),
                  .tail = sq.at<std::uint32_t>(given.sq_off.tail),
                  .flags = sq.at<std::uint32_t>(given.sq_off.flags),
                  .slots = slot_memory_.at<io_uring_sqe>(0),
                  .entries = given.sq_entries};
  const mapping& cq = shared ? submission_memory_ : completion_memory_;
  completions_ = {.head = cq.at<std::uint32_t>(given.cq_off.head),
                  .tail = cq.at<std::uint32_t>(given.cq_off.tail),
                  .slots = cq.at<io_uring_cqe>(given.cq_off.cqes),
                  .entries = given.cq_entries};

  // The kernel's ring holds indices of slots, so that they could be submitted out of order; we
  // never do, so position and slot are the same for ever.
  std::uint32_t* const indices = sq.at<std::uint32_t>(given.sq_off.array);
  for (std::uint32_t i = 0; i < given.sq_entries; ++i) indices[i] = i;
  return {};
}

io_uring_sqe* uring::next_submission() noexcept {
  // acquire pairs with the kernel's release of head after it has copied a slot: we must not
  // overwrite one that it still reads.
  const std::uint32_t head = load_shared(submissions_.head, acquire);
  if (submissions_.taken - head == submissions_.entries) return nullptr;
  io_uring_sqe& slot = submissions_.slots[submissions_.taken & (submissions_.entries - 1)];
  ++submissions_.taken;
  slot = {};
  return &slot;
}

// Returns how many slots wait for the kernel.
unsigned uring::publish_submissions() noexcept {
  // release pairs with the kernel's acquire of tail in io_uring_enter: it sees the slots as
  // prepared. (The system call would order them as well, but not by any rule of the language.)
  store_shared(submissions_.tail, submissions_.taken, release);
  // relaxed because without SQPOLL the kernel moves head only in our own system calls.
  return submissions_.taken - load_shared(submissions_.head, relaxed);
}

// One io_uring_enter; returns how many submissions the kernel took. An ended wait (time over,
// signal) is an error only if it took none.
result<unsigned> uring::enter(unsigned submitted, unsigned wanted, std::int64_t timeout) noexcept {
  __kernel_timespec limit{.tv_sec = timeout / 1'000'000'000, .tv_nsec = timeout % 1'000'000'000};
  io_uring_getevents_arg extended{};
  extended.ts = reinterpret_cast<std::uintptr_t>(&limit);

  // GETEVENTS even when nothing is wanted: the kernel then moves held-back completions.
  unsigned flags = IORING_ENTER_GETEVENTS;
  const void* argument = nullptr;
  std::size_t argument_size = 0;
  if (wanted != 0 && timeout > 0) {
    if ((features_ & IORING_FEAT_EXT_ARG) == 0) return error{ENOTSUP};
    flags |= IORING_ENTER_EXT_ARG;
    argument = &extended;
    argument_size = sizeof extended;
  }
  const long taken = ::syscall(SYS_io_uring_enter, fd_.get(), submitted, timeout == 0 ? 0 : wanted,
                               flags, argument, argument_size);
  if (taken < 0) return last_error();
  return static_cast<unsigned>(taken);
}

result<unsigned> uring::submit() noexcept {
  unsigned total = 0;
  while (const unsigned waiting = publish_submissions()) {
    const result<unsigned> taken = enter(waiting, 0, 0);
    if (!taken && taken.error() == error{EINTR}) continue;
    if (!taken && total == 0) return taken.error();
    if (!taken || *taken == 0) break;
    total += *taken;  // it may stop behind a request that it refuses; go on with the rest
  }
  return total;
}

// Nobody but our own system calls makes the kernel read slots: what it has not taken is ours.
void uring::withdraw() noexcept {
  submissions_.taken = load_shared(submissions_.head, relaxed);  // relaxed: as in publish
  (void)publish_submissions();
}

result<unsigned> uring::submit_and_wait(unsigned wanted, std::int64_t timeout) noexcept {
  for (;;) {
    const unsigned waiting = publish_submissions();
    const result<unsigned> taken = enter(waiting, wanted, timeout);
    if (!taken) {
      if (taken.error() == error{ETIME} || taken.error() == error{EINTR}) break;
      return taken.error();
    }
    // The kernel does not wait when it stops early, behind a request that it refuses.
    if (*taken == waiting || *taken == 0) break;
  }
  return ready();
}

unsigned uring::ready() const noexcept {
  // relaxed because nothing is read through it here: take_completions() loads tail again. head is
  // our own word.
  return load_shared(completions_.tail, relaxed) - load_shared(completions_.head, relaxed);
}

std::size_t uring::take_completions(std::span<uring_completion> out) noexcept {
  // relaxed because only the reaping side, this thread, writes head.
  std::uint32_t head = load_shared(completions_.head, relaxed);
  // acquire pairs with the kernel's release of tail after it has written the slots before it.
  const std::uint32_t tail = load_shared(completions_.tail, acquire);
  const std::size_t count = std::min<std::size_t>(tail - head, out.size());
  for (uring_completion& record : out.first(count)) {
    const io_uring_cqe& slot = completions_.slots[head++ & (completions_.entries - 1)];
    record = {.token = slot.user_data, .result = slot.res, .flags = slot.flags};
  }
  // release pairs with the kernel's read of head before it fills a slot again (its write depends
  // on that read): our copies are finished by then.
  store_shared(completions_.head, head, release);
  return count;
}

bool uring::kernel_holds_back() const noexcept {
  // relaxed because it is a hint without data: the completions themselves come through tail after
  // a system call, and who waits in submit_and_wait() gets them without asking here.
  const std::uint32_t flags = load_shared(submissions_.flags, relaxed);
  return (flags & (IORING_SQ_CQ_OVERFLOW | k_sq_taskrun)) != 0;
}

std::size_t uring::reap(std::span<uring_completion> out) noexcept {
  std::size_t count = take_completions(out);
  while (count < out.size() && kernel_holds_back()) {
    (void)enter(0, 0, 0);  // failing, it moves nothing, and the loop ends
    const std::size_t more = take_completions(out.subspan(count));
    if (more == 0) break;
    count += more;
  }
  return count;
}

bool uring::keeps_overflow() const noexcept { return (features_ & IORING_FEAT_NODROP) != 0; }

bool uring::supports(uring_operation operation) const noexcept {
  constexpr std::size_t most_operations = 256;  // an opcode is a byte
  alignas(io_uring_probe)
      std::byte memory[sizeof(io_uring_probe) + most_operations * sizeof(io_uring_probe_op)] = {};
  if (register_with(fd_.get(), IORING_REGISTER_PROBE, memory, most_operations)) return false;
  const auto* const probe = reinterpret_cast<const io_uring_probe*>(memory);
  const auto index = static_cast<std::uint8_t>(operation);
  return index <= probe->last_op && (probe->ops[index].flags & IO_URING_OP_SUPPORTED) != 0;
}

error uring::register_eventfd(int fd) noexcept {
  return register_with(fd_.get(), IORING_REGISTER_EVENTFD, &fd, 1);
}

error uring::unregister_eventfd() noexcept {
  return register_with(fd_.get(), IORING_UNREGISTER_EVENTFD, nullptr, 0);
}

void prepare_nop(io_uring_sqe& request, std::uint64_t token) noexcept {
  prepare(request, uring_operation::nop, -1, token);
}

void prepare_read(io_uring_sqe& request, int fd, std::span<std::byte> buffer, std::int64_t offset,
                  std::uint64_t token) noexcept {
  prepare(request, uring_operation::read, fd, token);
  prepare_transfer(request, buffer.data(), buffer.size(), offset);
}

void prepare_write(io_uring_sqe& request, int fd, std::span<const std::byte> bytes,
                   std::int64_t offset, std::uint64_t token) noexcept {
  prepare(request, uring_operation::write, fd, token);
  prepare_transfer(request, bytes.data(), bytes.size(), offset);
}

void prepare_fsync(io_uring_sqe& request, int fd, uring_sync what, std::uint64_t token) noexcept {
  prepare(request, uring_operation::fsync, fd, token);
  request.fsync_flags = what == uring_sync::data ? IORING_FSYNC_DATASYNC : 0;
}

void prepare_poll_add(io_uring_sqe& request, int fd, std::uint32_t events,
                      std::uint64_t token) noexcept {
  prepare(request, uring_operation::poll_add, fd, token);
  request.poll32_events = events;
}

void prepare_cancel(io_uring_sqe& request, std::uint64_t cancelled_token,
                    std::uint64_t token) noexcept {
  prepare(request, uring_operation::cancel, -1, token);
  request.addr = cancelled_token;
}

}  // namespace magpie::rt::os
