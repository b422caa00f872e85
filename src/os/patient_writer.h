// Text for whoever reads it, or does not: a terminal that was stopped, a pipe whose reader sleeps.
// A plain write() to them may take for ever.
#pragma once

#include <cstddef>
#include <span>

#include "os/clock.h"
#include "os/fd.h"

namespace magpie::rt::os {

// One thread at a time. Does not block for longer than it says, on a descriptor that would either,
// which stays as it is: others may share it.
class patient_writer {
 public:
  // How long nothing may go out; k_never: however long. `fd` must outlive it.
  patient_writer(int fd, nanos patience) noexcept;

  // All of it. False: that did not work or took too long; nothing more is written from then on.
  bool write(std::span<const std::byte> bytes) noexcept;

 private:
  result<std::size_t> write_some(std::span<const std::byte> bytes) const noexcept;
  bool has_room_by(nanos deadline) const noexcept;
  nanos next_deadline() const noexcept;

  file_descriptor own_;  // the same once more, without blocking, where there is such a thing
  const int fd_;
  const nanos patience_;
  bool given_up_ = false;
};

}  // namespace magpie::rt::os
