// The numbers of a trace, as `magpie trace summary` prints them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <ostream>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "observe/trace_spans.h"

namespace magpie::rt {

// Durations in buckets of powers of two.
class duration_histogram {
 public:
  void add(std::uint64_t nanos);
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t largest() const { return largest_; }
  [[nodiscard]] std::uint64_t sum() const { return sum_; }
  // Bucket i holds what is at least 2^i and less than 2^(i+1); bucket 0 also holds 0.
  [[nodiscard]] const std::array<std::uint64_t, 64>& buckets() const { return buckets_; }
  // At least `share` of all are not above it, and its first three digits are right, or one too
  // large.
  [[nodiscard]] std::uint64_t quantile(double share) const;

 private:
  static constexpr unsigned k_fine_bits = 9;  // each bucket is in so many equal parts, as a power
  std::array<std::uint64_t, 64> buckets_{};
  std::array<std::uint64_t, std::size_t{64} << k_fine_bits> parts_{};
  std::uint64_t count_ = 0;
  std::uint64_t largest_ = 0;
  std::uint64_t sum_ = 0;
};

class trace_summary : private span_sink {
 public:
  explicit trace_summary(const trace_reader& reader) : reader_(reader), spans_(reader, *this) {}

  void add(const trace_event& event);
  void finish() { spans_.finish(); }

  void print(std::ostream& out) const;

  [[nodiscard]] std::uint64_t events() const { return events_; }
  [[nodiscard]] std::uint64_t time_in(activity what) const {
    return total_[static_cast<std::size_t>(what)];
  }
  [[nodiscard]] std::uint64_t duration() const { return spans_.last_time() - spans_.first_time(); }
  [[nodiscard]] const duration_histogram& latency() const { return latency_; }

 private:
  struct group {  // the goroutines with one name
    std::unordered_set<std::uint64_t> members;
    std::array<std::uint64_t, k_activities> time{};
  };
  struct waits {
    std::uint64_t count = 0;
    std::uint64_t time = 0;
    std::uint64_t longest = 0;
  };

  void goroutine_did(const goroutine_span& span) override;
  void thread_had_p(std::uint64_t m, std::uint64_t p, std::uint64_t begin,
                    std::uint64_t end) override;

  void print_states(std::ostream& out) const;
  void print_waits(std::ostream& out) const;
  void print_latency(std::ostream& out) const;
  void print_ps(std::ostream& out) const;
  void print_groups(std::ostream& out) const;

  const trace_reader& reader_;
  span_builder spans_;
  std::uint64_t events_ = 0;
  std::array<std::uint64_t, 256> by_kind_{};
  std::array<std::uint64_t, k_activities> total_{};
  std::unordered_set<std::uint64_t> goroutines_;
  std::unordered_set<std::uint64_t> threads_;
  std::unordered_map<std::string_view, group> groups_;
  std::map<std::string_view, waits> waits_;
  std::map<std::string_view, waits> stops_;
  duration_histogram latency_;
  struct proc {
    std::uint64_t held = 0;
    std::uint64_t running = 0;
    std::uint64_t calls = 0;
    std::uint64_t turns = 0;
  };
  std::map<std::uint64_t, proc> ps_;
};

// 1.5ms, 20ns, 3.25s.
std::string duration_text(std::uint64_t nanos);

}  // namespace magpie::rt
