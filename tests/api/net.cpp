// The promises of <magpie/net.h> and <magpie/file.h>, checked while compiling.
#include <magpie/file.h>
#include <magpie/net.h>

#include <string>
#include <type_traits>
#include <vector>

namespace {

using namespace magpie::net;
using magpie::duration;
using magpie::file;
using magpie::open_mode;
using magpie::time_point;

template <class T>
constexpr bool k_handle =
    std::is_nothrow_default_constructible_v<T>&& std::is_nothrow_move_constructible_v<T>&&
        std::is_nothrow_move_assignable_v<T> &&
    !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
static_assert(k_handle<tcp_stream> && k_handle<tcp_listener>);
static_assert(k_handle<unix_stream> && k_handle<unix_listener>);
static_assert(k_handle<udp_socket> && k_handle<file> && k_handle<stream>);
static_assert(std::is_copy_constructible_v<address>);
static_assert(!std::is_default_constructible_v<magpie::net::socket>);  // only what derives from it

static_assert((open_mode::read | open_mode::append) == open_mode{17});
static_assert(static_cast<unsigned>(open_mode::exclusive) == 32);
static_assert(listen_options{}.backlog == 4096 && !listen_options{}.reuse_port);

// What users write; never run.
[[maybe_unused]] void streams(std::error_code& ec) {
  using namespace std::chrono_literals;
  auto listener = tcp_listener::listen("127.0.0.1:80");
  listener = tcp_listener::listen(address::parse("[::1]:80"), {.reuse_port = true});
  listener = tcp_listener::listen("127.0.0.1:80", ec);
  tcp_stream accepted = listener.accept(ec);
  auto client = tcp_stream::connect("host:80");
  client = tcp_stream::connect("host:80", 1s);
  client = tcp_stream::connect(std::string("host:80"), std::chrono::hours::max(), ec);
  client = tcp_stream::connect("host:80", magpie::no_timeout, ec);
  client = tcp_stream::connect(listener.local_address(), 5ms);
  std::vector<std::byte> bytes(10);
  char text[10];
  static_assert(std::is_same_v<decltype(client.read(bytes)), std::size_t>);
  client.read(bytes, ec);
  client.read(text, sizeof text);
  client.read(text, sizeof text, ec);
  client.write(bytes);
  client.write(std::as_bytes(std::span(text)));
  client.write("text");
  client.write(std::string("text"), ec);
  client.write(text, sizeof text);
  const std::span<const std::byte> pieces[] = {bytes, bytes};
  client.write(pieces);
  client.write(pieces, ec);
  client.set_deadline(magpie::clock::now() + 1s);
  client.set_read_deadline(magpie::never);
  unix_listener::listen("unix:/x").accept().write("x");
  unix_stream::connect("/x", 1s).shutdown_write(ec);
  auto datagrams = udp_socket::bind("127.0.0.1:0");
  address from;
  datagrams.receive_from(bytes, from);
  datagrams.send_to(bytes, from, ec);
  resolve("host", "http", ec);
}

[[maybe_unused]] void files(std::error_code& ec) {
  file f = file::open("path");
  f = file::open(std::string("path"), open_mode::write | open_mode::create, 0600);
  f = file::open("path", open_mode::read, ec);
  std::vector<std::byte> bytes(10);
  f.read(bytes);
  f.read_at(bytes, 5, ec);
  f.write_at(bytes.data(), bytes.size(), 5);
  static_assert(std::is_same_v<decltype(f.size()), std::uint64_t>);
  f.truncate(1, ec);
  f.sync();
}

}  // namespace
