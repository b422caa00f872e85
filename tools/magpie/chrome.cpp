// chrome.cpp: one JSON object per line, written as the trace is read.

#include "tools/magpie/chrome.h"

#include <cstdio>

#include "tools/magpie/utf8.h"

namespace magpie_tool {

namespace rt = magpie::rt;
using rt::activity;
using rt::trace::k_nobody;

namespace {

// Rows are numbered inside "processes", which are nothing but groups of rows.
constexpr int k_procs = 0;
constexpr int k_threads = 1;

// Microseconds, with three digits behind the point.
std::string micros(std::uint64_t nanos) {
  char text[40];
  std::snprintf(text, sizeof text, "%llu.%03u", static_cast<unsigned long long>(nanos / 1000),
                static_cast<unsigned>(nanos % 1000));
  return text;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : valid_utf8(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", byte);
      result += escaped;
    } else {
      result += c;
    }
  }
  return result + '"';
}

chrome_converter::chrome_converter(const rt::trace_reader& reader, std::ostream& out)
    : reader_(reader), spans_(reader, *this), notes_(reader, *this), out_(out) {
  out_ << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
}

std::ostream& chrome_converter::begin_event() {
  out_ << (any_ ? ",\n" : "\n");
  any_ = true;
  return out_;
}

std::string chrome_converter::since_begin(std::uint64_t time) const {
  const std::uint64_t begin = spans_.first_time();
  return micros(time > begin ? time - begin : 0);
}

void chrome_converter::add(const rt::trace_event& event) {
  spans_.add(event);
  notes_.add(event);
  if (event.kind != rt::trace::event::log) return;
  begin_event() << R"({"ph":"i","s":"t","name":)" << json_string(reader_.text(event.arguments[1]))
                << R"(,"ts":)" << since_begin(event.time) << R"(,"pid":)" << k_procs << R"(,"tid":)"
                << event.p << R"(,"args":{"message":)"
                << json_string(reader_.text(event.arguments[2])) << "}}";
}

void chrome_converter::bar(int process, std::uint64_t row, const rt::goroutine_span& span,
                           std::uint64_t end) {
  const bool call = span.what == activity::syscall;
  begin_event() << R"({"ph":"X","name":)" << json_string(goroutine_name(span)) << R"(,"cat":")"
                << activity_name(span.what) << R"(","ts":)" << since_begin(span.begin)
                << R"(,"dur":)" << micros(end - span.begin) << R"(,"pid":)" << process
                << R"(,"tid":)" << row << R"(,"cname":")"
                << (call ? "thread_state_iowait" : "thread_state_running") << R"(","args":{"g":)"
                << span.g << R"(,"state":")" << activity_name(span.what) << "\"}}";
}

void chrome_converter::goroutine_did(const rt::goroutine_span& span) {
  if (span.p != k_nobody) {
    ps_.insert(span.p);
    bar(k_procs, span.p, span, span.p_end);
  }
  if (span.m != k_nobody) {
    ms_.insert(span.m);
    bar(k_threads, span.m, span, span.end);
  }
  if (const auto number = arrows_.begins_with(span)) {
    arrow(R"("ph":"s")", number, span.by.p, span.begin);
  }
  if (const auto number = arrows_.ends_with(span)) {
    arrow(R"("ph":"f","bp":"e")", number, span.p, span.begin);
  }
}

void chrome_converter::arrow(std::string_view phase, std::uint64_t number, std::uint64_t p,
                             std::uint64_t time) {
  begin_event() << '{' << phase << R"(,"cat":"wake","name":"wake","id":)" << number << R"(,"ts":)"
                << since_begin(time) << R"(,"pid":)" << k_procs << R"(,"tid":)" << p << "}";
}

// These have rows of their own, by kind and id.
void chrome_converter::note(char phase, std::string_view kind, std::uint64_t id,
                            std::string_view name, std::uint64_t time) {
  begin_event() << R"({"ph":")" << phase << R"(","cat":")" << kind << R"(","id":")" << kind << ' '
                << id << R"(","name":)" << json_string(name) << R"(,"ts":)" << since_begin(time)
                << R"(,"pid":)" << k_procs << R"(,"tid":0})";
}

void chrome_converter::task_begins(std::uint64_t task, std::string_view name, std::uint64_t time) {
  note('b', "task", task, name, time);
}
void chrome_converter::task_ends(std::uint64_t task, std::string_view name, std::uint64_t time) {
  note('e', "task", task, name, time);
}
void chrome_converter::region_begins(std::uint64_t g, std::string_view name, std::uint64_t time) {
  note('b', "region", g, name, time);
}
void chrome_converter::region_ends(std::uint64_t g, std::string_view name, std::uint64_t time) {
  note('e', "region", g, name, time);
}

void chrome_converter::thread_had_p(std::uint64_t /*m*/, std::uint64_t p, std::uint64_t /*begin*/,
                                    std::uint64_t /*end*/) {
  ps_.insert(p);
}

void chrome_converter::name_row(int process, std::uint64_t row, std::string_view kind) {
  begin_event() << R"({"ph":"M","name":"thread_name","pid":)" << process << R"(,"tid":)" << row
                << R"(,"args":{"name":")" << kind << ' ' << row << "\"}}";
  begin_event() << R"({"ph":"M","name":"thread_sort_index","pid":)" << process << R"(,"tid":)"
                << row << R"(,"args":{"sort_index":)" << row << "}}";
}

void chrome_converter::finish() {
  spans_.finish();
  notes_.finish();
  begin_event() << R"({"ph":"M","name":"process_name","pid":0,"args":{"name":"Ps"}})";
  begin_event() << R"({"ph":"M","name":"process_name","pid":1,"args":{"name":"Threads"}})";
  for (const std::uint64_t p : ps_) name_row(k_procs, p, "P");
  for (const std::uint64_t m : ms_) name_row(k_threads, m, "Thread");
  out_ << "\n]}\n";
}

}  // namespace magpie_tool
