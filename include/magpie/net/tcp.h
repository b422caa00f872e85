// TCP.
//
//   auto listener = magpie::net::tcp_listener::listen("127.0.0.1:7000");
//   for (;;) {
//     magpie::go([client = listener.accept()]() mutable {
//       char bytes[1024];
//       while (const auto n = client.read(bytes, sizeof bytes)) client.write(bytes, n);
//     });
//   }
//
// Errors, deadlines and what may be done at the same time: <magpie/net/socket.h>.
#pragma once

#include <chrono>
#include <string_view>
#include <system_error>

#include <magpie/detail/duration.h>
#include <magpie/export.h>
#include <magpie/net/address.h>
#include <magpie/net/socket.h>

namespace magpie::net {

class MAGPIE_API tcp_stream : public stream {
 public:
  tcp_stream() noexcept = default;

  // "host:port", where the host is a name, an IP address ("[::1]:80") or nothing, which is this
  // machine, and the port a number or the name of a service. A name's addresses are tried one after
  // the other; the error is that of the last. The timeout is for all of it.
  static tcp_stream connect(std::string_view host_port, duration timeout = no_timeout);
  static tcp_stream connect(std::string_view host_port, duration timeout, std::error_code&);
  static tcp_stream connect(std::string_view host_port, std::error_code& ec) {
    return connect(host_port, no_timeout, ec);
  }
  template <class Rep, class Period>
  static tcp_stream connect(std::string_view host_port,
                            std::chrono::duration<Rep, Period> timeout) {
    return connect(host_port, detail::to_duration(timeout));
  }
  template <class Rep, class Period>
  static tcp_stream connect(std::string_view host_port, std::chrono::duration<Rep, Period> timeout,
                            std::error_code& ec) {
    return connect(host_port, detail::to_duration(timeout), ec);
  }

  static tcp_stream connect(const address&, duration timeout = no_timeout);
  static tcp_stream connect(const address&, duration timeout, std::error_code&);
  template <class Rep, class Period>
  static tcp_stream connect(const address& to, std::chrono::duration<Rep, Period> timeout) {
    return connect(to, detail::to_duration(timeout));
  }
  template <class Rep, class Period>
  static tcp_stream connect(const address& to, std::chrono::duration<Rep, Period> timeout,
                            std::error_code& ec) {
    return connect(to, detail::to_duration(timeout), ec);
  }

  // TCP_NODELAY, which is on at first: what is written is sent at once. Without it small writes
  // may wait for the peer's answer to the ones before.
  void set_no_delay(bool);
  void set_no_delay(bool, std::error_code&);

  // SO_KEEPALIVE, which is on at first: a peer that has vanished is noticed, in hours.
  void set_keep_alive(bool);
  void set_keep_alive(bool, std::error_code&);

 private:
  friend class tcp_listener;
  explicit tcp_stream(detail::socket_state* state) noexcept : stream(state) {}
};

class MAGPIE_API tcp_listener : public socket {
 public:
  tcp_listener() noexcept = default;

  // "host:port" as for connect(), but that no host means all interfaces, of IPv4 and IPv6. Port 0
  // is any that is free; local_address() tells which. SO_REUSEADDR is set.
  static tcp_listener listen(std::string_view host_port, listen_options = {});
  static tcp_listener listen(std::string_view host_port, listen_options, std::error_code&);
  static tcp_listener listen(std::string_view host_port, std::error_code& ec) {
    return listen(host_port, {}, ec);
  }
  static tcp_listener listen(const address&, listen_options = {});
  static tcp_listener listen(const address&, listen_options, std::error_code&);

  // The next connection. When the process or the system is out of descriptors or memory it waits
  // and tries again; connections that are gone before they are accepted are passed over.
  tcp_stream accept();
  tcp_stream accept(std::error_code&);

 private:
  explicit tcp_listener(detail::socket_state* state) noexcept : socket(state) {}
};

}  // namespace magpie::net
