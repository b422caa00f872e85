// Reads numbers and strings out of bytes that may be anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/varint.h"

namespace magpie::rt {

// Never past the end: after a read that would go there failed() is true, and everything reads as 0
// or empty. Little endian, as the machines are.
class byte_reader {
 public:
  byte_reader() = default;
  explicit byte_reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool failed() const { return failed_; }
  bool at_end() const { return failed_ || at_ == bytes_.size(); }
  std::size_t position() const { return at_; }
  std::size_t left() const { return failed_ ? 0 : bytes_.size() - at_; }

  void fail() { failed_ = true; }

  template <class T>
  T get() {
    T value{};
    if (left() < sizeof value) {
      failed_ = true;
      return value;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::uint8_t byte() { return get<std::uint8_t>(); }

  // 4 or 8 bytes.
  std::uint64_t offset(bool wide) { return wide ? get<std::uint64_t>() : get<std::uint32_t>(); }

  std::uint64_t uleb() { return read_uleb(*this); }
  std::int64_t sleb() { return read_sleb(*this); }

  // The next bytes, which are skipped here.
  std::span<const std::byte> part(std::uint64_t size) {
    if (size > left()) {
      failed_ = true;
      return {};
    }
    at_ += static_cast<std::size_t>(size);
    return bytes_.subspan(at_ - static_cast<std::size_t>(size), static_cast<std::size_t>(size));
  }
  void skip(std::uint64_t size) { part(size); }

  // Up to its zero, which must be there; else "".
  const char* string() {
    const auto* const start = reinterpret_cast<const char*>(bytes_.data()) + at_;
    const void* const end = left() != 0 ? std::memchr(start, 0, left()) : nullptr;
    if (end == nullptr) {
      failed_ = true;
      return "";
    }
    at_ += static_cast<std::size_t>(static_cast<const char*>(end) - start) + 1;
    return start;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

// The string that begins at `offset` in `bytes`; "" when none does.
inline const char* string_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  byte_reader in(bytes);
  in.skip(offset);
  return in.string();
}

}  // namespace magpie::rt
