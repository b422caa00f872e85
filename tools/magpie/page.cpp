// page.cpp: the page, and how a trace gets into it.

#include "tools/magpie/page.h"

#include <stdexcept>

#include "tools/magpie/utf8.h"

// made of viewer/ by make_page.cmake
extern const unsigned char magpie_page_bytes[];
extern const unsigned long magpie_page_size;

namespace magpie_tool {

namespace {

// Where the page takes a trace from, instead of asking for a file.
constexpr std::string_view k_place = "<!-- a trace goes here -->";

std::string attribute(std::string_view text) {
  std::string result;
  for (const char c : valid_utf8(text)) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

void write_base64(std::ostream& out, std::span<const std::uint8_t> bytes) {
  constexpr char k_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string line;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = bytes.size() - i;
    const std::uint32_t three = static_cast<std::uint32_t>(bytes[i]) << 16U |
                                (left > 1 ? static_cast<std::uint32_t>(bytes[i + 1]) << 8U : 0U) |
                                (left > 2 ? bytes[i + 2] : 0U);
    line += k_digits[three >> 18U];
    line += k_digits[three >> 12U & 63U];
    line += left > 1 ? k_digits[three >> 6U & 63U] : '=';
    line += left > 2 ? k_digits[three & 63U] : '=';
    if (line.size() >= 1024) {
      out << line << '\n';
      line.clear();
    }
  }
  out << line << '\n';
}

std::size_t place() {
  const std::size_t at = page().find(k_place);
  if (at == std::string_view::npos) throw std::logic_error("the page has no place for a trace");
  return at;
}

}  // namespace

std::string_view page() {
  return {reinterpret_cast<const char*>(magpie_page_bytes), magpie_page_size};
}

void write_page(std::ostream& out, std::string_view name, std::span<const std::uint8_t> trace) {
  const std::size_t at = place();
  out << page().substr(0, at) << R"(<script type="text/plain" id="trace" data-name=")"
      << attribute(name) << "\">\n";
  write_base64(out, trace);
  out << "</script>" << page().substr(at + k_place.size());
}

std::string page_for(std::string_view name, std::string_view path) {
  const std::size_t at = place();
  std::string result(page().substr(0, at));
  result += R"(<script type="text/plain" id="trace" data-name=")" + attribute(name) +
            R"(" data-path=")" + attribute(path) + "\"></script>";
  result += page().substr(at + k_place.size());
  return result;
}

}  // namespace magpie_tool
