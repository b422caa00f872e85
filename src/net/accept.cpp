// Listening and accepting.
//
// A process that is out of descriptors cannot accept, but the connections stay in the kernel's
// queue and the listener stays readable: whoever tries again at once burns a processor for nothing,
// and whoever gives up ends a server that would be well in a second. So there are pauses, short at
// first. A descriptor that we close ends a pause (io/shortage.h), one that somebody else closes
// does not. close() of the listener does, and so does the deadline.

#include <algorithm>
#include <optional>

#include "io/shortage.h"
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

// Of one who is out of something: between its tries.
class pauses {
 public:
  explicit pauses(socket_state& listener) : listener_(listener) {}

  // Otherwise why there is no use in another try.
  std::error_code next() {
    if (!short_) {
      short_.emplace();  // what was closed before that is found by trying at once
      return {};
    }
    // seq_cst: as close() has it.
    if (listener_.closed.load(std::memory_order_seq_cst)) return object_closed();
    const os::nanos deadline = listener_.accepting->deadline.load(acquire);  // see set_deadline()
    const os::nanos now = os::now();
    if (deadline <= now) return deadline_passed();
    short_->wait_until(std::min(now + length_, deadline));
    length_ = std::min(2 * length_, k_longest);
    return {};
  }

  void end() {
    short_.reset();
    length_ = k_first;
  }

 private:
  static constexpr os::nanos k_first = 1'000'000;
  static constexpr os::nanos k_longest = 100'000'000;  // ten tries a second cost nothing

  socket_state& listener_;
  std::optional<shortage> short_;
  os::nanos length_ = k_first;
};

// The next connection as it comes.
std::unique_ptr<socket_state> try_accept(int listener, std::error_code& ec) {
  os::raw_address peer;
  os::result<os::file_descriptor> fd = os::accept(listener, peer);
  if (!fd) {
    ec = from_kernel(fd.error());
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
  pauses pause(*listener);
  while (!ec) {
    if (std::unique_ptr<socket_state> made = try_accept(accepting.fd(), ec)) return made;
    if (ec.value() == EAGAIN) {
      pause.end();
      ec = accepting.wait();
    } else if (is_about_the_connection(ec)) {
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
