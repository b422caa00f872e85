// Waiting for descriptors of other libraries: a database client, inotify, a pipe, anything that
// poll(2) can wait for.
//
//   while (database_is_busy(connection)) {
//     magpie::wait_readable(database_socket(connection));
//     database_consume_input(connection);
//   }
//
// A goroutine that waits costs no thread; outside of goroutines the calling thread waits. Ready
// means that the call in question would not block: there is data, room, an end or an error. Any
// number may wait for the same descriptor. It may be closed between calls, and its number used
// again, but not while somebody waits for it. Regular files are always ready.
//
// magpie's own sockets and files need none of this.
#pragma once

#include <cstddef>
#include <system_error>
#include <utility>

#include <magpie/detail/duration.h>
#include <magpie/detail/select_core.h>
#include <magpie/export.h>
#include <magpie/select.h>

namespace magpie {

// std::errc::timed_out when the deadline is over; bad_file_descriptor for a number that is none.
MAGPIE_API void wait_readable(int fd, time_point deadline = never);
MAGPIE_API void wait_writable(int fd, time_point deadline = never);
MAGPIE_API void wait_readable(int fd, time_point deadline, std::error_code&);
MAGPIE_API void wait_writable(int fd, time_point deadline, std::error_code&);

namespace detail {

enum class poll_side : bool {
  readable,
  writable,
};

// Throws std::system_error if the descriptor cannot be waited for. `source` stays where it is until
// the select has ended.
struct guest_source : select_source {
  rt::poll_desc* descriptor;
  rt::scheduler* home;
  poll_side side;
};
MAGPIE_API void prepare_guest(guest_source&, int fd, poll_side);

template <class F>
class descriptor_case {
 public:
  descriptor_case(int fd, poll_side side, F handler)
      : fd_(fd), side_(side), handler_(std::move(handler)) {}

  descriptor_case&& owned() && { return std::move(*this); }

  void prepare(select_entry& e, case_use) {
    prepare_guest(source_, fd_, side_);
    e.what = select_entry::kind::source;
    e.source = &source_;
  }
  void finish(channel_result) { handler_(); }

 private:
  int fd_;
  poll_side side_;
  F handler_;
  guest_source source_{};
};

}  // namespace detail

// Cases for select(): the descriptor is ready. handler().
template <class F>
auto on_readable(int fd, F&& handler) {
  return detail::descriptor_case<std::decay_t<F>>(fd, detail::poll_side::readable,
                                                  std::forward<F>(handler));
}
template <class F>
auto on_writable(int fd, F&& handler) {
  return detail::descriptor_case<std::decay_t<F>>(fd, detail::poll_side::writable,
                                                  std::forward<F>(handler));
}

}  // namespace magpie
