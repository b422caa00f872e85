// metrics.cpp: what the meters are called. One table for both forms, so that neither forgets one.

#include "observe/metrics.h"

#include <charconv>

namespace magpie::rt {
namespace {

constexpr double k_nanos_per_second = 1e9;

enum class kind : std::uint8_t {
  gauge,
  counter,
};

struct metric {
  const char* name;        // as in Go's runtime/metrics
  const char* prometheus;  // several in a row may share one, with labels
  const char* labels;
  kind type;
  const char* help;
  double (*value)(const meters&);
};

template <class T>
double number(T value) {
  return static_cast<double>(value);
}

constexpr metric k_metrics[] = {
    {"/sched/goroutines:goroutines", "go_goroutines", "", kind::gauge,
     "Number of goroutines that currently exist.",
     [](const meters& m) { return number(m.all.goroutines); }},
    {"/sched/goroutines-created:goroutines", "go_sched_goroutines_created_goroutines_total", "",
     kind::counter, "Goroutines created since the runtime started.",
     [](const meters& m) { return number(m.all.spawned); }},
    {"/sched/goroutines/running:goroutines", "go_sched_goroutines_running_goroutines", "",
     kind::gauge, "Goroutines that run.", [](const meters& m) { return number(m.running); }},
    {"/sched/goroutines/runnable:goroutines", "go_sched_goroutines_runnable_goroutines", "",
     kind::gauge, "Goroutines that could run and wait for a P, preempted ones among them.",
     [](const meters& m) { return number(m.runnable); }},
    {"/sched/goroutines/waiting:goroutines", "go_sched_goroutines_waiting_goroutines", "",
     kind::gauge, "Goroutines that wait for something: a channel, a lock, a descriptor, time.",
     [](const meters& m) { return number(m.waiting); }},
    {"/sched/goroutines/not-in-go:goroutines", "go_sched_goroutines_not_in_go_goroutines", "",
     kind::gauge, "Goroutines in a blocking call, with a thread of their own.",
     [](const meters& m) { return number(m.in_calls); }},
    {"/sched/gomaxprocs:threads", "go_sched_gomaxprocs_threads", "", kind::gauge,
     "How many goroutines may run at once: the number of Ps.",
     [](const meters& m) { return number(m.all.procs); }},
    {"/sched/threads/total:threads", "go_threads", "", kind::gauge,
     "Threads of the runtime that run goroutines, or sleep until there are some.",
     [](const meters& m) { return number(m.all.threads); }},

    {"/sync/mutex/wait/total:seconds", "go_sync_mutex_wait_total_seconds_total", "", kind::counter,
     "Time goroutines have spent blocked on a mutex or shared_mutex.",
     [](const meters& m) { return number(m.mutex_wait) / k_nanos_per_second; }},
    {"/cpu/classes/user:cpu-seconds", "go_cpu_classes_user_cpu_seconds_total", "", kind::counter,
     "Time that Ps were in use: in user code, in short blocking calls, between two goroutines.",
     [](const meters& m) { return number(m.cpu.user) / k_nanos_per_second; }},
    {"/cpu/classes/magpie/searching:cpu-seconds", "magpie_cpu_classes_searching_cpu_seconds_total",
     "", kind::counter, "Time that Ps without work spent on looking for some.",
     [](const meters& m) { return number(m.cpu.searching) / k_nanos_per_second; }},
    {"/cpu/classes/idle:cpu-seconds", "go_cpu_classes_idle_cpu_seconds_total", "", kind::counter,
     "Time that Ps were there and nobody had them.",
     [](const meters& m) { return number(m.cpu.idle) / k_nanos_per_second; }},
    {"/cpu/classes/total:cpu-seconds", "go_cpu_classes_total_cpu_seconds_total", "", kind::counter,
     "Time that could have been used: that of all Ps there were. The sum of the other classes.",
     [](const meters& m) { return number(m.cpu.total()) / k_nanos_per_second; }},

    {"/magpie/uptime:seconds", "magpie_uptime_seconds", "", kind::gauge,
     "Since the runtime started.",
     [](const meters& m) { return number(m.uptime) / k_nanos_per_second; }},
    {"/magpie/goroutines-finished:goroutines", "magpie_goroutines_finished_total", "",
     kind::counter, "Goroutines that have ended.",
     [](const meters& m) { return number(m.all.finished); }},
    {"/magpie/goroutines-stopped:goroutines", "magpie_goroutines_stopped", "", kind::gauge,
     "Goroutines preempted in the middle of their code, with their thread; among the runnable.",
     [](const meters& m) { return number(m.stopped); }},
    {"/magpie/threads/peak:threads", "magpie_threads_peak", "", kind::gauge,
     "The most threads there have been at a time.",
     [](const meters& m) { return number(m.all.threads_peak); }},
    {"/magpie/threads/idle:threads", "magpie_threads_idle", "", kind::gauge,
     "Threads that sleep until there is work.",
     [](const meters& m) { return number(m.all.idle_threads); }},
    {"/magpie/procs/idle:procs", "magpie_procs_idle", "", kind::gauge, "Ps that nobody has.",
     [](const meters& m) { return number(m.all.idle_procs); }},
    {"/magpie/procs/spinning:procs", "magpie_procs_spinning", "", kind::gauge,
     "Ps whose threads look for work.", [](const meters& m) { return number(m.all.spinning); }},
    {"/magpie/queues/global:goroutines", "magpie_global_queue_length", "", kind::gauge,
     "Goroutines in the queue that belongs to no P.",
     [](const meters& m) { return number(m.all.global_queue_length); }},
    {"/magpie/turns:events", "magpie_turns_total", "", kind::counter,
     "Times that a goroutine began to run.", [](const meters& m) { return number(m.turns); }},
    {"/magpie/parks:events", "magpie_parks_total", "", kind::counter,
     "Times that a goroutine began to wait.", [](const meters& m) { return number(m.all.parks); }},
    {"/magpie/readies:events", "magpie_readies_total", "", kind::counter,
     "Times that a waiting goroutine was woken.",
     [](const meters& m) { return number(m.all.readies); }},
    {"/magpie/yields:events", "magpie_yields_total", "", kind::counter,
     "Times that a goroutine let others go first.",
     [](const meters& m) { return number(m.yields); }},
    {"/magpie/steals/attempts:events", "magpie_steal_attempts_total", "", kind::counter,
     "Times that a P looked at another one's queue for work.",
     [](const meters& m) { return number(m.all.steal_attempts); }},
    {"/magpie/steals:events", "magpie_steals_total", "", kind::counter,
     "Times that a P took goroutines from another.",
     [](const meters& m) { return number(m.all.steals); }},
    {"/magpie/steals/goroutines:goroutines", "magpie_stolen_goroutines_total", "", kind::counter,
     "Goroutines taken that way.", [](const meters& m) { return number(m.all.stolen); }},
    {"/magpie/calls:events", "magpie_blocking_calls_total", "", kind::counter,
     "Calls made with blocking().", [](const meters& m) { return number(m.calls); }},
    {"/magpie/hand-offs:events", "magpie_hand_offs_total", "", kind::counter,
     "Ps given on by a thread that was about to block.",
     [](const meters& m) { return number(m.all.hand_offs); }},
    {"/magpie/retakes:events", "magpie_retakes_total", "", kind::counter,
     "Ps taken by the monitor from a thread that blocks.",
     [](const meters& m) { return number(m.all.retakes); }},
    {"/magpie/stalls:events", "magpie_stalls_total", "", kind::counter,
     "Times that a goroutine blocked its thread in code that did not say so, and lost its P.",
     [](const meters& m) { return number(m.stalls); }},
    {"/magpie/preemptions:events", "magpie_preemptions_total", "", kind::counter,
     "Goroutines stopped because their time slice was over.",
     [](const meters& m) { return number(m.all.preemptions); }},
    {"/magpie/polls:events", "magpie_polls_total", "", kind::counter,
     "Times that the kernel was asked which descriptors are ready.",
     [](const meters& m) { return number(m.polls); }},
    {"/magpie/polls/wakeups:events", "magpie_poll_wakeups_total", "", kind::counter,
     "Times that the answer woke somebody.",
     [](const meters& m) { return number(m.all.netpoll_wakeups); }},
    {"/magpie/polls/waiters:goroutines", "magpie_poll_waiters", "", kind::gauge,
     "Goroutines and threads that wait for a descriptor.",
     [](const meters& m) { return number(m.io_waiters); }},
    {"/magpie/timers:timers", "magpie_timers", "", kind::gauge, "Timers that are pending.",
     [](const meters& m) { return number(m.timers); }},
    {"/magpie/timers/fired:events", "magpie_timers_fired_total", "", kind::counter,
     "Timers that have fired.", [](const meters& m) { return number(m.all.timer_fires); }},
    {"/magpie/stacks/in-use:stacks", "magpie_stacks", R"({state="in_use"})", kind::gauge,
     "Stacks of the process: of goroutines or at hand for the next one, and spare.",
     [](const meters& m) { return number(m.stacks_in_use); }},
    {"/magpie/stacks/free:stacks", "magpie_stacks", R"({state="free"})", kind::gauge, "",
     [](const meters& m) { return number(m.stacks_free); }},
    {"/magpie/stacks/reserved:bytes", "magpie_stacks_reserved_bytes", "", kind::gauge,
     "Address space for stacks. Memory is used only where they were touched.",
     [](const meters& m) { return number(m.stack_bytes_reserved); }},
};

constexpr const char* k_latencies = "/sched/latencies:seconds";
constexpr const char* k_latencies_prometheus = "go_sched_latencies_seconds";

// The whole histogram has 160 buckets, most of them empty: one for each power of two is shown, up
// to a little more than a minute.
constexpr int k_last_shown = 29 * latency_histogram::k_parts;

struct latency_view {
  std::vector<std::pair<double, std::uint64_t>> up_to;  // seconds; so many were shorter
  std::uint64_t count = 0;
};

latency_view view_of(const meters& now) {
  latency_view view;
  for (int b = 0; b < latency_histogram::k_buckets; ++b) {
    if (b > 0 && b % latency_histogram::k_parts == 0 && b <= k_last_shown) {
      view.up_to.emplace_back(number(latency_histogram::begin_of(b)) / k_nanos_per_second,
                              view.count);
    }
    view.count += now.latencies[static_cast<std::size_t>(b)];
  }
  return view;
}

// Not known by Go's client in this form: one sample for each P.
struct p_metric {
  const char* name;
  const char* unit;
  const char* prometheus;
  kind type;
  const char* help;
  double (*value)(const p_meters&);
};

constexpr p_metric k_p_metrics[] = {
    {"queued", "goroutines", "magpie_proc_queue_length", kind::gauge,
     "Goroutines that wait for this P.", [](const p_meters& p) { return number(p.queued); }},
    {"turns", "events", "magpie_proc_turns_total", kind::counter,
     "Times that a goroutine began to run here.",
     [](const p_meters& p) { return number(p.turns); }},
};

void head(std::string& out, const char* name, kind type, const char* help) {
  out.append("# HELP ").append(name).append(" ").append(help).append("\n");
  out.append("# TYPE ").append(name);
  out.append(type == kind::gauge ? " gauge\n" : " counter\n");
}

void line(std::string& out, const std::string& name, double value) {
  out.append(name).append(" ").append(number_text(value)).append("\n");
}

void append_latencies(std::string& out, const meters& now) {
  const std::string name = k_latencies_prometheus;
  const latency_view view = view_of(now);
  out.append("# HELP ").append(name);
  out.append(" Time goroutines have spent runnable before they ran. Sampled.\n");
  out.append("# TYPE ").append(name).append(" histogram\n");
  for (const auto& [bound, count] : view.up_to) {
    line(out, name + "_bucket{le=\"" + number_text(bound) + "\"}", number(count));
  }
  line(out, name + "_bucket{le=\"+Inf\"}", number(view.count));
  line(out, name + "_sum", number(now.latency_sum) / k_nanos_per_second);
  line(out, name + "_count", number(view.count));
}

}  // namespace

std::string number_text(double value) {
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof text, value);
  return {text, end.ptr};
}

std::vector<metrics::sample> samples_of(const meters& now) {
  std::vector<metrics::sample> all;
  for (const metric& one : k_metrics) all.push_back({one.name, one.value(now)});
  const std::string latencies = k_latencies;
  const latency_view view = view_of(now);
  for (const auto& [bound, count] : view.up_to) {
    all.push_back({latencies + "{le=" + number_text(bound) + "}", number(count)});
  }
  all.push_back({latencies + "{le=+Inf}", number(view.count)});
  all.push_back({latencies + ".count", number(view.count)});
  all.push_back({latencies + ".sum", number(now.latency_sum) / k_nanos_per_second});
  for (const p_metric& one : k_p_metrics) {
    for (std::size_t i = 0; i < now.ps.size(); ++i) {
      all.push_back({"/magpie/procs/" + std::to_string(i) + "/" + one.name + ":" + one.unit,
                     one.value(now.ps[i])});
    }
  }
  return all;
}

std::string prometheus_text(const meters& now) {
  std::string out;
  std::string before;
  for (const metric& one : k_metrics) {
    if (one.prometheus != before) head(out, one.prometheus, one.type, one.help);
    before = one.prometheus;
    line(out, before + one.labels, one.value(now));
  }
  append_latencies(out, now);
  for (const p_metric& one : k_p_metrics) {
    head(out, one.prometheus, one.type, one.help);
    for (std::size_t i = 0; i < now.ps.size(); ++i) {
      line(out, std::string(one.prometheus) + "{proc=\"" + std::to_string(i) + "\"}",
           one.value(now.ps[i]));
    }
  }
  return out;
}

}  // namespace magpie::rt

namespace magpie::metrics {

std::vector<sample> read() { return rt::samples_of(rt::read_meters()); }
std::string prometheus() { return rt::prometheus_text(rt::read_meters()); }

}  // namespace magpie::metrics
