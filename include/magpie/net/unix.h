// Sockets of the unix domain: streams between processes of one machine.
//
// A path is a bare one or "unix:/path"; "@name" or "unix:@name" is a name that is not in the file
// system. Errors, deadlines and what may be done at the same time: <magpie/net/socket.h>.
#pragma once

#include <chrono>
#include <string_view>
#include <system_error>

#include <magpie/detail/duration.h>
#include <magpie/export.h>
#include <magpie/net/address.h>
#include <magpie/net/socket.h>

namespace magpie::net {

class MAGPIE_API unix_stream : public stream {
 public:
  unix_stream() noexcept = default;

  // Waits while the listener has no room for more.
  static unix_stream connect(std::string_view path, duration timeout = no_timeout);
  static unix_stream connect(std::string_view path, duration timeout, std::error_code&);
  static unix_stream connect(std::string_view path, std::error_code& ec) {
    return connect(path, no_timeout, ec);
  }
  template <class Rep, class Period>
  static unix_stream connect(std::string_view path, std::chrono::duration<Rep, Period> timeout) {
    return connect(path, detail::to_duration(timeout));
  }
  template <class Rep, class Period>
  static unix_stream connect(std::string_view path, std::chrono::duration<Rep, Period> timeout,
                             std::error_code& ec) {
    return connect(path, detail::to_duration(timeout), ec);
  }

  static unix_stream connect(const address&, duration timeout = no_timeout);
  static unix_stream connect(const address&, duration timeout, std::error_code&);
  template <class Rep, class Period>
  static unix_stream connect(const address& to, std::chrono::duration<Rep, Period> timeout) {
    return connect(to, detail::to_duration(timeout));
  }
  template <class Rep, class Period>
  static unix_stream connect(const address& to, std::chrono::duration<Rep, Period> timeout,
                             std::error_code& ec) {
    return connect(to, detail::to_duration(timeout), ec);
  }

  // So that what is written for TCP fits: there is no delay to begin with, and nothing changes.
  void set_no_delay(bool);
  void set_no_delay(bool, std::error_code&);

 private:
  friend class unix_listener;
  explicit unix_stream(detail::socket_state* state) noexcept : stream(state) {}
};

// close() and the destructor remove the file that listen() has made.
class MAGPIE_API unix_listener : public socket {
 public:
  unix_listener() noexcept = default;

  // std::errc::address_in_use: there is such a file, be it in use or not.
  static unix_listener listen(std::string_view path, listen_options = {});
  static unix_listener listen(std::string_view path, listen_options, std::error_code&);
  static unix_listener listen(std::string_view path, std::error_code& ec) {
    return listen(path, {}, ec);
  }
  static unix_listener listen(const address&, listen_options = {});
  static unix_listener listen(const address&, listen_options, std::error_code&);

  // As tcp_listener::accept().
  unix_stream accept();
  unix_stream accept(std::error_code&);

 private:
  explicit unix_listener(detail::socket_state* state) noexcept : socket(state) {}
};

}  // namespace magpie::net
