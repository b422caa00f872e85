// The life of a socket, apart from what is sent through it.

#include <magpie/net/socket.h>

#include "io/shortage.h"
#include "net/socket_state.h"

namespace magpie::detail {

using namespace rt;

void socket_state::close() noexcept {
  // The first closer only. seq_cst: see shortage::look_again().
  if (closed.exchange(true, std::memory_order_seq_cst)) return;
  if (accepting != nullptr) {
    shortage::look_again();
    // Before the socket: afterwards it could be the file of whoever listens there next.
    if (!accepting->path.empty()) (void)os::remove_file(accepting->path.c_str());
  }
  io->close();
}

}  // namespace magpie::detail

namespace magpie::rt {

std::unique_ptr<socket_state> make_socket_state(os::file_descriptor fd, std::error_code& ec) {
  descriptor* io = nullptr;
  if (const int refused = descriptor::open(fd.get(), io)) {
    ec = from_kernel({refused});
    return nullptr;
  }
  (void)fd.release();  // it is the descriptor's now
  ec.clear();
  try {
    return std::make_unique<socket_state>(io);
  } catch (...) {
    io->destroy();
    throw;
  }
}

std::string peer_of(const socket_state* socket) {
  return socket == nullptr ? std::string() : socket->peer.to_string();
}

std::string name_of(const socket_state* socket) {
  const question asked(io_of(socket));
  os::raw_address name;
  if (asked.error() || os::name_of_socket(asked.fd(), name)) return {};
  return net::address(name).to_string();
}

}  // namespace magpie::rt

namespace magpie::net {

using namespace rt;

socket::~socket() {
  if (state_ == nullptr) return;
  state_->close();
  delete state_;
}

void socket::close() noexcept {
  if (state_ != nullptr) state_->close();
}

void socket::set_deadline(time_point deadline) noexcept {
  if (state_ == nullptr) return;
  if (state_->accepting != nullptr) {
    // seq_cst: see shortage::look_again().
    state_->accepting->deadline.store(to_nanos(deadline), std::memory_order_seq_cst);
    shortage::look_again();
  }
  state_->io->set_deadline(direction::read, to_nanos(deadline));
  state_->io->set_deadline(direction::write, to_nanos(deadline));
}

address socket::local_address(std::error_code& ec) const {
  const question asked(io_of(state_));
  os::raw_address name;
  ec = asked.error();
  if (!ec) ec = from_kernel(os::name_of_socket(asked.fd(), name));
  return address(name);
}

address socket::local_address() const {
  std::error_code ec;
  const address name = local_address(ec);
  throw_if(ec, "local address", {});
  return name;
}

int socket::native_handle() const noexcept { return *this ? state_->io->fd() : -1; }

socket::operator bool() const noexcept {
  return state_ != nullptr && !state_->closed.load(acquire);  // pairs with close()
}

}  // namespace magpie::net
