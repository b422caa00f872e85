// Listening and accepting.
//
// A process that is out of descriptors cannot accept, but the connections stay in the kernel's
// queue and the listener stays readable: whoever tries again at once burns a processor for nothing,
// and whoever gives up ends a server that would be well in a second. So there are pauses, short at
// first. close() ends a pause, and so does the deadline.

#include <algorithm>

#include "net/socket_state.h"
#include "os/clock.h"

namespace magpie::rt {
namespace {

// Out of something that others will give back.
bool is_shortage(const std::error_code& ec) {
  switch (ec.value()) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case ENOSPC:  // watches of the poller
      return true;
    default:
      return false;
  }
}

// It concerns the one connection that is now gone, not the listener: accept(2) tells of them late.
bool is_about_the_connection(const std::error_code& ec) {
  switch (ec.value()) {
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EPERM:  // a firewall
      return true;
    default:
      return false;
  }
}

class pauses {
 public:
  explicit pauses(listening& of) : of_(of) {}

  // Otherwise why it ended.
  std::error_code next() {
    const os::nanos deadline = of_.deadline.load(relaxed);  // relaxed: see set_deadline()
    const os::nanos left = deadline == os::k_never ? k_longest : deadline - os::now();
    if (left <= 0) return deadline_passed();
    if (of_.closing.wait_for(duration(std::min(length_, left)))) return object_closed();
    length_ = std::min(2 * length_, k_longest);
    return {};
  }

 private:
  static constexpr os::nanos k_first = 1'000'000;
  static constexpr os::nanos k_longest = 100'000'000;  // ten tries a second cost nothing

  listening& of_;
  os::nanos length_ = k_first;
};

// The next connection as it comes; null: try again, or an error.
std::unique_ptr<socket_state> try_accept(operation& accepting, std::error_code& ec) {
  os::raw_address peer;
  os::result<os::file_descriptor> fd = os::accept(accepting.fd(), peer);
  if (!fd) {
    ec = fd.error().code == EAGAIN ? accepting.wait() : from_kernel(fd.error());
    return nullptr;
  }
  std::unique_ptr<socket_state> made = make_socket_state(std::move(*fd), ec);
  if (made != nullptr) made->peer = net::address(peer);
  return made;
}

}  // namespace

std::unique_ptr<socket_state> accept_from(socket_state* listener, std::error_code& ec) {
  operation accepting(io_of(listener), direction::read);
  ec = accepting.error();
  if (ec) return nullptr;
  pauses pause(*listener->accepting);
  while (!ec) {
    if (std::unique_ptr<socket_state> made = try_accept(accepting, ec)) return made;
    if (ec.category() != std::system_category()) continue;
    if (is_about_the_connection(ec)) {
      ec.clear();
    } else if (is_shortage(ec)) {
      ec = pause.next();
    }
  }
  return nullptr;
}

std::unique_ptr<socket_state> listen_at(const net::address& place, listen_wishes wishes,
                                        std::error_code& ec) {
  const os::raw_address& at = place.raw();
  const os::address_family family = os::family_of(at);
  os::result<os::file_descriptor> made = os::make_socket(family, os::socket_kind::stream);
  if (!made) {
    ec = from_kernel(made.error());
    return nullptr;
  }
  const int fd = made->get();
  os::error failure;
  if (family != os::address_family::local) {
    failure = os::set_option(fd, os::socket_option::reuse_address, 1);
  }
  if (family == os::address_family::ipv6) {
    // Best effort: it is how the system is set up, mostly.
    (void)os::set_option(fd, os::socket_option::only_ipv6, 0);
  }
  if (!failure && wishes.reuse_port) {
    failure = os::set_option(fd, os::socket_option::reuse_port, 1);
  }
  if (!failure && wishes.owner_only && family == os::address_family::local) {
    failure = os::keep_to_owner(fd);  // before it has a name: nobody is quicker
  }
  if (!failure) failure = os::bind(fd, at);
  if (!failure) failure = os::listen(fd, wishes.backlog);
  if (failure) {
    ec = from_kernel(failure);
    return nullptr;
  }
  std::unique_ptr<socket_state> listener = make_socket_state(std::move(*made), ec);
  if (listener == nullptr) return nullptr;
  listener->io->claim_address();
  listener->accepting = std::make_unique<listening>();
  const std::string path = os::print_local(at);
  if (!path.starts_with('@')) listener->accepting->path = path;
  return listener;
}

}  // namespace magpie::rt
