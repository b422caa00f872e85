// A descriptor of our own: non-blocking, registered with the poller once, and shared by as many
// goroutines as like. What sockets are made of.
//
//   if (int failed = d.begin(direction::read)) return failed;
//   for (;;) {
//     result = recv(d.fd(), ...);
//     if (it is not EAGAIN) break;
//     if (int failed = d.wait(direction::read)) ...
//   }
//   d.end(direction::read);
//
// One operation at a time in each direction; others wait for their turn, in order. Errors are errno
// values: ECANCELED when it is closed meanwhile, ETIMEDOUT when the deadline is over, which is
// looked at before every operation, ready or not.
//
// All functions from any thread, but for destroy().
#pragma once

#include "os/clock.h"
#include "os/fd.h"
#include "poll/poll_desc.h"
#include "sched/waiting.h"

namespace magpie::rt {

class descriptor : public poll_desc {
 public:
  descriptor() = default;  // the pool's business

  // Takes over `fd`, which is non-blocking; not if it fails. EPERM: the kernel cannot wait for it,
  // a regular file for example.
  static int open(int fd, descriptor*& made);

  // While an operation is under way, or by the owner.
  int fd() const { return poll_desc::fd; }

  // Waits for the turn. Not zero: it was not got, and there is no end().
  int begin(direction);
  // `drained`: the kernel gave less than it was asked for, so there is nothing more before the next
  // event, and the next operation begins with waiting for that, which saves a call in vain. True
  // for a TCP stream only: other kinds have reasons of their own to give less.
  void end(direction, bool drained = false);

  // Keeps the kernel's descriptor what it is, without a turn: for options and questions. Not zero:
  // it is closed, and there is no end_use().
  int begin_use();
  void end_use();

  // After EAGAIN: until it is worth another try.
  int wait(direction);

  // For operations under way, too; k_never: none.
  void set_deadline(direction, os::nanos);

  // Wakes whoever waits; the kernel's descriptor is closed when the last operation has ended. Twice
  // is harmless.
  void close();
  // By its owner: close(), and it is gone.
  void destroy();

  descriptor* next_free = nullptr;

 private:
  struct turn {
    detail::wait_list queue;
    os::nanos deadline = os::k_never;
    bool taken = false;
  };
  struct turn_waiter;

  turn& turn_of(direction way) { return way == direction::read ? reading_ : writing_; }
  int state(direction);
  int begin_locked(entry&, direction, object_guard&);
  int wait_for_turn(entry&, direction, object_guard&);
  int wait_locked(entry&, direction, object_guard&);
  int register_with(scheduler&);
  waiter* pass_turn_on_locked(direction);
  os::file_descriptor end_use_locked();
  os::file_descriptor settle_locked();

  // Under the lock.
  turn reading_;
  turn writing_;
  bool owned_ = false;
  bool closing_ = false;
  std::uint32_t uses_ = 0;             // operations under way
  std::uint64_t registered_with_ = 0;  // number of the poller that was the last to hear of it
};

}  // namespace magpie::rt
