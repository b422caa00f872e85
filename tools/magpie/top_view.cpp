#include "tools/magpie/top_view.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "observe/text.h"

namespace magpie_tool {

namespace {

using magpie::rt::printable;

constexpr std::string_view k_between = " at ";  // of a function and its file
// Below these something is left out, so that the rest is there.
constexpr int k_few_lines = 16;
constexpr int k_few_columns = 70;

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

// 1234567: 1.23M
std::string shortly(double n) {
  if (n < 10'000) return format(n < 10 && n != std::floor(n) ? "%.1f" : "%.0f", n);
  if (n < 1e6) return format("%.3gk", n / 1e3);
  if (n < 1e9) return format("%.3gM", n / 1e6);
  return format("%.3gG", n / 1e9);
}

std::string as_time(double seconds) {
  if (seconds >= 7200) return format("%.3g h", seconds / 3600);
  if (seconds >= 120) return format("%.3g min", seconds / 60);
  if (seconds >= 1) return format("%.3g s", seconds);
  if (seconds >= 1e-3) return format("%.3g ms", seconds * 1e3);
  if (seconds >= 1e-6) return format("%.3g us", seconds * 1e6);
  return format("%.0f ns", seconds * 1e9);
}

std::string padded(std::string text, std::size_t width, bool to_the_right = false) {
  if (text.size() >= width) return text;
  const std::string blanks(width - text.size(), ' ');
  return to_the_right ? blanks + text : text + blanks;
}

// The time within which a part of those were served that ran since the last look.
class latency {
 public:
  latency(const json_value& now, const json_value& before) {
    std::map<double, double> old;
    for (const json_value& bucket : before["latencies"]["buckets"].items()) {
      if (bucket.items().size() == 3) old[bucket.items()[0].number()] = bucket.items()[2].number();
    }
    for (const json_value& bucket : now["latencies"]["buckets"].items()) {
      if (bucket.items().size() != 3) continue;
      const double count = bucket.items()[2].number() - old[bucket.items()[0].number()];
      ends_.emplace_back(bucket.items()[1].number(), count);
      all_ += count;
    }
  }

  std::string within(double part) const {
    if (all_ <= 0) return "-";
    double sum = 0;
    for (const auto& [end, count] : ends_) {
      sum += count;
      if (sum >= part * all_) return as_time(end);
    }
    return "-";
  }

 private:
  std::vector<std::pair<double, double>> ends_;
  double all_ = 0;
};

class page {
 public:
  page(const json_value& now, const json_value& before, const top_settings& settings)
      : now_(now),
        before_(before),
        settings_(settings),
        seconds_(before["uptime"].number() > 0 ? now["uptime"].number() - before["uptime"].number()
                                               : 0) {}

  void totals() {
    line(bold(printable(now_["program"].text())) + "  magpie " + printable(now_["magpie"].text()) +
         "  up " + as_time(now_["uptime"].number()));
    const json_value& g = now_["goroutines"];
    wrapped({"goroutines " + bold(shortly(g["all"].number())) + ": ",
             count(g, "running") + " running, ", count(g, "runnable") + " runnable, ",
             count(g, "waiting") + " waiting, ", count(g, "syscall") + " in calls"});
    wrapped({"threads " + count(now_["threads"], "all") + " (" + count(now_["threads"], "idle") +
                 " idle)   ",
             "Ps " + std::to_string(now_["procs"].items().size()) + " (" +
                 count(now_, "idle_procs") + " idle, " + count(now_, "spinning") + " looking)   ",
             "timers " + count(now_, "timers") + "   ",
             "waiting for I/O " + count(now_, "io_waiters")});
    const latency times(now_, before_);
    wrapped({"runnable to running: ", "half within " + times.within(.5) + ", ",
             "99 % within " + times.within(.99)});
    if (settings_.lines != 0 && settings_.lines < k_few_lines) return;
    wrapped({"per second: ", rate("turns", "turns"), rate("spawned", "spawned"),
             rate("parks", "parks"), rate("steals", "steals"), rate("polls", "polls")});
    wrapped({"            ", rate("preemptions", "preemptions"), rate("hand_offs", "hand-offs"),
             rate("stalls", "stalls"), rate("calls", "calls"), rate("timer_fires", "timers")});
  }

  // As many as leave half of the screen for the rest.
  void procs() {
    if (settings_.lines != 0 && settings_.lines < k_few_lines) return;
    const json_value::array& all = now_["procs"].items();
    const std::size_t room = settings_.lines == 0
                                 ? all.size()
                                 : static_cast<std::size_t>(std::max(1, settings_.lines / 2 - 8));
    line("");
    line(faint("P    state     queue  stopped  timers  turns/s   stolen      (global queue: " +
               count(now_, "global_queue") + ")"));
    for (std::size_t i = 0; i < std::min(all.size(), room); ++i) {
      const json_value::array& old = before_["procs"].items();
      const double turns = i < old.size() ? all[i]["turns"].number() - old[i]["turns"].number() : 0;
      line(padded(std::to_string(i), 5) + padded(printable(all[i]["state"].text()), 8) +
           right(count(all[i], "queued"), 7) + right(count(all[i], "stopped"), 9) +
           right(count(all[i], "timers"), 8) + right(per_second(turns), 9) +
           right(count(all[i], "stolen"), 9));
    }
    if (all.size() > room) line(faint("... and " + std::to_string(all.size() - room) + " more"));
  }

  void sites(const json_value& answer) {
    json_value::array all = answer["sites"].items();
    sort(all);
    const bool narrow = settings_.lines != 0 && settings_.columns < k_few_columns;
    line("");
    line(faint(narrow ? right("count", 6) + "  " + padded("state", 16) + "created by"
                      : right("count", 7) + "  " + padded("state", 22) + right("longest", 9) +
                            "  " + padded("for example", 14) + "created by"));
    std::size_t shown = all.size();
    if (settings_.lines != 0) {
      const auto room = static_cast<std::size_t>(std::max(0, settings_.lines - lines_));
      if (shown > room) shown = room > 0 ? room - 1 : 0;
    }
    for (std::size_t i = 0; i < shown; ++i) {
      const json_value& site = all[i];
      const std::string& reason = site["wait_reason"].text();
      const std::string state = printable(reason.empty() ? site["state"].text() : reason);
      const std::string count = shortly(site["count"].number());
      if (narrow) {
        line(right(count, 6) + "  " + padded(state.substr(0, 15), 16) + place_of(site));
        continue;
      }
      std::string examples;
      for (const json_value& id : site["examples"].items()) {
        if (examples.size() < 8)
          examples += (examples.empty() ? "" : " ") + format("%.0f", id.number());
      }
      const double longest = site["longest"].number();
      line(right(count, 7) + "  " + padded(state, 22) +
           right(longest > 0 ? as_time(longest) : "", 9) + "  " + padded(examples, 14) +
           place_of(site));
    }
    const auto left_out =
        static_cast<std::size_t>(answer["left_out"].number()) + all.size() - shown;
    if (left_out > 0) line(faint("... and " + std::to_string(left_out) + " more"));
  }

  std::string take() { return std::move(text_); }

 private:
  static std::string right(std::string text, std::size_t width) {
    return padded(std::move(text), width, true);
  }
  // What tells places apart comes first: a narrow screen shows no more.
  static std::string place_of(const json_value& site) {
    const std::string name = printable(site["name"].text());
    const std::string place = printable(site["spawn_site"].text());
    std::string result = name.empty() ? "" : "\"" + name + "\" ";
    if (place.empty()) return result + "a thread";
    const std::size_t between = place.rfind(k_between);
    if (between == place.npos) return result + place;
    const std::string file = place.substr(between + k_between.size());
    return result + file.substr(file.rfind('/') + 1) + "  " + place.substr(0, between);
  }
  static std::string count(const json_value& of, const char* name) {
    return shortly(of[name].number());
  }
  std::string bold(const std::string& text) const {
    return settings_.colours ? "\x1b[1m" + text + "\x1b[22m" : text;
  }
  std::string faint(const std::string& text) const {
    return settings_.colours ? "\x1b[2m" + text + "\x1b[22m" : text;
  }
  std::string per_second(double n) const {
    return seconds_ > 0 ? shortly(std::max(0.0, n / seconds_)) : "-";
  }
  std::string rate(const char* name, const char* label) const {
    const double n = now_["counters"][name].number() - before_["counters"][name].number();
    return per_second(n) + " " + label + "  ";
  }

  // Parts with blanks between them, in as many lines as they take.
  void wrapped(const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) {
      if (!text.empty() && settings_.lines != 0 && width_of(text + part) > settings_.columns) {
        line(text);
        text = "  ";
      }
      text += part;
    }
    line(text);
  }
  static int width_of(std::string_view text) {
    int width = 0;
    bool steering = false;
    for (const char c : text) {
      if (c == '\x1b') steering = true;
      if (!steering && (static_cast<unsigned char>(c) & 0xc0) != 0x80) ++width;
      if (steering && c == 'm') steering = false;
    }
    while (text.ends_with(' ')) {
      text.remove_suffix(1);
      --width;
    }
    return width;
  }

  // Cut to the screen; what steers the terminal takes no room there.
  void line(const std::string& text) {
    if (settings_.lines != 0 && lines_ >= settings_.lines) return;
    int width = 0;
    bool steering = false;
    for (const char c : text) {
      if (c == '\x1b') steering = true;
      const bool follows = (static_cast<unsigned char>(c) & 0xc0) == 0x80;  // of a character
      if (!steering && !follows) ++width;
      if (steering || settings_.lines == 0 || width <= settings_.columns) text_ += c;
      if (steering && c == 'm') steering = false;
    }
    while (text_.ends_with(' ')) text_.pop_back();
    text_ += '\n';
    ++lines_;
  }

  void sort(json_value::array& all) const {
    const auto by = [&](const json_value& a, const json_value& b) {
      switch (settings_.order) {
        case site_order::count:
          return a["count"].number() > b["count"].number();
        case site_order::longest:
          return a["longest"].number() > b["longest"].number();
        case site_order::state:
          return a["state"].text() + a["wait_reason"].text() <
                 b["state"].text() + b["wait_reason"].text();
        case site_order::site:
          return a["spawn_site"].text() < b["spawn_site"].text();
      }
      return false;
    };
    std::stable_sort(all.begin(), all.end(), by);
  }

  const json_value& now_;
  const json_value& before_;
  const top_settings& settings_;
  const double seconds_;
  std::string text_;
  int lines_ = 0;
};

}  // namespace

std::string_view name_of(site_order order) {
  switch (order) {
    case site_order::count:
      return "count";
    case site_order::longest:
      return "wait";
    case site_order::state:
      return "state";
    case site_order::site:
      return "place";
  }
  return "";
}

std::string top_text(const json_value& now, const json_value& before, const json_value& sites,
                     const top_settings& settings) {
  page shown(now, before, settings);
  shown.totals();
  shown.procs();
  shown.sites(sites);
  return shown.take();
}

}  // namespace magpie_tool
