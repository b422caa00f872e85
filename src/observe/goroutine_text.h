// Goroutines as text, in the grammar of Go's dumps:
//
//     goroutine 7 [chan receive, 3 minutes, locked to thread] "reader":
//       waits in 0x7ffe0, held by goroutine 9 "writer"
//     serve(connection&)
//             /src/server.cpp:41 +0x1b
//     created by main in goroutine 1
//             /src/main.cpp:12 +0x2c
//
// The line that says what it waits in is ours. So is one header for many goroutines that differ in
// nothing that would be printed: "goroutine 8..1007 (1000 goroutines) [chan receive]:".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/print.h"
#include "os/clock.h"
#include "sched/snapshot.h"
#include "symbols/code_names.h"

namespace magpie::rt {

// What a stack is shown without: the scheduler's own frames, and what stands between it and the
// function that it runs. Where that would leave nothing, less is hidden.
class hidden_frames {
 public:
  explicit hidden_frames(const code_names& names) : names_(names) {}  // nothing
  hidden_frames(const code_names&, std::span<const std::uintptr_t> frames);
  bool operator()(std::uintptr_t inside) const;

 private:
  enum class kind {
    nothing,
    scheduler,
    scheduler_and_glue,
  };
  const code_names& names_;
  kind what_ = kind::nothing;
};

// Two lines: the function, and where in its file.
void print_frame(printer&, const code_names&, std::uintptr_t inside);
// "created by main in goroutine 1", and where. parent 0: without the goroutine.
void print_creator(printer&, const code_names&, const void* spawn_site, std::uint64_t parent);

// All goroutines to a descriptor, which may be full for so long; then the rest is left out. A title
// comes with their number.
void dump_to(int fd, os::nanos patience, std::string_view title);

class goroutine_text {
 public:
  struct options {
    code_names::style names = code_names::style::demangled;
    bool runtime_frames = false;    // the scheduler's own, too
    std::size_t group_above = 100;  // so many equal ones are printed as one
  };

  // The snapshot must outlive it.
  goroutine_text(const snapshot&, options);

  // If they were left as they are so far; see code_names.
  void demangle() { names_.demangle(); }

  // All of them, the caller first, with an empty line between two.
  void print(printer&) const;

  void print_header(printer&, const goroutine_record&) const;
  // "0x7ffe0, held by goroutine 9"
  void print_object(printer&, const goroutine_record&) const;
  // "serve(connection&) at /src/server.cpp:41"; of the innermost function.
  void print_short_place(printer&, std::uintptr_t inside) const;
  static void print_short_place(printer&, const code_name&);

  // visit(name) for each function that is to be shown, innermost first; between the inner and the
  // outer ones left_out(count) if some are missing.
  template <class Visit, class LeftOut>
  void for_each_frame(const goroutine_record& g, Visit visit, LeftOut left_out) const {
    const std::uintptr_t* const frames = snapshot_.frames_of(g);
    const hidden_frames hidden = hidden_of(g);
    for (std::uint32_t i = 0; i < g.frames; ++i) {
      if (i == g.inner_frames && g.left_out != 0) left_out(g.left_out);
      if (!hidden(frames[i])) names_.for_each(frames[i], visit);
    }
  }

 private:
  struct group;
  void print_block(printer&, const group&) const;
  void print_name_of(printer&, const goroutine_record&) const;
  void print_frames(printer&, const goroutine_record&) const;
  hidden_frames hidden_of(const goroutine_record&) const;

  const snapshot& snapshot_;
  const options options_;
  code_names names_;
};

}  // namespace magpie::rt
