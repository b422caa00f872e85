#include "observe/debug_pages.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <tuple>
#include <vector>

#include <magpie/blocking.h>
#include <magpie/debug.h>
#include <magpie/version.h>

#include "observe/goroutine_text.h"
#include "observe/json.h"
#include "os/clock.h"
#include "sched/snapshot.h"

// The page, as it is in the file.
asm(".pushsection .rodata\n"
    ".global magpie_live_page_begin\n"
    ".hidden magpie_live_page_begin\n"
    ".global magpie_live_page_end\n"
    ".hidden magpie_live_page_end\n"
    "magpie_live_page_begin:\n"
    ".incbin \"" MAGPIE_LIVE_PAGE
    "\"\n"
    "magpie_live_page_end:\n"
    ".popsection");
extern "C" {
extern const char magpie_live_page_begin[];
extern const char magpie_live_page_end[];
}

namespace magpie::rt {
namespace {

constexpr double k_nanos_per_second = 1e9;
constexpr std::size_t k_most_sites = 100;
constexpr std::size_t k_most_examples = 5;  // ids of a site

class text_printer {
 public:
  printer& out() { return out_; }
  std::string take() {
    out_.flush();
    return std::move(text_);
  }

 private:
  std::string text_;
  printer out_{{[](void* to, const char* part, std::size_t size) {
                  static_cast<std::string*>(to)->append(part, size);
                },
                &text_}};
};

void write_counters(json_writer& json, const meters& now) {
  json.key("counters").begin('{');
  json.field("spawned", now.all.spawned).field("finished", now.all.finished);
  json.field("turns", now.turns).field("parks", now.all.parks).field("readies", now.all.readies);
  json.field("yields", now.yields).field("steals", now.all.steals);
  json.field("stolen", now.all.stolen).field("steal_attempts", now.all.steal_attempts);
  json.field("calls", now.calls).field("hand_offs", now.all.hand_offs);
  json.field("retakes", now.all.retakes).field("stalls", now.stalls);
  json.field("preemptions", now.all.preemptions).field("polls", now.polls);
  json.field("poll_wakeups", now.all.netpoll_wakeups).field("timer_fires", now.all.timer_fires);
  json.end('}');
}

void write_procs(json_writer& json, const meters& now) {
  json.key("procs").begin('[');
  for (const p_meters& p : now.ps) {
    json.begin('{').key("state").text(p_state_text(p.state));
    json.field("queued", p.queued).field("stopped", p.stopped).field("timers", p.timers);
    json.field("turns", p.turns).field("spawned", p.spawned).field("steals", p.steals);
    json.field("stolen", p.stolen).field("preemptions", p.preemptions);
    json.end('}');
  }
  json.end(']');
}

// Each bucket for itself, empty ones left out.
void write_latencies(json_writer& json, const meters& now) {
  json.key("latencies").begin('{');
  json.field("sum", static_cast<double>(now.latency_sum) / k_nanos_per_second);
  json.key("buckets").begin('[');
  for (int b = 0; b < latency_histogram::k_buckets; ++b) {
    const std::uint64_t count = now.latencies[static_cast<std::size_t>(b)];
    if (count == 0) continue;
    const auto seconds = [](os::nanos time) {
      return static_cast<double>(time) / k_nanos_per_second;
    };
    json.begin('[').number(seconds(latency_histogram::begin_of(b)));
    const bool last = b + 1 == latency_histogram::k_buckets;
    json.number(seconds(latency_histogram::begin_of(last ? b : b + 1)));
    json.number(static_cast<double>(count)).end(']');
  }
  json.end(']').end('}');
}

void write_goroutine(json_writer& json, const debug::goroutine_info& g) {
  json.begin('{').field("id", g.id).field("parent", g.parent);
  json.key("name").text(g.name).key("state").text(g.state);
  json.key("wait_reason").text(g.wait_reason).key("waiting_on").text(g.waiting_on);
  json.field("waited", std::chrono::duration<double>(g.waited).count());
  json.key("spawn_site").text(g.spawn_site).key("thread_locked").boolean(g.thread_locked);
  json.key("stack").begin('[');
  for (const std::string& frame : g.stack) json.text(frame);
  json.end(']').end('}');
}

struct site_key {
  goroutine_state state;
  wait_reason reason;
  const void* spawn_site;
  auto operator<=>(const site_key&) const = default;
};

struct site {
  site_key key;
  std::uint64_t count = 0;
  os::nanos longest = 0;
  std::string_view name;  // if all have the same; the snapshot's
  std::vector<std::uint64_t> examples;
};

std::vector<site> sites_in(const snapshot& s) {
  std::map<site_key, site> found;
  for (const goroutine_record& g : s.goroutines()) {
    const bool waits = g.state == goroutine_state::waiting;
    const site_key key{g.state, waits ? g.reason : wait_reason::none, g.spawn_site};
    site& at = found[key];
    at.key = key;
    if (at.count == 0) at.name = s.name_of(g);
    if (at.name != s.name_of(g)) at.name = {};
    ++at.count;
    at.longest = std::max(at.longest, g.waited);
    if (at.examples.size() < k_most_examples) at.examples.push_back(g.id);
  }
  std::vector<site> all;
  for (auto& [key, one] : found) all.push_back(std::move(one));
  std::stable_sort(all.begin(), all.end(),
                   [](const site& a, const site& b) { return a.count > b.count; });
  return all;
}

// One goroutine's part of a dump: an empty line is after it, and before it.
std::string block_of(const std::string& dump, std::uint64_t id) {
  const std::string header = "goroutine " + std::to_string(id) + " [";
  std::size_t at = dump.starts_with(header) ? 0 : dump.find("\n\n" + header);
  if (at == dump.npos) return {};
  if (at != 0) at += 2;
  const std::size_t end = dump.find("\n\n", at);
  return dump.substr(at, end == dump.npos ? end : end + 1 - at);
}

std::string place_text(const goroutine_text& text, const void* return_address) {
  if (return_address == nullptr) return {};
  text_printer to;
  text.print_short_place(to.out(), reinterpret_cast<std::uintptr_t>(return_address) - 1);
  return to.take();
}

}  // namespace

std::string stats_json(const meters& now) {
  json_writer json;
  json.begin('{');
  json.key("magpie").text(version()).key("program").text(program_invocation_short_name);
  const auto seconds = [](os::nanos time) {
    return static_cast<double>(time) / k_nanos_per_second;
  };
  json.key("cpu").begin('{').field("user", seconds(now.cpu.user));
  json.field("searching", seconds(now.cpu.searching)).field("idle", seconds(now.cpu.idle));
  json.field("total", seconds(now.cpu.total())).end('}');
  json.field("uptime", seconds(now.uptime)).field("mutex_wait", seconds(now.mutex_wait));
  json.key("goroutines").begin('{');
  json.field("all", now.all.goroutines).field("running", now.running);
  json.field("runnable", now.runnable).field("waiting", now.waiting);
  json.field("syscall", now.in_calls).field("stopped", now.stopped).end('}');
  json.key("threads").begin('{').field("all", now.all.threads);
  json.field("idle", now.all.idle_threads).field("peak", now.all.threads_peak).end('}');
  json.field("idle_procs", now.all.idle_procs).field("spinning", now.all.spinning);
  json.field("global_queue", now.all.global_queue_length);
  json.field("timers", now.timers).field("io_waiters", now.io_waiters);
  json.key("stacks").begin('{').field("in_use", now.stacks_in_use);
  json.field("free", now.stacks_free).field("reserved_bytes", now.stack_bytes_reserved).end('}');
  write_procs(json, now);
  write_counters(json, now);
  write_latencies(json, now);
  json.end('}');
  return json.take() + "\n";
}

std::string goroutines_text(std::optional<std::uint64_t> only) {
  const detail::blocking_scope others_go_on(hand_off_now);
  snapshot s;
  s.take();
  goroutine_text::options wishes;
  if (only) wishes.group_above = s.goroutines().size();  // each for itself
  const goroutine_text text(s, wishes);
  text_printer to;
  text.print(to.out());
  const std::string all = to.take();
  return only ? block_of(all, *only) : all;
}

std::string goroutines_json(std::optional<std::uint64_t> only) {
  json_writer json;
  json.begin('[');
  for (const debug::goroutine_info& g : debug::goroutines()) {
    if (!only || *only == g.id) write_goroutine(json, g);
  }
  json.end(']');
  return json.take() + "\n";
}

std::string sites_json() {
  const detail::blocking_scope others_go_on(hand_off_now);
  const os::nanos begin = os::now();
  snapshot s;
  s.take();
  const goroutine_text text(s, {});
  std::vector<site> all = sites_in(s);
  const std::size_t left_out = all.size() > k_most_sites ? all.size() - k_most_sites : 0;
  all.resize(std::min(all.size(), k_most_sites));
  json_writer json;
  json.begin('{').field("left_out", left_out).key("sites").begin('[');
  for (const site& one : all) {
    json.begin('{').field("count", one.count).key("state").text(state_text(one.key.state));
    json.key("wait_reason");
    json.text(one.key.state == goroutine_state::waiting ? wait_reason_text(one.key.reason) : "");
    json.key("name").text(one.name).key("spawn_site").text(place_text(text, one.key.spawn_site));
    json.field("longest", static_cast<double>(one.longest) / k_nanos_per_second);
    json.key("examples").begin('[');
    for (const std::uint64_t id : one.examples) json.number(static_cast<double>(id));
    json.end(']').end('}');
  }
  json.end(']').field("took", static_cast<double>(os::now() - begin) / k_nanos_per_second);
  json.end('}');
  return json.take() + "\n";
}

std::string_view live_page() {
  return {magpie_live_page_begin,
          static_cast<std::size_t>(magpie_live_page_end - magpie_live_page_begin)};
}

}  // namespace magpie::rt
