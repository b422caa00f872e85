#include "observe/http.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include <magpie/net/address.h>

namespace magpie::rt {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

bool is_token(std::string_view text) {
  constexpr std::string_view k_others = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           k_others.find(c) != k_others.npos;
  });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> decoded(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return std::nullopt;
    result += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return result;
}

// Up to the separator, which is taken away, too.
std::string_view take_until(std::string_view& rest, std::string_view separator) {
  const std::size_t at = rest.find(separator);
  const std::string_view part = rest.substr(0, at);
  rest.remove_prefix(at == rest.npos ? rest.size() : at + separator.size());
  return part;
}

bool parse_target(std::string_view target, http_request& out) {
  if (!target.starts_with('/')) return false;
  const bool printable =
      std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  auto path = decoded(take_until(target, "?"));
  if (!printable || !path) return false;
  out.path = std::move(*path);
  while (!target.empty()) {
    std::string_view pair = take_until(target, "&");
    auto name = decoded(take_until(pair, "="));
    auto value = decoded(pair);
    if (!name || !value) return false;
    out.query[*name] = *value;
  }
  return true;
}

const char* status_text(int status) {
  constexpr std::pair<int, const char*> k_texts[] = {
      {200, "OK"},
      {400, "Bad Request"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {503, "Service Unavailable"},
  };
  for (const auto& [number, text] : k_texts) {
    if (number == status) return text;
  }
  return "Unknown";
}

}  // namespace

std::optional<http_request> parse_http_request(std::string_view head) {
  http_request request;
  std::string_view line = take_until(head, "\r\n");
  request.method = take_until(line, " ");
  const std::string_view target = take_until(line, " ");
  if (!is_token(request.method) || (line != "HTTP/1.1" && line != "HTTP/1.0")) return std::nullopt;
  if (!parse_target(target, request)) return std::nullopt;
  while (!head.empty()) {
    std::string_view header = take_until(head, "\r\n");
    if (header.empty()) break;
    if (header.find(':') == header.npos) return std::nullopt;
    const std::string_view name = take_until(header, ":");
    if (!is_token(name)) return std::nullopt;
    // Two Host headers: it is not clear to whom it speaks.
    const bool is_new = request.headers.emplace(lower(name), trimmed(header)).second;
    if (!is_new && lower(name) == "host") return std::nullopt;
  }
  if (line == "HTTP/1.1" && !request.headers.contains("host")) return std::nullopt;
  return request;
}

std::string http_head(const http_answer& answer) {
  std::string text = "HTTP/1.1 " + std::to_string(answer.status) + " " + status_text(answer.status);
  text += "\r\nContent-Type: " + answer.type;
  text += "\r\nContent-Length: " + std::to_string(answer.body.size());
  text +=
      "\r\nCache-Control: no-store"
      "\r\nX-Content-Type-Options: nosniff"
      "\r\nReferrer-Policy: no-referrer"
      "\r\nCross-Origin-Resource-Policy: same-origin"
      "\r\nConnection: close\r\n";
  text += answer.more_headers;
  text += "\r\n";
  return text;
}

http_answer http_error(int status, std::string_view why) {
  return {.status = status, .body = std::string(why) + "\n"};
}

bool is_trusted_host(std::string_view host_header, std::string_view own) {
  std::string_view host = host_header;
  if (host.starts_with('[')) {
    host = host.substr(0, host.find(']') + 1);
  } else {
    host = host.substr(0, host.rfind(':'));
  }
  const std::string name = lower(host);
  if (name == "localhost" || name.ends_with(".localhost") || name == lower(own)) return true;
  std::error_code wrong;
  const net::address number = net::address::parse(name + ":0", wrong);
  return !wrong && !number.is_unix();
}

}  // namespace magpie::rt
