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

#include "base/intrusive.h"
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

  // By the owner, before others know it: it is bound to an address, which must be free again when
  // close() returns. That costs a call, so not every descriptor does it.
  void claim_address() { has_address_ = true; }

  // Wakes whoever waits, and waits until the last operation has ended: the kernel's descriptor is
  // closed when it returns. Twice is harmless; the second one does not wait.
  void close();
  // By its owner: close(), and it is gone.
  void destroy();

  descriptor* next_free = nullptr;

 private:
  // Of one who waits for its turn, on its stack. It is kept while the one wakes up to look at a new
  // deadline, and given the turn all the same.
  struct place {
    list_links<place> links;
    waiter* asleep = nullptr;  // null: awake
    bool has_turn = false;     // and is off the list
  };
  struct turn {
    intrusive_list<place, &place::links> queue;
    os::nanos deadline = os::k_never;
    bool taken = false;
  };
  // Of the kernel's descriptor, to be closed outside of the gate.
  struct remains {
    ~remains();
    os::file_descriptor fd;
    bool has_address = false;
  };

  turn& turn_of(direction way) { return way == direction::read ? reading_ : writing_; }
  int state(direction);
  int begin_locked(entry&, direction, object_guard&);
  int wait_for_turn(entry&, direction, object_guard&);
  int wait_locked(entry&, direction, object_guard&);
  int register_with(scheduler&);
  waiter* pass_turn_on_locked(direction);
  void wake_all_locked(direction, wake_list&);
  waiter* end_use_locked(remains&);
  void settle_locked(remains&);

  // Under the lock.
  turn reading_;
  turn writing_;
  bool owned_ = false;
  bool closing_ = false;
  bool has_address_ = false;
  waiter* closer_ = nullptr;           // waits until its use is the last
  std::uint32_t uses_ = 0;             // operations under way
  std::uint64_t registered_with_ = 0;  // number of the poller that was the last to hear of it
};

}  // namespace magpie::rt
