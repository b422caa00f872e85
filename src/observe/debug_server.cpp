// debug_server.cpp: a server for whoever looks at this process. A goroutine accepts, one more
// serves each connection: one request, one answer, as the smallest thing that browsers, curl and
// scrapers are content with.
//
// What it is careful about. It tells a lot about the process, so it listens on loopback or on a
// socket that only its owner can open, unless told otherwise. A browser on this machine is a way in
// from outside: a page from elsewhere can make it send requests here. So names that may lead
// anywhere are not accepted as Host, nor requests that other sites cause, and no answer may be read
// across origins. It changes nothing, and it is for few: connections beyond some are turned away,
// and slow ones ended.

#include <magpie/debug.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include <magpie/blocking.h>
#include <magpie/errors.h>
#include <magpie/go.h>
#include <magpie/mutex.h>
#include <magpie/net.h>
#include <magpie/trace.h>
#include <magpie/wait_group.h>

#include "net/host_port.h"
#include "observe/debug_pages.h"
#include "observe/http.h"
#include "observe/metrics.h"
#include "observe/recording.h"

namespace magpie::debug {

using namespace rt;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t k_most_head = 8 * 1024;
constexpr std::size_t k_most_connections = 32;
constexpr duration k_patience = 10s;           // until the request is there
constexpr duration k_long_patience = 60s;      // until the answer is taken
constexpr std::uint64_t k_longest_trace = 60;  // seconds
constexpr std::size_t k_largest_trace = std::size_t{256} << 20;

constexpr std::string_view k_contents =
    "/goroutines   what every goroutine does; ?format=json, ?id=N for one\n"
    "/sites        how many of them come from the same place, as JSON\n"
    "/metrics      for Prometheus\n"
    "/stats        the same and more, as JSON\n"
    "/trace        the next second as an execution trace; ?seconds=N\n"
    "/flight       the last seconds as one, where the flight recorder runs\n"
    "/             a page that shows it live\n";

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && !text.empty() ? std::optional(number) : std::nullopt;
}

http_answer page_answer() {
  return {.type = "text/html; charset=utf-8",
          .body = std::string(live_page()),
          .more_headers =
              "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; style-src "
              "'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; form-action "
              "'none'; frame-ancestors 'none'\r\n"};
}

http_answer goroutines_answer(const http_request& request) {
  const std::string format = request.query_value("format"), id_text = request.query_value("id");
  const std::optional<std::uint64_t> id = number_in(id_text);
  if (!id_text.empty() && !id) return http_error(400, "id must be the number of a goroutine");
  if (!format.empty() && format != "json" && format != "text") {
    return http_error(400, "format must be json or text");
  }
  if (format == "json") {
    return {.type = "application/json", .body = goroutines_json(id)};
  }
  std::string text = goroutines_text(id);
  if (text.empty()) return http_error(404, "There is no goroutine " + id_text + ".");
  return {.body = std::move(text)};
}

http_answer trace_answer(std::string bytes, const char* file_name) {
  return {.type = "application/octet-stream",
          .body = std::move(bytes),
          .more_headers =
              "Content-Disposition: attachment; filename=\"" + std::string(file_name) + "\"\r\n"};
}

http_answer record(const http_request& request, net::stream& client) {
  const std::string wish = request.query_value("seconds");
  const std::optional<std::uint64_t> seconds = wish.empty() ? 1 : number_in(wish);
  if (!seconds || *seconds == 0 || *seconds > k_longest_trace) {
    return http_error(400, "seconds must be a number from 1 to 60");
  }
  try {
    const time_point end = clock::now() + std::chrono::seconds(*seconds);
    return trace_answer(record_trace(client, end, k_largest_trace), "trace.out");
  } catch (const misuse&) {
    return http_error(409, "A trace is being written already.");
  }
}

http_answer answer_to(const http_request& request) {
  if (request.path == "/") return page_answer();
  if (request.path == "/goroutines") return goroutines_answer(request);
  if (request.path == "/sites") return {.type = "application/json", .body = sites_json()};
  if (request.path == "/stats") {
    return {.type = "application/json", .body = stats_json(read_meters())};
  }
  if (request.path == "/metrics") {
    return {.type = "text/plain; version=0.0.4; charset=utf-8",
            .body = prometheus_text(read_meters())};
  }
  return http_error(404, "There is no such page. There are\n" + std::string(k_contents));
}

// A body may be large: it is not copied behind its head.
void send(net::stream& client, const http_answer& answer, bool with_body, std::error_code& gone) {
  const std::string head = http_head(answer);
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(head)),
                                               std::as_bytes(std::span(answer.body))};
  client.write(std::span(pieces).first(with_body ? 2 : 1), gone);
}

bool is_loopback(const net::address& a) {
  return (a.is_ipv4() && a.host().starts_with("127.")) || (a.is_ipv6() && a.host() == "::1");
}

constexpr std::string_view k_unix = "unix:";

// A file that a process has left behind stays in the way of the next one. Nobody answers there: it
// can go.
bool remove_stale(const std::string& path) {
  std::error_code refused, ignored;
  (void)net::unix_stream::connect(path, 1s, refused);
  if (refused != std::errc::connection_refused) return false;
  return std::filesystem::is_socket(path, ignored) && std::filesystem::remove(path, ignored);
}

net::unix_listener listen_on_path(const std::string& path) {
  const net::listen_options options{.owner_only = true};
  std::error_code in_use;
  auto made = net::unix_listener::listen(path, options, in_use);
  if (!in_use) return made;
  if (in_use == std::errc::address_in_use) remove_stale(path);
  return net::unix_listener::listen(path, options);
}

net::tcp_listener listen_on_port(std::string_view host_port, const server_options& options) {
  std::error_code wrong;
  const rt::host_port parts = split_host_port(host_port, wrong);
  if (wrong) {
    throw misuse("debug::server: \"" + std::string(host_port) +
                 "\" is neither host:port nor unix:/path");
  }
  if (parts.host.empty() && !options.beyond_loopback) {
    return net::tcp_listener::listen("127.0.0.1:" + std::string(parts.port));
  }
  if (options.beyond_loopback) return net::tcp_listener::listen(host_port);
  for (const net::address& at : net::resolve(parts.host, parts.port)) {
    if (is_loopback(at)) return net::tcp_listener::listen(at);
  }
  throw misuse("debug::server: \"" + std::string(host_port) +
               "\" is not of this machine only; server_options::beyond_loopback says that it is"
               " meant");
}

}  // namespace

class server::state {
 public:
  state(std::string_view host_port, const server_options& options) : options_(options) {
    if (host_port.starts_with(k_unix)) {
      path_ = host_port.substr(k_unix.size());
      local_ = listen_on_path(path_);
    } else {
      remote_ = listen_on_port(host_port, options);
      std::error_code ignored;
      own_name_ = split_host_port(host_port, ignored).host;
    }
    if (options.flight_recorder) flight_.start();
    start("debug server", [this] { accept_all(); });
  }

  ~state() {
    {
      const std::scoped_lock hold(mutex_);
      ends_ = true;
      for (net::stream& open : open_) open.close();
    }
    local_.close();
    remote_.close();
    all_.wait();
  }

  std::string address() const {
    return local_ ? std::string(k_unix) + path_ : remote_.local_address().to_string();
  }

 private:
  // A goroutine that the destructor waits for.
  template <class F>
  void start(const char* name, F f) {
    all_.add(1);
    try {
      go({.name = name}, [this, f] {
        f();
        all_.done();
      });
    } catch (...) {
      all_.done();
      throw;
    }
  }

  void accept_all() {
    while (!ends()) {
      if (!accept_one() && !ends()) this_goroutine::sleep_for(10ms);
    }
  }

  // False: that did not work. Where memory is short one connection ends, and no more than that.
  bool accept_one() noexcept {
    try {
      std::error_code failed;
      net::stream client = local_ ? net::stream(local_.accept(failed)) : remote_.accept(failed);
      if (!failed) begin(std::move(client));
      return !failed;
    } catch (...) {
      return false;
    }
  }

  bool ends() {
    const std::scoped_lock hold(mutex_);
    return ends_;
  }

  void begin(net::stream client) {
    std::unique_lock hold(mutex_);
    if (ends_) return;
    if (open_.size() >= k_most_connections) {
      hold.unlock();
      client.set_write_deadline(clock::now() + 100ms);
      std::error_code ignored;
      send(client, http_error(503, "Too many at once."), true, ignored);
      return;
    }
    const auto mine = open_.insert(open_.end(), std::move(client));
    try {
      start("debug server: client", [this, mine] {
        serve(*mine);
        const std::scoped_lock hold_again(mutex_);
        open_.erase(mine);
      });
    } catch (...) {
      open_.erase(mine);
      throw;
    }
  }

  // Whatever goes wrong, as when memory runs out, ends this connection and nothing else.
  void serve(net::stream& client) noexcept {
    try {
      answer_one(client);
    } catch (...) {
      client.close();
    }
  }

  void answer_one(net::stream& client) {
    client.set_read_deadline(clock::now() + k_patience);
    std::string head;
    http_answer answer;
    bool with_body = true;
    if (const int failed = read_head(client, head)) {
      if (failed == k_gone) return;
      answer = http_error(failed, failed == 431 ? "So long a request is not for this server."
                                                : "No request has come in time.");
    } else {
      answer = answer_safely(head, client, with_body);
    }
    client.set_write_deadline(clock::now() + k_long_patience);
    std::error_code gone;
    send(client, answer, with_body, gone);
    if (!gone) linger(client);
  }

  // What the client has sent and nobody has read would make the kernel reset the connection, and
  // the answer might be lost on the way.
  static void linger(net::stream& client) {
    std::error_code gone;
    client.shutdown_write(gone);
    client.set_read_deadline(clock::now() + 1s);
    char rest[1024];
    for (int i = 0; i < 64 && !gone; ++i) {
      if (client.read(rest, sizeof rest, gone) == 0) return;
    }
  }

  static constexpr int k_gone = -1;

  // 0, or the status to answer with.
  static int read_head(net::stream& client, std::string& head) {
    char part[2048];
    while (head.find("\r\n\r\n") == head.npos) {
      if (head.size() > k_most_head) return 431;
      std::error_code failed;
      const std::size_t got = client.read(part, sizeof part, failed);
      if (failed == std::errc::timed_out) return head.empty() ? k_gone : 408;
      if (got == 0) return k_gone;
      head.append(part, got);
    }
    return 0;
  }

  http_answer answer_safely(const std::string& head, net::stream& client, bool& with_body) {
    const auto request = parse_http_request(head);
    if (!request) return http_error(400, "This is not an HTTP/1.1 request for a page.");
    with_body = request->method != "HEAD";
    if (request->method != "GET" && request->method != "HEAD") {
      http_answer wrong = http_error(405, "Only GET is spoken here: nothing can be changed.");
      wrong.more_headers = "Allow: GET, HEAD\r\n";
      return wrong;
    }
    if (const auto refusal = refuse(*request)) return *refusal;
    try {
      if (request->path == "/trace") return record(*request, client);
      if (request->path == "/flight") return flight_answer();
      return answer_to(*request);
    } catch (const std::exception& failed) {
      return http_error(500, failed.what());
    }
  }

  http_answer flight_answer() {
    if (!flight_.enabled()) {
      return http_error(404, "The flight recorder is off: server_options::flight_recorder.");
    }
    std::ostringstream bytes;
    blocking(hand_off_now, [&] { flight_.write_to(bytes); });
    return trace_answer(std::move(bytes).str(), "flight.out");
  }

  std::optional<http_answer> refuse(const http_request& request) const {
    const auto host = request.header("host");
    if (!local_ && !options_.beyond_loopback && host && !is_trusted_host(*host, own_name_)) {
      return http_error(403, "\"" + *host +
                                 "\" may be anybody's name for this machine. Use its number, or"
                                 " localhost.");
    }
    const auto site = request.header("sec-fetch-site");
    if (site && *site != "same-origin" && *site != "none") {
      return http_error(403, "A page from elsewhere has asked for this.");
    }
    return std::nullopt;
  }

  const server_options options_;
  std::string path_, own_name_;
  net::unix_listener local_;
  net::tcp_listener remote_;
  trace::flight_recorder flight_;
  mutex mutex_;
  bool ends_ = false;            // under mutex_
  std::list<net::stream> open_;  // the same; elements stay where they are
  wait_group all_;
};

server::server(std::string_view host_port, server_options options)
    : state_(std::make_unique<state>(host_port, options)) {}
server::~server() = default;
std::string server::address() const { return state_->address(); }

}  // namespace magpie::debug
