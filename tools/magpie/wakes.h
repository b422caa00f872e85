// What the converters share: the names of goroutines, and the arrows from waker to woken.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "observe/trace_spans.h"

namespace magpie_tool {

inline std::string goroutine_name(const magpie::rt::goroutine_span& span) {
  return "G" + std::to_string(span.g) + (span.name.empty() ? "" : " " + std::string(span.name));
}

// An arrow leads from the waker, at the moment it woke, to the beginning of the goroutine's next
// turn. Arrows have numbers from 1 on; 0 is none. Asked about every span, in their order.
class wake_arrows {
 public:
  std::uint64_t begins_with(const magpie::rt::goroutine_span& span) {
    if (span.what != magpie::rt::activity::runnable || span.to_be_continued ||
        span.by.p == magpie::rt::trace::k_nobody) {
      return 0;
    }
    return pending_[span.g] = ++last_;
  }
  std::uint64_t ends_with(const magpie::rt::goroutine_span& span) {
    if (span.what != magpie::rt::activity::running) return 0;
    const auto found = pending_.find(span.g);
    if (found == pending_.end()) return 0;
    const std::uint64_t arrow = found->second;
    pending_.erase(found);
    return arrow;
  }

 private:
  std::uint64_t last_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> pending_;  // by goroutine
};

}  // namespace magpie_tool
