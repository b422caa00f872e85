// Connecting.

#include <magpie/go.h>

#include <algorithm>

#include "net/socket_state.h"
#include "os/clock.h"

namespace magpie::rt {
namespace {

// The kernel goes on by itself; afterwards the socket is writable and knows how it went.
std::error_code wait_until_connected(socket_state& socket, os::nanos deadline) {
  socket.io->set_deadline(direction::write, deadline);
  operation connecting(socket.io, direction::write);
  std::error_code ec = connecting.error();
  // As with every operation the question comes before the wait: it may be over already.
  while (!ec) {
    ec = from_kernel(os::pending_error(connecting.fd()));
    if (ec) break;
    os::raw_address peer;
    const os::error unconnected = os::name_of_peer(connecting.fd(), peer);
    if (!unconnected) break;
    ec = unconnected.code == ENOTCONN ? connecting.wait() : from_kernel(unconnected);
  }
  socket.io->set_deadline(direction::write, os::k_never);
  return ec;
}

// With a free port of this machine as its goal, a socket may be given just that port as its own,
// and meet itself. Nobody wants that.
bool met_itself(int fd, const os::raw_address& to) {
  if (os::family_of(to) == os::address_family::local) return false;
  os::raw_address mine, peer;
  if (os::name_of_socket(fd, mine) || os::name_of_peer(fd, peer)) return false;
  return net::address(mine) == net::address(peer);
}

// The listener's queue is full, and nothing tells when it is not.
std::error_code pause_until(os::nanos deadline, os::nanos& length) {
  constexpr os::nanos k_longest = 20'000'000;
  const os::nanos left = deadline == os::k_never ? k_longest : deadline - os::now();
  if (left <= 0) return deadline_passed();
  this_goroutine::sleep_for(duration(std::min(left, length)));
  length = std::min(2 * length, k_longest);
  return {};
}

std::unique_ptr<socket_state> connect_once(const os::raw_address& to, os::nanos deadline,
                                           std::error_code& ec) {
  const os::address_family family = os::family_of(to);
  os::result<os::file_descriptor> made = os::make_socket(family, os::socket_kind::stream);
  if (!made) {
    ec = from_kernel(made.error());
    return nullptr;
  }
  os::error begun = os::connect(made->get(), to);
  for (os::nanos pause = 100'000; begun.code == EAGAIN && family == os::address_family::local;) {
    ec = pause_until(deadline, pause);
    if (ec) return nullptr;
    begun = os::connect(made->get(), to);
  }
  if (begun && begun.code != EINPROGRESS) {
    ec = from_kernel(begun);
    return nullptr;
  }
  // Not before connect(): an unconnected socket would tell the poller that it hung up.
  std::unique_ptr<socket_state> socket = make_socket_state(std::move(*made), ec);
  if (socket == nullptr) return nullptr;
  if (begun) ec = wait_until_connected(*socket, deadline);
  if (ec) return nullptr;
  socket->peer = net::address(to);
  if (family != os::address_family::local) set_up_tcp(*socket);
  return socket;
}

}  // namespace

// Both only make it better; a socket that refuses is still good.
void set_up_tcp(socket_state& socket) {
  socket.is_tcp = true;
  const int fd = socket.io->fd();
  (void)os::set_option(fd, os::socket_option::no_delay, 1);
  (void)os::set_option(fd, os::socket_option::keep_alive, 1);
}

std::unique_ptr<socket_state> connect_stream(const net::address& to, os::nanos deadline,
                                             std::error_code& ec) {
  constexpr int k_tries = 3;
  for (int i = 0; i < k_tries; ++i) {
    std::unique_ptr<socket_state> socket = connect_once(to.raw(), deadline, ec);
    if (socket == nullptr || !met_itself(socket->io->fd(), to.raw())) return socket;
  }
  ec = from_kernel({ECONNREFUSED});
  return nullptr;
}

std::unique_ptr<socket_state> connect_first(const std::vector<net::address>& places,
                                            os::nanos deadline, std::error_code& ec) {
  // A place that does not answer must not use up the time of those behind it.
  constexpr os::nanos k_least = 2'000'000'000;
  for (std::size_t i = 0; i < places.size(); ++i) {
    os::nanos share = deadline;
    if (deadline != os::k_never && i + 1 < places.size()) {
      const os::nanos now = os::now();
      const os::nanos left = deadline - now;
      share = now + std::min(left, std::max(k_least, left / os::nanos(places.size() - i)));
    }
    if (std::unique_ptr<socket_state> socket = connect_stream(places[i], share, ec)) return socket;
    if (deadline != os::k_never && os::now() >= deadline) break;
  }
  return nullptr;
}

}  // namespace magpie::rt
