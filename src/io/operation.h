// Operations on a descriptor, as sockets and pipes do them: try, and wait only if it would block.
#pragma once

#include <cstddef>
#include <system_error>

#include "io/descriptor.h"
#include "io/errors.h"

namespace magpie::rt {

// From the system call that is tried first to the last: others in the same direction wait until it
// is destroyed, and the descriptor stays what it is.
class operation {
 public:
  // Null is as good as closed.
  operation(descriptor* io, direction way) : way_(way) {
    if (io == nullptr) {
      error_ = object_closed();
    } else if (const int refused = io->begin(way)) {
      error_ = from_library(refused);
    } else {
      io_ = io;
    }
  }
  ~operation() {
    if (io_ != nullptr) io_->end(way_, drained_);
  }
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;

  // Why it could not begin.
  const std::error_code& error() const { return error_; }
  int fd() const { return io_->fd(); }

  // See descriptor::end().
  void set_drained(bool drained) { drained_ = drained; }

  // After EAGAIN: until it is worth a try. Otherwise why there is no use in it.
  std::error_code wait() {
    if (const int refused = io_->wait(way_)) return from_library(refused);
    return {};
  }

  // attempt(fd) until it does not say EAGAIN. Returns what it returns, or 0 and an error.
  template <class Attempt>
  std::size_t transfer(std::error_code& ec, Attempt attempt) {
    ec = error_;
    while (!ec) {
      const os::result<std::size_t> done = attempt(io_->fd());
      if (done) return *done;
      ec = done.error().code == EAGAIN ? wait() : from_kernel(done.error());
    }
    return 0;
  }

 private:
  descriptor* io_ = nullptr;
  const direction way_;
  bool drained_ = false;
  std::error_code error_;
};

// For a question or an option, beside whatever goes on.
class question {
 public:
  explicit question(descriptor* io) {
    if (io != nullptr && io->begin_use() == 0) {
      io_ = io;
    } else {
      error_ = object_closed();
    }
  }
  ~question() {
    if (io_ != nullptr) io_->end_use();
  }
  question(const question&) = delete;
  question& operator=(const question&) = delete;

  const std::error_code& error() const { return error_; }
  int fd() const { return io_->fd(); }

 private:
  descriptor* io_ = nullptr;
  std::error_code error_;
};

}  // namespace magpie::rt
