// The network poller: asks the kernel which descriptors have become ready. One for each runtime.
//
// It wakes nobody: it returns what happened, and the scheduler does the rest (sched/polling.cpp).
//
// Two sets. Descriptors of our own are registered once, for both directions and edge-triggered:
// the kernel then speaks only when something changes, and waiting for one costs no system call.
// Those of other libraries may be closed behind our back, or be in our own set as well; they are
// registered for one wait at a time, in a set of their own, which is a member of the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/atomic.h"
#include "base/intrusive.h"
#include "os/epoll.h"
#include "os/lock.h"
#include "poll/poll_desc.h"

namespace magpie::rt {

struct poll_event {
  std::uint64_t token;
  bool readable;
  bool writable;
  bool uncertain;  // see poll_desc

  // Something is done in the file_ring that was added with this number, and nothing else; -1: no.
  int ring() const { return token < k_ring_tokens ? static_cast<int>(token) : -1; }
  static constexpr std::uint64_t k_ring_tokens = 1 << 20;  // no address has them
};

struct poll_batch {
  poll_event events[2 * os::epoll::k_max_records];
  std::size_t count = 0;
};

class poller {
 public:
  poller();
  ~poller();
  poller(const poller&) = delete;
  poller& operator=(const poller&) = delete;

  // Makes the sets, if that has not been done. Any thread.
  os::error start();
  // Somebody has started it: from now on there may be something to wait for. Any thread.
  bool started() const { return started_.load(acquire); }  // pairs with start()
  // Different from that of every other poller, past ones too.
  std::uint64_t number() const { return number_; }

  // All below: after start(), any thread.

  os::error add(int fd, std::uint64_t token);
  // A descriptor of our own that is about to be closed, in all pollers there are: when this returns
  // no thread that collects events has a reference to it. Closing makes the kernel forget it too,
  // but later if somebody is collecting. Any thread; not in a child made by fork(), which has the
  // sets of its parent.
  static void forget(int fd);
  os::error add_ring(int fd, int number);
  // The record of a guest; null: no memory. Always the same for the same number.
  poll_desc* guest(int fd);
  // The next event that is one of those asked for, and only that.
  os::error arm_guest(int fd, bool readable, bool writable, std::uint64_t token);

  // What has happened; waits for it for at most `timeout` nanoseconds (negative: for ever). A
  // signal or interrupt() ends the wait with nothing. One thread at a time waits, though any number
  // may look with a timeout of 0.
  void poll(std::int64_t timeout, poll_batch& out);

  // Ends the wait of the one who waits, or the next wait that begins.
  void interrupt();

 private:
  static constexpr std::size_t k_chunk = 1024;
  static constexpr std::size_t k_chunks = 1024;
  using chunk = poll_desc[k_chunk];

  void silence_alarm(std::span<const os::epoll_record>);
  void collect(std::span<const os::epoll_record>, poll_batch& out);

  list_links<poller> links_;  // of all pollers
  using list = intrusive_list<poller, &poller::links_>;
  static list g_all;

  const std::uint64_t number_;
  os::member_lock lock_{os::lock_rank::leaf};  // one starts it
  atomic<bool> started_{false};
  std::optional<os::epoll> own_;
  std::optional<os::epoll> guests_;
  os::file_descriptor alarm_;
  // A token travels through the kernel from the one who registers a record to the one who is told
  // of it. That orders what they do, but by no rule of the language; this does.
  atomic<std::uint64_t> registrations_{0};
  atomic<chunk*> guest_chunks_[k_chunks] = {};  // by number
};

}  // namespace magpie::rt
