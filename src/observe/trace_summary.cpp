// trace_summary.cpp: counting, and a page of text about it.

#include "observe/trace_summary.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <iomanip>

#include "observe/text.h"

namespace magpie::rt {

namespace {

constexpr std::size_t k_rows = 12;  // of tables that can be long

std::string percent(std::uint64_t part, std::uint64_t whole) {
  char text[32];
  const double share =
      whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  std::snprintf(text, sizeof text, "%.1f%%", share);
  return text;
}

std::string counted(std::size_t number, const char* what) {
  return std::to_string(number) + ' ' + what + (number == 1 ? "" : "s");
}

template <class Map, class Measure>
auto largest_first(const Map& map, Measure measure) {
  std::vector<typename Map::const_pointer> rows;
  rows.reserve(map.size());
  for (const auto& row : map) rows.push_back(&row);
  std::sort(rows.begin(), rows.end(), [&](const auto* a, const auto* b) {
    return measure(*a) != measure(*b) ? measure(*a) > measure(*b) : a->first < b->first;
  });
  return rows;
}

}  // namespace

std::string duration_text(std::uint64_t nanos) {
  char text[32];
  const auto value = static_cast<double>(nanos);
  if (nanos < 1'000) {
    std::snprintf(text, sizeof text, "%uns", static_cast<unsigned>(nanos));
  } else if (nanos < 1'000'000) {
    std::snprintf(text, sizeof text, "%.3gus", value / 1e3);
  } else if (nanos < 1'000'000'000) {
    std::snprintf(text, sizeof text, "%.3gms", value / 1e6);
  } else if (nanos < 1'000'000'000'000) {
    std::snprintf(text, sizeof text, "%.3gs", value / 1e9);
  } else {
    std::snprintf(text, sizeof text, "%.0fs", value / 1e9);
  }
  return text;
}

void duration_histogram::add(std::uint64_t nanos) {
  const auto power = nanos == 0 ? 0U : static_cast<unsigned>(std::bit_width(nanos)) - 1;
  ++buckets_[power];
  // The bits below the highest; where there are fewer, a part is one nanosecond.
  const std::uint64_t below = nanos - (nanos == 0 ? 0 : std::uint64_t{1} << power);
  const std::uint64_t part = power < k_fine_bits ? below : below >> (power - k_fine_bits);
  ++parts_[(std::size_t{power} << k_fine_bits) + static_cast<std::size_t>(part)];
  ++count_;
  sum_ += nanos;
  largest_ = std::max(largest_, nanos);
}

std::uint64_t duration_histogram::quantile(double share) const {
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    seen += parts_[i];
    if (parts_[i] == 0 || static_cast<double>(seen) < share * static_cast<double>(count_)) continue;
    const std::size_t power = i >> k_fine_bits;
    const std::uint64_t part = i & ((std::size_t{1} << k_fine_bits) - 1);
    const std::uint64_t width = power < k_fine_bits ? 1 : std::uint64_t{1} << (power - k_fine_bits);
    return std::min(largest_, (std::uint64_t{1} << power) + (part + 1) * width - 1);
  }
  return largest_;
}

void trace_summary::add(const trace_event& event) {
  ++events_;
  ++by_kind_[static_cast<std::size_t>(event.kind)];
  if (event.m != trace::k_nobody) threads_.insert(event.m);
  spans_.add(event);
}

void trace_summary::goroutine_did(const goroutine_span& span) {
  const std::uint64_t time = span.end - span.begin;
  total_[static_cast<std::size_t>(span.what)] += time;
  goroutines_.insert(span.g);
  group& of = groups_[span.name];
  of.members.insert(span.g);
  of.time[static_cast<std::size_t>(span.what)] += time;

  const auto count = [&](waits& row) {
    ++row.count;
    row.time += time;
    row.longest = std::max(row.longest, time);
  };
  if (span.what == activity::waiting) count(waits_[span.reason]);
  if (span.what == activity::runnable && !span.reason.empty()) count(stops_[span.reason]);
  if (span.what == activity::runnable && !span.to_be_continued) latency_.add(time);
  if (span.p != trace::k_nobody) {
    proc& on = ps_[span.p];
    if (span.what == activity::running) {
      on.running += time;
      ++on.turns;
    } else {
      on.calls += span.p_end - span.begin;
    }
  }
}

void trace_summary::thread_had_p(std::uint64_t /*m*/, std::uint64_t p, std::uint64_t begin,
                                 std::uint64_t end) {
  ps_[p].held += end - begin;
}

void trace_summary::print_states(std::ostream& out) const {
  std::uint64_t all = 0;
  for (const std::uint64_t time : total_) all += time;
  out << "\nWhere goroutines spend their time\n";
  for (std::size_t i = 0; i < k_activities; ++i) {
    out << "  " << std::left << std::setw(10) << activity_name(static_cast<activity>(i))
        << std::right << std::setw(10) << duration_text(total_[i]) << std::setw(8)
        << percent(total_[i], all) << '\n';
  }
}

void trace_summary::print_waits(std::ostream& out) const {
  const auto table = [&](const char* title, const std::map<std::string_view, waits>& rows) {
    if (rows.empty()) return;
    out << '\n'
        << std::left << std::setw(34) << title << std::right << std::setw(10) << "times"
        << std::setw(11) << "total" << std::setw(11) << "mean" << std::setw(11) << "longest"
        << '\n';
    for (const auto* row : largest_first(rows, [](const auto& r) { return r.second.time; })) {
      const waits& w = row->second;
      out << "  " << std::left << std::setw(32)
          << (row->first.empty() ? "(no reason given)" : printable(row->first)) << std::right
          << std::setw(10) << w.count << std::setw(11) << duration_text(w.time) << std::setw(11)
          << duration_text(w.time / w.count) << std::setw(11) << duration_text(w.longest) << '\n';
    }
  };
  table("Waiting for", waits_);
  table("Gave way, runnable", stops_);
}

void trace_summary::print_latency(std::ostream& out) const {
  if (latency_.count() == 0) return;
  out << "\nFrom runnable to running (" << latency_.count() << " times)\n  half within "
      << duration_text(latency_.quantile(0.5)) << ", 90% " << duration_text(latency_.quantile(0.9))
      << ", 99% " << duration_text(latency_.quantile(0.99)) << ", 99.9% "
      << duration_text(latency_.quantile(0.999)) << ", longest "
      << duration_text(latency_.largest()) << "\n      from     times\n";
  const auto& buckets = latency_.buckets();
  const std::uint64_t most = *std::max_element(buckets.begin(), buckets.end());
  std::size_t first = 0;
  while (buckets[first] == 0) ++first;
  std::size_t last = buckets.size() - 1;
  while (buckets[last] == 0) --last;
  for (std::size_t i = first; i <= last; ++i) {
    const auto stars = static_cast<std::size_t>((buckets[i] * 40 + most - 1) / most);
    out << "  " << std::right << std::setw(8) << duration_text(i == 0 ? 0 : std::uint64_t{1} << i)
        << ' ' << std::setw(9) << buckets[i] << ' ' << std::string(stars, '#') << '\n';
  }
}

void trace_summary::print_ps(std::ostream& out) const {
  out << "\nPs" << std::setw(20) << "held" << std::setw(12) << "running" << std::setw(12)
      << "in calls" << std::setw(10) << "turns" << '\n';
  for (const auto& [id, p] : ps_) {
    out << "  " << std::left << std::setw(10) << ("P " + std::to_string(id)) << std::right
        << std::setw(10) << percent(p.held, duration()) << std::setw(12)
        << percent(p.running, duration()) << std::setw(12) << percent(p.calls, duration())
        << std::setw(10) << p.turns << '\n';
  }
}

void trace_summary::print_groups(std::ostream& out) const {
  const auto rows = largest_first(groups_, [](const auto& row) {
    const auto& time = row.second.time;
    return time[static_cast<std::size_t>(activity::running)] +
           time[static_cast<std::size_t>(activity::syscall)];
  });
  out << "\nGoroutines by the function they began with\n"
      << "     count   running  runnable   waiting   syscall\n";
  for (std::size_t i = 0; i < rows.size() && i < k_rows; ++i) {
    const group& of = rows[i]->second;
    out << std::right << std::setw(10) << of.members.size();
    for (const std::uint64_t time : of.time) out << std::setw(10) << duration_text(time);
    out << "  " << (rows[i]->first.empty() ? "(unknown)" : printable(rows[i]->first)) << '\n';
  }
  if (rows.size() > k_rows)
    out << "  and " << counted(rows.size() - k_rows, "more function") << '\n';
}

void trace_summary::print(std::ostream& out) const {
  const auto kind = [&](trace::event which) { return by_kind_[static_cast<std::size_t>(which)]; };
  out << duration_text(duration()) << " of time, " << events_ << " events in "
      << counted(reader_.generations(), "generation") << ", "
      << counted(goroutines_.size(), "goroutine") << ", " << counted(ps_.size(), "P") << ", "
      << counted(threads_.size(), "thread") << '\n'
      << kind(trace::event::go_create) << " created, " << kind(trace::event::go_block)
      << " blocked, " << kind(trace::event::go_unblock) << " unblocked, "
      << kind(trace::event::go_syscall_begin) << " system calls, " << kind(trace::event::proc_steal)
      << " Ps taken from calls, " << kind(trace::event::log) << " log lines\n";
  print_states(out);
  print_waits(out);
  print_latency(out);
  print_ps(out);
  print_groups(out);
}

}  // namespace magpie::rt
