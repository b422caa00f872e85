// debug.cpp: the doors of <magpie/debug.h>.

#include <magpie/blocking.h>
#include <magpie/debug.h>

#include <cerrno>
#include <span>
#include <string_view>

#include "observe/goroutine_text.h"
#include "os/clock.h"
#include "os/fd.h"
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

// Few and large writes: a dump may be long, and the terminal another process's, too. Where a write
// does not block it waits for room; when there is none for so long, the rest is left out.
class fd_writer {
 public:
  fd_writer(int fd, os::nanos patience) : fd_(fd), patience_(patience) {}
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
    std::span<const std::byte> left = std::as_bytes(std::span(text_));
    os::nanos deadline = next_deadline();
    while (!left.empty() && !given_up_) {
      const auto written = os::write(fd_, left);
      if (written) {
        left = left.subspan(*written);
        deadline = next_deadline();
      } else {
        given_up_ = written.error().code != EAGAIN || !has_room_by(deadline);
      }
    }
    text_.clear();
  }

  os::nanos next_deadline() const {
    return patience_ == os::k_never ? os::k_never : os::now() + patience_;
  }

  bool has_room_by(os::nanos deadline) const {
    if (os::now() >= deadline) return false;
    const auto ready = os::wait_ready(fd_, os::readiness::to_write, deadline);
    return ready && *ready;
  }

  const int fd_;
  const os::nanos patience_;
  bool given_up_ = false;
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
  dump_to(fd, os::k_never);
}

}  // namespace magpie::debug

namespace magpie::rt {

void dump_to(int fd, os::nanos patience) {
  snapshot s;
  s.take();
  const goroutine_text text(s, {});
  debug::fd_writer to(fd, patience);
  printer out({[](void* writer, const char* part, std::size_t size) {
                 static_cast<debug::fd_writer*>(writer)->add({part, size});
               },
               &to});
  text.print(out);
  out.flush();
}

}  // namespace magpie::rt
