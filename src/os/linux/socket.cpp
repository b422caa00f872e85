#include "os/socket.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "os/fault.h"

namespace magpie::rt::os {
namespace {

static_assert(sizeof(sockaddr_un) <= raw_address::k_capacity);
static_assert(alignof(raw_address) >= alignof(sockaddr_in6));

// Every EINTR is retried, those made on purpose too.
template <class Call>
auto uninterrupted(fault_call which, Call call) noexcept {
  auto outcome = faulty(which, call);
  while (outcome < 0 && errno == EINTR) outcome = faulty(which, call);
  return outcome;
}

result<std::size_t> transferred(ssize_t count) noexcept {
  if (count < 0) return last_error();
  return static_cast<std::size_t>(count);
}

error outcome_of(int returned) noexcept { return returned == 0 ? error{} : last_error(); }

sockaddr* as_sockaddr(raw_address& a) noexcept { return reinterpret_cast<sockaddr*>(a.bytes); }
const sockaddr* as_sockaddr(const raw_address& a) noexcept {
  return reinterpret_cast<const sockaddr*>(a.bytes);
}

// The typed forms are copied in and out: the bytes are nobody's object.
template <class Sockaddr>
raw_address packed(const Sockaddr& typed) noexcept {
  raw_address out;
  std::memcpy(out.bytes, &typed, sizeof typed);
  out.size = sizeof typed;
  return out;
}
template <class Sockaddr>
Sockaddr unpacked(const raw_address& a) noexcept {
  Sockaddr typed{};
  std::memcpy(&typed, a.bytes, std::min<std::size_t>(sizeof typed, a.size));
  return typed;
}

raw_address from_kernel(raw_address filled, socklen_t size) noexcept {
  filled.size = std::min<socklen_t>(size, raw_address::k_capacity);
  return unmapped(filled);
}

raw_address ipv4(in_addr host, std::uint16_t port) noexcept {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  a.sin_addr = host;
  return packed(a);
}

raw_address ipv6(in6_addr host, std::uint16_t port, std::uint32_t scope = 0) noexcept {
  sockaddr_in6 a{};
  a.sin6_family = AF_INET6;
  a.sin6_port = htons(port);
  a.sin6_addr = host;
  a.sin6_scope_id = scope;
  return packed(a);
}

// A number or the name of an interface; 0: neither.
std::uint32_t scope_named(const char* name) noexcept {
  std::uint32_t number = 0;
  for (const char* c = name; *c >= '0' && *c <= '9' && number < 100'000'000; ++c) {
    number = number * 10 + static_cast<std::uint32_t>(*c - '0');
    if (c[1] == 0) return number;
  }
  return if_nametoindex(name);
}

int domain_of(address_family family) noexcept {
  switch (family) {
    case address_family::ipv4:
      return AF_INET;
    case address_family::ipv6:
      return AF_INET6;
    case address_family::local:
      return AF_UNIX;
    case address_family::none:
      break;
  }
  return AF_UNSPEC;
}

}  // namespace

// ---- Addresses --------------------------------------------------------------------------------

address_family family_of(const raw_address& a) noexcept {
  if (a.size < sizeof(sa_family_t)) return address_family::none;
  switch (as_sockaddr(a)->sa_family) {
    case AF_INET:
      return address_family::ipv4;
    case AF_INET6:
      return address_family::ipv6;
    case AF_UNIX:
      return address_family::local;
    default:
      return address_family::none;
  }
}

error parse_ip(std::string_view host, std::uint16_t port, raw_address& out) noexcept {
  char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];
  if (host.empty() || host.size() >= sizeof text) return {EINVAL};
  std::memcpy(text, host.data(), host.size());
  text[host.size()] = 0;
  in_addr four{};
  if (inet_pton(AF_INET, text, &four) == 1) {
    out = ipv4(four, port);
    return {};
  }
  char* const percent = std::strchr(text, '%');
  std::uint32_t scope = 0;
  if (percent != nullptr) {
    *percent = 0;
    scope = scope_named(percent + 1);
    if (scope == 0) return {EINVAL};
  }
  in6_addr six{};
  if (inet_pton(AF_INET6, text, &six) != 1) return {EINVAL};
  out = ipv6(six, port, scope);
  return {};
}

raw_address any_ip(address_family family, std::uint16_t port) noexcept {
  if (family == address_family::ipv4) return ipv4({htonl(INADDR_ANY)}, port);
  return ipv6(in6addr_any, port);
}

raw_address loopback(address_family family, std::uint16_t port) noexcept {
  if (family == address_family::ipv4) return ipv4({htonl(INADDR_LOOPBACK)}, port);
  return ipv6(in6addr_loopback, port);
}

std::string print_ip(const raw_address& a) {
  char text[INET6_ADDRSTRLEN];
  switch (family_of(a)) {
    case address_family::ipv4: {
      const auto typed = unpacked<sockaddr_in>(a);
      return inet_ntop(AF_INET, &typed.sin_addr, text, sizeof text);
    }
    case address_family::ipv6: {
      const auto typed = unpacked<sockaddr_in6>(a);
      std::string printed = inet_ntop(AF_INET6, &typed.sin6_addr, text, sizeof text);
      if (typed.sin6_scope_id == 0) return printed;
      char interface[IF_NAMESIZE];
      const bool named = if_indextoname(typed.sin6_scope_id, interface) != nullptr;
      return printed + "%" + (named ? interface : std::to_string(typed.sin6_scope_id));
    }
    default:
      return {};
  }
}

std::uint16_t port_of(const raw_address& a) noexcept {
  switch (family_of(a)) {
    case address_family::ipv4:
      return ntohs(unpacked<sockaddr_in>(a).sin_port);
    case address_family::ipv6:
      return ntohs(unpacked<sockaddr_in6>(a).sin6_port);
    default:
      return 0;
  }
}

error make_local(std::string_view path, raw_address& out) noexcept {
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  const bool abstract = path.starts_with('@');
  if (path.empty() || (!abstract && path.find('\0') != path.npos)) return {EINVAL};
  if (path.size() + (abstract ? 0 : 1) > sizeof a.sun_path) return {ENAMETOOLONG};
  std::memcpy(a.sun_path, path.data(), path.size());
  if (abstract) a.sun_path[0] = 0;
  out = packed(a);
  // The length of an abstract name counts; a path ends with its zero.
  out.size = static_cast<std::uint32_t>(offsetof(sockaddr_un, sun_path) + path.size()) +
             (abstract ? 0 : 1);
  return {};
}

std::string print_local(const raw_address& a) {
  constexpr std::size_t k_before = offsetof(sockaddr_un, sun_path);
  if (family_of(a) != address_family::local || a.size <= k_before) return {};
  const auto* const path = reinterpret_cast<const char*>(a.bytes) + k_before;
  const std::size_t size = a.size - k_before;
  if (path[0] == 0) return "@" + std::string(path + 1, size - 1);
  return std::string(path, strnlen(path, size));
}

raw_address mapped_to_ipv6(const raw_address& a) noexcept {
  if (family_of(a) != address_family::ipv4) return a;
  const auto four = unpacked<sockaddr_in>(a);
  in6_addr host{};
  host.s6_addr[10] = host.s6_addr[11] = 0xff;
  std::memcpy(&host.s6_addr[12], &four.sin_addr, sizeof four.sin_addr);
  return ipv6(host, ntohs(four.sin_port));
}

raw_address unmapped(const raw_address& a) noexcept {
  if (family_of(a) != address_family::ipv6) return a;
  const auto six = unpacked<sockaddr_in6>(a);
  if (!IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) return a;
  in_addr host{};
  std::memcpy(&host, &six.sin6_addr.s6_addr[12], sizeof host);
  return ipv4(host, ntohs(six.sin6_port));
}

// ---- Making and asking ------------------------------------------------------------------------

result<file_descriptor> make_socket(address_family family, socket_kind kind) noexcept {
  const int type = kind == socket_kind::stream ? SOCK_STREAM : SOCK_DGRAM;
  const int fd = ::socket(domain_of(family), type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return last_error();
  return file_descriptor(fd);
}

error bind(int fd, const raw_address& to) noexcept {
  return outcome_of(::bind(fd, as_sockaddr(to), to.size));
}

error keep_to_owner(int fd) noexcept { return outcome_of(::fchmod(fd, S_IRUSR | S_IWUSR)); }

error listen(int fd, int backlog) noexcept { return outcome_of(::listen(fd, backlog)); }

int max_backlog() noexcept { return SOMAXCONN; }

result<file_descriptor> accept(int fd, raw_address& peer) noexcept {
  raw_address filled;
  socklen_t size = 0;
  const int accepted = uninterrupted(fault_call::accept, [&] {
    size = raw_address::k_capacity;
    return ::accept4(fd, as_sockaddr(filled), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
  });
  if (accepted < 0) return last_error();
  peer = from_kernel(filled, size);
  return file_descriptor(accepted);
}

error connect(int fd, const raw_address& to) noexcept {
  // Not repeated: one that was interrupted goes on by itself, and a second call would only say so.
  const int done =
      faulty(fault_call::connect, [&] { return ::connect(fd, as_sockaddr(to), to.size); });
  if (done == 0) return {};
  const error failure = last_error();
  if (failure.code != EINTR) return failure;
  if (!k_faults) return {EINPROGRESS};
  // Made on purpose, it was not even begun.
  if (::connect(fd, as_sockaddr(to), to.size) == 0) return {};
  return errno == EALREADY ? error{EINPROGRESS} : last_error();
}

error pending_error(int fd) noexcept {
  int code = 0;
  socklen_t size = sizeof code;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0) return last_error();
  return {code};
}

error name_of_peer(int fd, raw_address& out) noexcept {
  raw_address filled;
  socklen_t size = raw_address::k_capacity;
  if (::getpeername(fd, as_sockaddr(filled), &size) != 0) return last_error();
  out = from_kernel(filled, size);
  return {};
}

error name_of_socket(int fd, raw_address& out) noexcept {
  raw_address filled;
  socklen_t size = raw_address::k_capacity;
  if (::getsockname(fd, as_sockaddr(filled), &size) != 0) return last_error();
  out = from_kernel(filled, size);
  return {};
}

error set_option(int fd, socket_option option, int value) noexcept {
  struct place {
    int level, name;
  };
  constexpr place k_places[] = {{SOL_SOCKET, SO_REUSEADDR},
                                {SOL_SOCKET, SO_REUSEPORT},
                                {IPPROTO_IPV6, IPV6_V6ONLY},
                                {IPPROTO_TCP, TCP_NODELAY},
                                {SOL_SOCKET, SO_KEEPALIVE}};
  const place at = k_places[static_cast<std::size_t>(option)];
  return outcome_of(::setsockopt(fd, at.level, at.name, &value, sizeof value));
}

error shut_down_write(int fd) noexcept { return outcome_of(::shutdown(fd, SHUT_WR)); }

error remove_file(const char* path) noexcept { return outcome_of(::unlink(path)); }

// ---- Bytes ------------------------------------------------------------------------------------

result<std::size_t> receive(int fd, std::span<std::byte> buffer) noexcept {
  return transferred(
      uninterrupted(fault_call::read, [&] { return ::recv(fd, buffer.data(), buffer.size(), 0); }));
}

result<std::size_t> send(int fd, std::span<const std::byte> bytes) noexcept {
  return transferred(uninterrupted(
      fault_call::write, [&] { return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL); }));
}

result<std::size_t> send(int fd, std::span<const std::span<const std::byte>> pieces,
                         std::size_t skip) noexcept {
  constexpr std::size_t k_at_once = 32;  // 512 bytes of stack
  iovec parts[k_at_once];
  const std::size_t count = std::min(pieces.size(), k_at_once);
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<const std::byte> piece = pieces[i].subspan(i == 0 ? skip : 0);
    parts[i] = {const_cast<std::byte*>(piece.data()), piece.size()};
  }
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  return transferred(
      uninterrupted(fault_call::write, [&] { return ::sendmsg(fd, &message, MSG_NOSIGNAL); }));
}

result<std::size_t> receive_from(int fd, std::span<std::byte> buffer, raw_address& from) noexcept {
  raw_address filled;
  socklen_t size = 0;
  const ssize_t got = uninterrupted(fault_call::read, [&] {
    size = raw_address::k_capacity;
    return ::recvfrom(fd, buffer.data(), buffer.size(), 0, as_sockaddr(filled), &size);
  });
  if (got < 0) return last_error();
  from = from_kernel(filled, size);
  return static_cast<std::size_t>(got);
}

result<std::size_t> send_to(int fd, std::span<const std::byte> bytes,
                            const raw_address& to) noexcept {
  return transferred(uninterrupted(fault_call::write, [&] {
    return ::sendto(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL, as_sockaddr(to), to.size);
  }));
}

}  // namespace magpie::rt::os
