// guest.cpp: descriptors of other libraries, which may be closed and used again behind our back.
//
// Comes from: wait_readable(), wait_writable() and select.
// Goes to:    wait.cpp; the woken one returns to user code, which makes its call.
//
// There is one record for each number, in each runtime. The kernel is asked anew for every wait,
// for one event, in a set of its own (poller.h). What it says about an earlier question is
// recognised by the sequence, which changes with every question.

#include <magpie/poll.h>

#include <string>

#include "io/wait.h"
#include "os/fd.h"

namespace magpie {

using namespace rt;
using detail::guest_source;
using detail::poll_side;

namespace {

direction way_of(poll_side side) {
  return side == poll_side::readable ? direction::read : direction::write;
}

os::readiness readiness_of(poll_side side) {
  return side == poll_side::readable ? os::readiness::to_read : os::readiness::to_write;
}

const char* name_of(poll_side side) {
  return side == poll_side::readable ? "wait_readable" : "wait_writable";
}

[[noreturn]] void throw_error(poll_side side, int fd, int code) {
  throw std::system_error(code, std::generic_category(),
                          std::string(name_of(side)) + " of descriptor " + std::to_string(fd));
}

int find_guest(scheduler& home, int fd, poll_desc*& found) {
  if (const os::error failed = home.start_poller()) return failed.code;
  found = home.descriptors.guest(fd);
  return found != nullptr ? 0 : ENOMEM;
}

// 0, or an errno value. An event is not the last word: somebody else may have been faster.
int wait_until_ready(int fd, poll_side side, os::nanos deadline) {
  scheduler& home = home_of_wait(current_m());
  for (;;) {
    const os::result<bool> ready = os::is_ready(fd, readiness_of(side));
    if (!ready) return ready.error().code;
    if (*ready) return 0;
    if (deadline != os::k_never && os::now() >= deadline) return ETIMEDOUT;
    poll_desc* d = nullptr;
    if (const int failed = find_guest(home, fd, d)) return failed;
    entry inside;
    object_guard held(d->lock);
    const int failed = wait_for_event(inside, *d, way_of(side), held, deadline);
    if (failed != 0 && failed != ETIMEDOUT) return failed;
  }
}

void wait(int fd, poll_side side, time_point deadline, std::error_code& failed) {
  const int code = wait_until_ready(fd, side, to_nanos(deadline));
  failed = code == 0 ? std::error_code() : std::error_code(code, std::generic_category());
}

void wait(int fd, poll_side side, time_point deadline) {
  if (const int code = wait_until_ready(fd, side, to_nanos(deadline))) {
    throw_error(side, fd, code);
  }
}

}  // namespace

void wait_readable(int fd, time_point deadline) { wait(fd, poll_side::readable, deadline); }
void wait_writable(int fd, time_point deadline) { wait(fd, poll_side::writable, deadline); }
void wait_readable(int fd, time_point deadline, std::error_code& failed) {
  wait(fd, poll_side::readable, deadline, failed);
}
void wait_writable(int fd, time_point deadline, std::error_code& failed) {
  wait(fd, poll_side::writable, deadline, failed);
}

// ---- In a select ------------------------------------------------------------------------------

namespace {

guest_source& guest_of(detail::select_source& source) { return static_cast<guest_source&>(source); }

bool take(detail::select_source& source) {
  const guest_source& g = guest_of(source);
  const os::result<bool> ready = os::is_ready(g.descriptor->fd, readiness_of(g.side));
  return !ready || *ready;  // one that is closed: the handler's call will say so
}

void enlist(detail::select_source& source, wait_node& node) {
  const guest_source& g = guest_of(source);
  g.home->io_wait_begins(nullptr);
  push_back(g.descriptor->of(way_of(g.side)).waiting, node);
  (void)g.home->arm_guest_locked(*g.descriptor);  // prepare_guest() has tried
}

void withdraw(detail::select_source& source, wait_node& node) {
  const guest_source& g = guest_of(source);
  g.home->io_wait_ends(nullptr);
  remove(g.descriptor->of(way_of(g.side)).waiting, node);
}

}  // namespace

void detail::prepare_guest(guest_source& source, int fd, poll_side side) {
  source.home = &home_of_wait(current_m());
  source.side = side;
  int failed = find_guest(*source.home, fd, source.descriptor);
  // EPERM: a regular file, which is always ready.
  if (failed == 0) {
    const entry inside;
    const object_guard held(source.descriptor->lock);
    failed = source.home->arm_guest_locked(*source.descriptor).code;
  }
  if (failed != 0 && failed != EPERM) throw_error(side, fd, failed);
  source.lock = &source.descriptor->lock;
  source.take = take;
  source.enlist = enlist;
  source.withdraw = withdraw;
}

}  // namespace magpie
