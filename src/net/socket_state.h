// What is inside a socket: a descriptor that can be waited for, and what is known about it.
#pragma once

#include <magpie/detail/duration.h>
#include <magpie/net/address.h>

#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "base/atomic.h"
#include "io/descriptor.h"
#include "io/errors.h"
#include "io/operation.h"
#include "os/clock.h"
#include "os/socket.h"

namespace magpie::rt {

// What only those who accept() need.
struct listening {
  atomic<os::nanos> deadline{os::k_never};  // as set_deadline() left it, for pauses
  std::string path;                         // of a unix socket, whose file close() removes
};

}  // namespace magpie::rt

namespace magpie::detail {

struct socket_state {
  explicit socket_state(rt::descriptor* d) : io(d) {}
  ~socket_state() { io->destroy(); }
  socket_state(const socket_state&) = delete;
  socket_state& operator=(const socket_state&) = delete;

  void close() noexcept;

  rt::descriptor* const io;
  rt::atomic<bool> closed{false};
  bool is_tcp = false;  // a stream
  net::address peer;    // nowhere: none
  std::unique_ptr<rt::listening> accepting;
};

}  // namespace magpie::detail

namespace magpie::rt {

using detail::socket_state;

// The descriptor as a socket; it is closed when that fails.
std::unique_ptr<socket_state> make_socket_state(os::file_descriptor, std::error_code&);

inline descriptor* io_of(const socket_state* socket) {
  return socket != nullptr ? socket->io : nullptr;
}

// ---- What the kinds of sockets share ----------------------------------------------------------

// A connected socket; null with an error. For TCP and unix sockets.
std::unique_ptr<socket_state> connect_stream(const net::address& to, os::nanos deadline,
                                             std::error_code&);
// The first of the places that can be reached.
std::unique_ptr<socket_state> connect_first(const std::vector<net::address>& places,
                                            os::nanos deadline, std::error_code&);

struct listen_wishes {
  int backlog;
  bool reuse_port;
  bool owner_only;
};
std::unique_ptr<socket_state> listen_at(const net::address&, listen_wishes, std::error_code&);

// The next connection of a listener; null with an error.
std::unique_ptr<socket_state> accept_from(socket_state*, std::error_code&);

// What every new TCP connection has.
void set_up_tcp(socket_state&);

// When an operation that begins now and may last so long has to be over.
inline os::nanos deadline_in(duration timeout) {
  return detail::deadline_after(clock::now(), timeout).time_since_epoch().count();
}

// For texts; empty when there is none.
std::string peer_of(const socket_state*);
std::string name_of(const socket_state*);

}  // namespace magpie::rt
