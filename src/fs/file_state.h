// What is inside a file.
//
// close() may come while others read and write: the descriptor must not be given back to the
// kernel then, because its number could be another file's a moment later. So uses are counted, and
// the last to end closes. Many read one file at a time, from the page cache, and a count that they
// all write costs more than they have to spare: each P has its own, and only one who finds the
// file closed looks at all of them.
//
//   begin()   count up, then look whether it is closed; if so, end()
//   close()   mark it as closed, then add up the counts; 0: close
//   end()     count down, then look whether it is closed; if so, add up; 0: close
//
// All of it is sequentially consistent. A use that began has counted before the mark, so whoever
// adds up after the mark finds it until its end, and in one place: it counts down where it counted
// up. And the last to count down finds 0, or the closer does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/atomic.h"
#include "base/cacheline.h"
#include "io/descriptor.h"
#include "os/fd.h"

namespace magpie::detail {

struct file_state {
  struct alignas(rt::k_cache_line) counter {
    rt::atomic<std::uint32_t> uses{0};
  };

  file_state(rt::os::file_descriptor fd, std::string path);
  ~file_state();
  file_state(const file_state&) = delete;
  file_state& operator=(const file_state&) = delete;

  // A use of `plain`, to be ended. Null: it is closed.
  counter* begin() noexcept;
  void end(counter*) noexcept;
  void close() noexcept;

  int fd() const noexcept { return io != nullptr ? io->fd() : plain.get(); }

  const std::string path;         // for texts
  rt::descriptor* io = nullptr;   // what can be waited for: pipes, terminals ...
  rt::os::file_descriptor plain;  // ... and what cannot: files of a disk
  rt::atomic<bool> closed{false};
  rt::atomic<bool> released{false};  // `plain` is closed, or about to be

 private:
  static constexpr std::size_t k_counters = 8;  // more Ps share them

  void close_if_unused() noexcept;

  counter counters_[k_counters];
};

}  // namespace magpie::detail
