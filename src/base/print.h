// A printer that works where nothing else does: no heap, no locale, no lock, no stdio.
//
// Used for fatal reports, dumps and everything printed from a signal handler. Text collects in
// a fixed buffer and leaves in few, large writes, so that reports of two threads do not mix
// within a line.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace magpie::rt {

// The process's standard error. Signal-safe. Declared here and defined in os/, because base
// itself never talks to the kernel.
void write_error_text(const char* text, std::size_t size) noexcept;

// Where a printer's text goes.
struct text_sink {
  void (*write)(void* context, const char* text, std::size_t size);
  void* context = nullptr;
};

struct hex {
  std::uint64_t value;
};

class printer {
 public:
  // Prints to standard error.
  printer();
  explicit printer(text_sink sink) : sink_(sink) {}
  ~printer() { flush(); }
  printer(const printer&) = delete;
  printer& operator=(const printer&) = delete;

  printer& operator<<(std::string_view text);
  printer& operator<<(const char* text) {
    return *this << std::string_view(text ? text : "(null)");
  }
  printer& operator<<(char c) { return *this << std::string_view(&c, 1); }
  printer& operator<<(bool) = delete;  // would be a char otherwise, as would a double
  printer& operator<<(hex number);
  printer& operator<<(const void* address) {
    return *this << hex{reinterpret_cast<std::uintptr_t>(address)};
  }
  template <std::integral Integer>
  requires(!std::same_as<Integer, char> && !std::same_as<Integer, bool>) printer& operator<<(
      Integer number) {
    if constexpr (std::signed_integral<Integer>) {
      return print_signed(number);
    } else {
      return print_unsigned(number);
    }
  }

  void flush();

 private:
  printer& print_signed(std::int64_t number);
  printer& print_unsigned(std::uint64_t number);

  text_sink sink_;
  std::size_t used_ = 0;
  char buffer_[512];
};

}  // namespace magpie::rt
