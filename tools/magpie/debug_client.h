// The other side of debug::server.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace magpie_tool {

// The server has said no, in these words.
class refused : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class debug_client {
 public:
  // "host:port", "http://host:port/", "unix:/path", or a path.
  explicit debug_client(std::string_view address);

  const std::string& address() const { return address_; }

  // The page. Throws std::runtime_error, in words for the user, when nobody or somebody else is
  // there, and `refused`.
  std::string get(const std::string& path) const;

 private:
  std::string exchange(const std::string& request) const;

  std::string address_;
};

}  // namespace magpie_tool
