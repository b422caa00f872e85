// What debug::dump() writes, as a text.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>

#include <magpie/debug.h>
#include <magpie/magpie.h>

namespace magpie::rt::testing {

// A goroutine or a plain thread. Read meanwhile, since a pipe holds less than a large dump.
inline std::string dump_text() {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  std::string text;
  std::thread reader([&] {
    char part[4096];
    for (ssize_t got; (got = read(ends[0], part, sizeof part)) > 0;) {
      text.append(part, static_cast<std::size_t>(got));
    }
  });
  debug::dump(ends[1]);
  close(ends[1]);
  blocking([&] { reader.join(); });
  close(ends[0]);
  return text;
}

}  // namespace magpie::rt::testing
