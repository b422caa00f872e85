// debug.cpp: the doors of <magpie/debug.h>.

#include <magpie/blocking.h>
#include <magpie/debug.h>

#include <span>
#include <string_view>

#include "observe/goroutine_text.h"
#include "os/clock.h"
#include "os/patient_writer.h"
#include "sched/snapshot.h"

namespace magpie::debug {

using namespace rt;

namespace {

template <class Function>
std::string text_of(Function&& print) {
  std::string text;
  {
    printer out({[](void* to, const char* part, std::size_t size) {
                   static_cast<std::string*>(to)->append(part, size);
                 },
                 &text});
    print(out);
  }
  return text;
}

// Few and large writes: a dump may be long, and the terminal another process's, too.
class fd_writer {
 public:
  fd_writer(int fd, os::nanos patience) : to_(fd, patience) {}
  ~fd_writer() { flush(); }
  fd_writer(const fd_writer&) = delete;
  fd_writer& operator=(const fd_writer&) = delete;

  void add(std::string_view text) {
    text_.append(text);
    if (text_.size() >= k_enough) flush();
  }

 private:
  static constexpr std::size_t k_enough = 64 << 10;

  void flush() {
    to_.write(std::as_bytes(std::span(text_)));
    text_.clear();
  }

  os::patient_writer to_;
  std::string text_;
};

goroutine_info describe(const goroutine_text& text, const snapshot& s, const goroutine_record& g) {
  goroutine_info info;
  info.id = g.id;
  info.parent = g.parent;
  info.name = s.name_of(g);
  info.state = state_text(g.state);
  if (g.state == goroutine_state::waiting) {
    info.wait_reason = wait_reason_text(g.reason);
    info.waited = duration(g.waited);
  }
  if (g.object != nullptr) {
    info.waiting_on = text_of([&](printer& out) { text.print_object(out, g); });
  }
  if (g.spawn_site != nullptr) {
    info.spawn_site = text_of([&](printer& out) {
      text.print_short_place(out, reinterpret_cast<std::uintptr_t>(g.spawn_site) - 1);
    });
  }
  info.thread_locked = g.locked;
  if (g.view == stack_view::unavailable) info.stack.push_back("stack unavailable: running");
  text.for_each_frame(
      g,
      [&](const code_name& n) {
        info.stack.push_back(
            text_of([&](printer& out) { goroutine_text::print_short_place(out, n); }));
      },
      [&](std::uint32_t count) {
        info.stack.push_back(
            text_of([&](printer& out) { out << "..." << count << " frames elided..."; }));
      });
  return info;
}

}  // namespace

// It takes long, and waits for others: the P is theirs meanwhile.
[[gnu::noinline]] std::vector<goroutine_info> goroutines() {
  const detail::blocking_scope others_go_on(hand_off_now);
  snapshot s;
  s.take();
  const goroutine_text text(s, {});
  std::vector<goroutine_info> all;
  all.reserve(s.goroutines().size());
  for (const goroutine_record& g : s.goroutines()) all.push_back(describe(text, s, g));
  return all;
}

[[gnu::noinline]] void dump(int fd) {
  const detail::blocking_scope others_go_on(hand_off_now);
  dump_to(fd, os::k_never, "");
}

}  // namespace magpie::debug

namespace magpie::rt {

void dump_to(int fd, os::nanos patience, std::string_view title) {
  snapshot s;
  s.take();
  const goroutine_text text(s, {});
  debug::fd_writer to(fd, patience);
  printer out({[](void* writer, const char* part, std::size_t size) {
                 static_cast<debug::fd_writer*>(writer)->add({part, size});
               },
               &to});
  if (!title.empty()) out << title << s.goroutines().size() << " goroutines\n\n";
  text.print(out);
  out.flush();
}

}  // namespace magpie::rt
