#include "tools/magpie/debug_client.h"

#include <chrono>
#include <filesystem>
#include <system_error>

#include <magpie/net.h>

#include "observe/text.h"
#include "tools/magpie/command.h"

namespace magpie_tool {

namespace {

using namespace std::chrono_literals;
namespace net = magpie::net;

constexpr magpie::duration k_connect_patience = 5s;
constexpr magpie::duration k_patience = 90s;  // the longest trace, and a little more
constexpr std::string_view k_unix = "unix:";

std::string exchange_on(net::stream& to, const std::string& request) {
  to.set_deadline(magpie::clock::now() + k_patience);
  to.write(request);
  std::string answer;
  char part[16 * 1024];
  while (const std::size_t got = to.read(part, sizeof part)) answer.append(part, got);
  return answer;
}

[[noreturn]] void explain(const std::string& address, const std::system_error& failed) {
  const std::error_code why = failed.code();
  if (why == std::errc::connection_refused || why == std::errc::no_such_file_or_directory) {
    throw std::runtime_error("nobody listens at " + address +
                             ": does the program have a magpie::debug::server there?");
  }
  if (why == std::errc::permission_denied) {
    throw std::runtime_error(address + " is for its owner only: are you another user?");
  }
  if (why == std::errc::timed_out) throw std::runtime_error("no answer from " + address);
  throw std::runtime_error(address + ": " + why.message());
}

}  // namespace

debug_client::debug_client(std::string_view address) {
  constexpr std::string_view k_http = "http://";
  if (address.starts_with(k_http)) {
    address.remove_prefix(k_http.size());
    address = address.substr(0, address.find('/'));
  }
  std::error_code unknown;
  const bool is_name =
      address.find(':') == address.npos && std::filesystem::is_socket(address, unknown);
  const bool is_path = address.find('/') != address.npos && !address.starts_with(k_unix);
  if (is_name || is_path) address_ = k_unix;
  address_ += address;
  if (address_.find(':') == address_.npos) {
    throw usage_error("\"" + address_ + "\" is neither host:port nor a path");
  }
}

std::string debug_client::exchange(const std::string& request) const {
  try {
    if (address_.starts_with(k_unix)) {
      auto to = net::unix_stream::connect(address_, k_connect_patience);
      return exchange_on(to, request);
    }
    auto to = net::tcp_stream::connect(address_, k_connect_patience);
    return exchange_on(to, request);
  } catch (const std::system_error& failed) {
    explain(address_, failed);
  }
}

std::string debug_client::get(const std::string& path) const {
  const std::string host = address_.starts_with(k_unix) ? "localhost" : address_;
  const std::string answer = exchange("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  const std::size_t end = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/1.1 ") || end == answer.npos) {
    throw std::runtime_error("what listens at " + address_ + " is no magpie::debug::server");
  }
  std::string body = answer.substr(end + 4);
  if (answer.substr(9, 3) == "200") return body;
  while (body.ends_with('\n')) body.pop_back();
  throw refused(magpie::rt::printable_lines(body));
}

}  // namespace magpie_tool
