#include "base/print.h"

#include <algorithm>
#include <cstring>

namespace magpie::rt {

printer::printer()
    : sink_{[](void*, const char* text, std::size_t size) { write_error_text(text, size); }} {}

printer& printer::operator<<(std::string_view text) {
  while (!text.empty()) {
    const std::size_t part = std::min(text.size(), sizeof buffer_ - used_);
    std::memcpy(buffer_ + used_, text.data(), part);
    used_ += part;
    text.remove_prefix(part);
    if (used_ == sizeof buffer_) flush();
  }
  return *this;
}

printer& printer::operator<<(hex number) {
  char digits[2 + 16];
  char* const end = digits + sizeof digits;
  char* first = end;
  do {
    *--first = "0123456789abcdef"[number.value & 15];
    number.value >>= 4;
  } while (number.value != 0);
  *--first = 'x';
  *--first = '0';
  return *this << std::string_view(first, static_cast<std::size_t>(end - first));
}

printer& printer::print_unsigned(std::uint64_t number) {
  char digits[20];
  char* const end = digits + sizeof digits;
  char* first = end;
  do {
    *--first = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  return *this << std::string_view(first, static_cast<std::size_t>(end - first));
}

printer& printer::print_signed(std::int64_t number) {
  const auto bits = static_cast<std::uint64_t>(number);
  if (number >= 0) return print_unsigned(bits);
  return (*this << '-').print_unsigned(0 - bits);
}

void printer::flush() {
  if (used_ != 0) sink_.write(sink_.context, buffer_, used_);
  used_ = 0;
}

}  // namespace magpie::rt
