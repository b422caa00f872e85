// As much of HTTP/1.1 as the debug server speaks: one request for a page, one answer.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace magpie::rt {

struct http_request {
  std::string method;
  std::string path;  // without the query, decoded
  std::map<std::string, std::string> query;
  std::map<std::string, std::string> headers;  // names in lower case

  std::string query_value(const std::string& name) const {
    const auto at = query.find(name);
    return at != query.end() ? at->second : std::string();
  }
  std::optional<std::string> header(const std::string& name) const {
    const auto at = headers.find(name);
    return at != headers.end() ? std::optional(at->second) : std::nullopt;
  }
};

// From the request line to the line before the empty one, that one included. Nothing: it is no
// request.
std::optional<http_request> parse_http_request(std::string_view head);

struct http_answer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body = {};
  std::string more_headers = {};  // each with its line end
};

// What to send before the body, or without one: to HEAD.
std::string http_head(const http_answer&);

// The one mistake in a line, for whoever sits at the other end.
http_answer http_error(int status, std::string_view why);

// A name in a Host header may have been made to lead here by whoever owns the name, so that a page
// of his can read what this server says (DNS rebinding). Numbers cannot, nor "localhost"; `own` is
// the name that the server was told to listen on.
bool is_trusted_host(std::string_view host_header, std::string_view own);

}  // namespace magpie::rt
