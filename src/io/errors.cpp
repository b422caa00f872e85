#include "io/errors.h"

#include <string>

namespace magpie::rt {

void throw_if(const std::error_code& ec, const char* operation, std::string_view subject) {
  if (!ec) return;
  std::string text = operation;
  if (!subject.empty()) text.append(" ").append(subject);
  throw std::system_error(ec, text);
}

}  // namespace magpie::rt
