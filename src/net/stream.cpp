// Bytes through a stream.

#include <magpie/net/socket.h>

#include "net/socket_state.h"

namespace magpie::net {

using namespace rt;

std::size_t stream::read(std::span<std::byte> into, std::error_code& ec) {
  operation reading(io_of(state_), direction::read);
  if (into.empty()) {
    ec = reading.error();
    return 0;
  }
  const std::size_t got = reading.transfer(ec, [into](int fd) { return os::receive(fd, into); });
  reading.set_drained(state_ != nullptr && state_->is_tcp && got != 0 && got < into.size());
  return got;
}

std::size_t stream::read(std::span<std::byte> into) {
  std::error_code ec;
  const std::size_t got = read(into, ec);
  if (ec) [[unlikely]]
    throw_if(ec, "read", peer_of(state_));
  return got;
}

std::size_t stream::write(std::span<const std::byte> bytes, std::error_code& ec) {
  operation writing(io_of(state_), direction::write);
  ec = writing.error();
  std::size_t sent = 0;
  while (!ec && sent < bytes.size()) {
    const auto rest = bytes.subspan(sent);
    sent += writing.transfer(ec, [rest](int fd) { return os::send(fd, rest); });
  }
  return ec ? 0 : sent;
}

std::size_t stream::write(std::span<const std::byte> bytes) {
  std::error_code ec;
  const std::size_t sent = write(bytes, ec);
  if (ec) [[unlikely]]
    throw_if(ec, "write", peer_of(state_));
  return sent;
}

void stream::write(std::span<const std::span<const std::byte>> pieces, std::error_code& ec) {
  operation writing(io_of(state_), direction::write);
  ec = writing.error();
  std::size_t sent = 0;  // of the first of the pieces that are left
  while (!ec) {
    while (!pieces.empty() && sent >= pieces.front().size()) {
      sent -= pieces.front().size();
      pieces = pieces.subspan(1);
    }
    if (pieces.empty()) return;
    sent += writing.transfer(ec, [=](int fd) { return os::send(fd, pieces, sent); });
  }
}

void stream::write(std::span<const std::span<const std::byte>> pieces) {
  std::error_code ec;
  write(pieces, ec);
  if (ec) [[unlikely]]
    throw_if(ec, "write", peer_of(state_));
}

void stream::set_read_deadline(time_point deadline) noexcept {
  if (state_ != nullptr) state_->io->set_deadline(direction::read, to_nanos(deadline));
}

void stream::set_write_deadline(time_point deadline) noexcept {
  if (state_ != nullptr) state_->io->set_deadline(direction::write, to_nanos(deadline));
}

// Behind the writes that go on: what they were given is sent before the end.
void stream::shutdown_write(std::error_code& ec) {
  const operation writing(io_of(state_), direction::write);
  ec = writing.error();
  if (!ec) ec = from_kernel(os::shut_down_write(writing.fd()));
}

void stream::shutdown_write() {
  std::error_code ec;
  shutdown_write(ec);
  throw_if(ec, "shut down", peer_of(state_));
}

address stream::remote_address() const { return state_ != nullptr ? state_->peer : address(); }

}  // namespace magpie::net
