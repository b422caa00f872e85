// perfetto.cpp: TracePacket messages, one after the other.

#include "tools/magpie/perfetto.h"

#include "base/varint.h"
#include "tools/magpie/utf8.h"

namespace magpie_tool {

namespace rt = magpie::rt;
using rt::activity;
using rt::trace::k_nobody;

namespace {

// Numbers of protobuf fields, as in Perfetto's .proto files.
namespace field {
constexpr unsigned k_trace_packet = 1;
namespace packet {
constexpr unsigned k_timestamp = 8;
constexpr unsigned k_sequence = 10;
constexpr unsigned k_track_event = 11;
constexpr unsigned k_sequence_flags = 13;
constexpr unsigned k_clock = 58;
constexpr unsigned k_track_descriptor = 60;
constexpr unsigned k_first_on_sequence = 87;
}  // namespace packet
namespace track {
constexpr unsigned k_uuid = 1;
constexpr unsigned k_name = 2;
constexpr unsigned k_parent = 5;
constexpr unsigned k_child_ordering = 11;
constexpr unsigned k_rank = 12;
constexpr unsigned k_merging = 15;
}  // namespace track
namespace track_event {
constexpr unsigned k_annotation = 4;
constexpr unsigned k_type = 9;
constexpr unsigned k_track = 11;
constexpr unsigned k_name = 23;
constexpr unsigned k_flow = 47;
constexpr unsigned k_flow_end = 48;
}  // namespace track_event
namespace annotation {
constexpr unsigned k_unsigned = 3;
constexpr unsigned k_string = 6;
constexpr unsigned k_name = 10;
}  // namespace annotation
}  // namespace field

constexpr std::uint64_t k_begin = 1;
constexpr std::uint64_t k_end = 2;
constexpr std::uint64_t k_instant = 3;
constexpr std::uint64_t k_boot_clock = 6;
constexpr std::uint64_t k_explicit_order = 3;
constexpr std::uint64_t k_never_merge = 2;

void put_varint(std::string& out, std::uint64_t value) {
  std::uint8_t bytes[rt::k_max_varint_size];
  const std::uint8_t* const end = rt::put_varint(bytes, value);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(end - bytes));
}

void put_number(std::string& out, unsigned number, std::uint64_t value) {
  put_varint(out, number << 3U);
  put_varint(out, value);
}

void put_fixed64(std::string& out, unsigned number, std::uint64_t value) {
  put_varint(out, number << 3U | 1U);
  for (int i = 0; i < 8; ++i) out += static_cast<char>(value >> (8 * i));
}

void put_bytes(std::string& out, unsigned number, std::string_view bytes) {
  put_varint(out, number << 3U | 2U);
  put_varint(out, bytes.size());
  out += bytes;
}

void annotate(std::string& out, std::string_view name, std::uint64_t value) {
  std::string annotation;
  put_bytes(annotation, field::annotation::k_name, name);
  put_number(annotation, field::annotation::k_unsigned, value);
  put_bytes(out, field::track_event::k_annotation, annotation);
}

void annotate(std::string& out, std::string_view name, std::string_view value) {
  std::string annotation;
  put_bytes(annotation, field::annotation::k_name, name);
  put_bytes(annotation, field::annotation::k_string, valid_utf8(value));
  put_bytes(out, field::track_event::k_annotation, annotation);
}

}  // namespace

perfetto_converter::perfetto_converter(const rt::trace_reader& reader, std::ostream& out)
    : reader_(reader), spans_(reader, *this), notes_(reader, *this), out_(out) {
  describe_group(group::procs, "Ps");
  describe_group(group::threads, "Threads");
  describe_group(group::goroutines, "Goroutines");
  describe_group(group::regions, "Regions");
  describe_group(group::tasks, "Tasks");
}

void perfetto_converter::packet(std::uint64_t time, const std::string& rest) {
  std::string body;
  if (time != 0) {
    put_number(body, field::packet::k_timestamp, time);
    put_number(body, field::packet::k_clock, k_boot_clock);
  }
  put_number(body, field::packet::k_sequence, 1);
  if (first_packet_) {
    put_number(body, field::packet::k_sequence_flags, 1);
    put_number(body, field::packet::k_first_on_sequence, 1);
    first_packet_ = false;
  }
  body += rest;
  std::string whole;
  put_bytes(whole, field::k_trace_packet, body);
  out_ << whole;
}

void perfetto_converter::describe_group(group which, std::string_view name) {
  std::string descriptor;
  put_number(descriptor, field::track::k_uuid, static_cast<std::uint64_t>(which));
  put_bytes(descriptor, field::track::k_name, name);
  put_number(descriptor, field::track::k_child_ordering, k_explicit_order);
  std::string rest;
  put_bytes(rest, field::packet::k_track_descriptor, descriptor);
  packet(0, rest);
}

// The track of a P, a thread or a goroutine; described when it is met for the first time.
std::uint64_t perfetto_converter::track(group of, std::uint64_t id, std::string_view name) {
  const std::uint64_t uuid = (id << 3U | static_cast<std::uint64_t>(of)) + 16;
  if (!described_.insert(uuid).second) return uuid;
  std::string descriptor;
  put_number(descriptor, field::track::k_uuid, uuid);
  put_bytes(descriptor, field::track::k_name, valid_utf8(name));
  put_number(descriptor, field::track::k_parent, static_cast<std::uint64_t>(of));
  put_number(descriptor, field::track::k_rank, id & 0x7fffffffU);
  put_number(descriptor, field::track::k_merging, k_never_merge);
  std::string rest;
  put_bytes(rest, field::packet::k_track_descriptor, descriptor);
  packet(0, rest);
  return uuid;
}

void perfetto_converter::slice(std::uint64_t track, std::string_view name, std::uint64_t begin,
                               std::uint64_t end, const std::string& extra) {
  edge(track, k_begin, name, begin, extra);
  edge(track, k_end, {}, end, {});
}

// The begin or the end of a slice.
void perfetto_converter::edge(std::uint64_t track, std::uint64_t type, std::string_view name,
                              std::uint64_t time, const std::string& extra) {
  std::string event;
  put_number(event, field::track_event::k_type, type);
  put_number(event, field::track_event::k_track, track);
  if (type == k_begin) put_bytes(event, field::track_event::k_name, valid_utf8(name));
  event += extra;
  std::string rest;
  put_bytes(rest, field::packet::k_track_event, event);
  packet(time, rest);
}

void perfetto_converter::task_begins(std::uint64_t task, std::string_view name,
                                     std::uint64_t time) {
  std::string extra;
  annotate(extra, "task", task);
  edge(track(group::tasks, task, "task " + std::to_string(task)), k_begin, name, time, extra);
}
void perfetto_converter::task_ends(std::uint64_t task, std::string_view name, std::uint64_t time) {
  edge(track(group::tasks, task, {}), k_end, name, time, {});
}
void perfetto_converter::region_begins(std::uint64_t g, std::string_view name, std::uint64_t time) {
  std::string extra;
  annotate(extra, "g", g);
  edge(track(group::regions, g, "regions of G" + std::to_string(g)), k_begin, name, time, extra);
}
void perfetto_converter::region_ends(std::uint64_t g, std::string_view name, std::uint64_t time) {
  edge(track(group::regions, g, {}), k_end, name, time, {});
}

std::uint64_t perfetto_converter::proc_track(std::uint64_t p) {
  return track(group::procs, p, "P " + std::to_string(p));
}

// Something that happened on a P at a moment: `more` adds what belongs to it.
template <class More>
void perfetto_converter::instant(std::uint64_t p, std::string_view name, std::uint64_t time,
                                 More more) {
  std::string what;
  put_number(what, field::track_event::k_type, k_instant);
  put_number(what, field::track_event::k_track, proc_track(p));
  put_bytes(what, field::track_event::k_name, valid_utf8(name));
  more(what);
  std::string rest;
  put_bytes(rest, field::packet::k_track_event, what);
  packet(time, rest);
}

void perfetto_converter::goroutine_did(const rt::goroutine_span& span) {
  const std::string name = goroutine_name(span);
  std::string extra;
  annotate(extra, "g", span.g);
  if (span.p != k_nobody) annotate(extra, "p", span.p);
  if (span.m != k_nobody) annotate(extra, "thread", span.m);
  if (!span.reason.empty()) annotate(extra, "reason", span.reason);

  if (const auto flow = arrows_.begins_with(span)) {
    instant(span.by.p, span.created ? "create" : "wake", span.begin, [&](std::string& wake) {
      put_fixed64(wake, field::track_event::k_flow, flow);
      annotate(wake, "g", span.g);
    });
  }
  std::string on_p = extra;
  if (const auto flow = arrows_.ends_with(span)) {
    put_fixed64(on_p, field::track_event::k_flow_end, flow);
  }
  const std::string shown = span.what == activity::syscall ? name + " (syscall)" : name;
  if (span.p != k_nobody) {
    slice(proc_track(span.p), shown, span.begin, span.p_end, on_p);
  }
  if (span.m != k_nobody) {
    slice(track(group::threads, span.m, "Thread " + std::to_string(span.m)), shown, span.begin,
          span.end, extra);
  }
  const std::string state = span.what == activity::waiting && !span.reason.empty()
                                ? "waiting: " + std::string(span.reason)
                                : std::string(activity_name(span.what));
  slice(track(group::goroutines, span.g, name), state, span.begin, span.end, extra);
}

void perfetto_converter::add(const rt::trace_event& event) {
  spans_.add(event);
  notes_.add(event);
  if (event.kind != rt::trace::event::log) return;
  instant(event.p, reader_.text(event.arguments[1]), event.time,
          [&](std::string& line) { annotate(line, "message", reader_.text(event.arguments[2])); });
}

}  // namespace magpie_tool
