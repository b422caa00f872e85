// What is inside a file.
//
// close() may come while others read and write: the descriptor must not be given back to the
// kernel then, because its number could be another file's a moment later. So uses are counted, the
// open file itself being one, and the last to end closes.
#pragma once

#include <cstdint>
#include <string>

#include "base/atomic.h"
#include "io/descriptor.h"
#include "os/fd.h"

namespace magpie::detail {

struct file_state {
  file_state(rt::os::file_descriptor fd, std::string path);
  ~file_state();
  file_state(const file_state&) = delete;
  file_state& operator=(const file_state&) = delete;

  // False: it is closed.
  bool begin() noexcept;
  void end() noexcept;
  void close() noexcept;

  int fd() const noexcept { return io != nullptr ? io->fd() : plain.get(); }

  const std::string path;             // for texts
  rt::descriptor* io = nullptr;       // what can be waited for: pipes, terminals ...
  rt::os::file_descriptor plain;      // ... and what cannot: files of a disk
  rt::atomic<std::uint32_t> uses{1};  // of `plain`
  rt::atomic<bool> closed{false};
};

}  // namespace magpie::detail
