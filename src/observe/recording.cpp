#include "observe/recording.h"

#include <algorithm>
#include <chrono>
#include <ostream>
#include <streambuf>
#include <utility>

#include <magpie/blocking.h>
#include <magpie/trace.h>

#include "base/atomic.h"

namespace magpie::rt {
namespace {

using namespace std::chrono_literals;

constexpr duration k_look_every = 100ms;  // at its size

// A std::stringbuf whose size another thread may ask for, and whose text is not copied out.
class growing_text final : public std::streambuf {
 public:
  std::size_t size() const { return size_.load(relaxed); }  // relaxed: a number
  std::string take() { return std::move(text_); }

 private:
  std::streamsize xsputn(const char* part, std::streamsize size) override {
    text_.append(part, static_cast<std::size_t>(size));
    size_.store(text_.size(), relaxed);  // relaxed: a number
    return size;
  }
  int_type overflow(int_type one) override {
    const char c = traits_type::to_char_type(one);
    if (!traits_type::eq_int_type(one, traits_type::eof())) xsputn(&c, 1);
    return traits_type::not_eof(one);
  }

  std::string text_;  // the recorder's, until the trace is stopped
  atomic<std::size_t> size_{0};
};

// noexcept: nobody would stop the trace.
void wait_for_client(net::stream& client, time_point end, const growing_text& recorded,
                     std::size_t most) noexcept {
  while (recorded.size() < most) {
    const time_point now = clock::now();
    if (now >= end) return;
    client.set_read_deadline(std::min(end, now + k_look_every));
    std::error_code failed;
    char unasked[256];
    const bool over = client.read(unasked, sizeof unasked, failed) == 0;
    if (failed ? failed != std::errc::timed_out : over) return;
  }
}

}  // namespace

std::string record_trace(net::stream& client, time_point end, std::size_t most) {
  growing_text recorded;
  std::ostream out(&recorded);
  trace::start(out);
  wait_for_client(client, end, recorded, most);
  blocking(hand_off_now, [] { trace::stop(); });
  return recorded.take();
}

}  // namespace magpie::rt
