// Errors of the kernel as values. Nothing above os/ reads errno: it belongs to the thread, and a
// goroutine may be on another thread by the time it looks.
#pragma once

#include <cerrno>
#include <optional>
#include <utility>

#include "base/check.h"

namespace magpie::rt::os {

struct [[nodiscard]] error {
  int code = 0;  // an errno value; 0 is no error

  explicit operator bool() const { return code != 0; }
  friend bool operator==(error, error) = default;
};

// The errno of the system call that just failed on this thread.
inline error last_error() { return {errno}; }

// "ENOMEM" and the like; "error" for a number without a name. Signal-safe, unlike strerror.
const char* error_name(error);

// A value, or why there is none.
template <class T>
class [[nodiscard]] result {
 public:
  result(T value) : value_(std::move(value)) {}
  result(os::error failure) : error_(failure) {
    MAGPIE_DCHECK(failure, "a result without value and without error");
  }

  explicit operator bool() const { return value_.has_value(); }
  os::error error() const { return error_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  os::error error_;
};

}  // namespace magpie::rt::os
