// public_trace.cpp: the doors of <magpie/trace.h>, and MAGPIE_TRACE.

#include <magpie/trace.h>

#include <cstdlib>
#include <deque>
#include <mutex>
#include <ostream>
#include <string>
#include <system_error>

#include <magpie/blocking.h>
#include <magpie/errors.h>

#include "os/environment.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/fork.h"
#include "os/thread.h"
#include "sched/debug_settings.h"
#include "sched/gate.h"
#include "sched/local.h"
#include "sched/tracing.h"
#include "trace/recorder.h"

namespace magpie::rt {
namespace {

constexpr auto k_header = trace::file_header(trace::k_default_version);

// ---- Files ------------------------------------------------------------------------------------

class file_sink final : public trace::sink {
 public:
  file_sink(os::file_descriptor file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {
    write(k_header);
  }

  void take(const trace::shared_generation& generation) override {
    generation->visit([this](std::span<const std::uint8_t> bytes) { write(bytes); });
  }

  // By the one who ends it.
  void finish() {
    const os::error at_end = file_.close();
    if (!failed_) failed_ = at_end;
    if (failed_) {
      throw std::system_error(failed_.code, std::generic_category(), "write trace " + path_);
    }
  }

 private:
  void write(std::span<const std::uint8_t> bytes) {
    auto rest = std::as_bytes(bytes);
    while (!rest.empty() && !failed_) {
      const auto done = os::write(file_.get(), rest);
      if (!done) {
        failed_ = done.error();
      } else {
        rest = rest.subspan(*done);
      }
    }
  }

  os::file_descriptor file_;
  const std::string path_;
  os::error failed_{};
};

class ostream_sink final : public trace::sink {
 public:
  explicit ostream_sink(std::ostream& to) : to_(to) { write(k_header); }

  void take(const trace::shared_generation& generation) override {
    generation->visit([this](std::span<const std::uint8_t> bytes) { write(bytes); });
  }

  void finish() {
    if (failed_) {
      throw std::system_error(std::make_error_code(std::errc::io_error), "write trace to a stream");
    }
  }

 private:
  void write(std::span<const std::uint8_t> bytes) {
    if (failed_) return;
    try {
      to_.write(reinterpret_cast<const char*>(bytes.data()),
                static_cast<std::streamsize>(bytes.size()));
      failed_ = !to_;
    } catch (...) {
      failed_ = true;
    }
  }

  std::ostream& to_;
  bool failed_ = false;
};

// ---- The one that is being written ------------------------------------------------------------

struct current_trace {
  std::unique_ptr<file_sink> file;
  std::unique_ptr<ostream_sink> stream;
  bool ends_at_exit = false;

  trace::sink* sink() const {
    return file != nullptr ? static_cast<trace::sink*>(file.get()) : stream.get();
  }
};

// Those who start and stop wait for the recorder, and for each other.
constinit std::mutex g_lock;
current_trace& current() {
  static auto* const it = new current_trace;  // the process may end at any time
  return *it;
}

void end_trace() {
  const std::lock_guard hold(g_lock);
  current_trace& it = current();
  if (it.sink() == nullptr) return;
  trace::detach(*it.sink());
  const auto file = std::move(it.file);
  const auto stream = std::move(it.stream);
  if (file != nullptr) file->finish();
  if (stream != nullptr) stream->finish();
}

void end_trace_at_exit() {
  if (os::in_forked_child()) return;
  try {
    const detail::blocking_scope may_wait;
    end_trace();
  } catch (const std::exception& failure) {
    printer out;
    out << "magpie: " << failure.what() << '\n';
  }
}

void begin_trace_locked(current_trace& it) {
  it.sink()->period = debugging().tracegen;
  trace::attach(*it.sink());
  if (!it.ends_at_exit) {
    it.ends_at_exit = true;
    std::atexit(end_trace_at_exit);
  }
}

void check_none_locked(const current_trace& it) {
  if (it.sink() != nullptr) throw misuse("trace::start: a trace is being written already");
}

void start_file(const std::string& path) {
  const std::lock_guard hold(g_lock);
  current_trace& it = current();
  check_none_locked(it);
  auto file = os::open_path(path.c_str(), {.write = true, .create = true, .truncate = true}, 0600);
  // One that was there has kept its own permissions.
  const os::error failed = file ? os::set_permissions_of_file(file->get(), 0600) : file.error();
  if (failed) {
    throw std::system_error(failed.code, std::generic_category(), "open trace " + path);
  }
  it.file = std::make_unique<file_sink>(std::move(*file), path);
  begin_trace_locked(it);
}

}  // namespace

namespace {

// %p is the process: for programs that start others.
std::string with_process_id(std::string path) {
  for (std::size_t at; (at = path.find("%p")) != std::string::npos;) {
    path.replace(at, 2, std::to_string(os::process_id()));
  }
  return path;
}

}  // namespace

// The first runtime of the process is there.
void start_trace_from_environment() {
  static constinit atomic<bool> asked{false};
  if (asked.exchange(true, relaxed)) return;  // relaxed: once, whoever it is
  const char* const path = os::environment("MAGPIE_TRACE");
  if (path == nullptr || *path == '\0') return;
  try {
    start_file(with_process_id(path));
  } catch (const std::system_error& failure) {
    fatal("MAGPIE_TRACE=", path, ": ", failure.what());
  } catch (const misuse&) {
    // The program was quicker.
  }
}

}  // namespace magpie::rt

namespace magpie::trace {

using rt::end_trace;

void start(const std::filesystem::path& path) {
  const detail::blocking_scope may_wait;
  rt::start_file(path.string());
}

void start(std::ostream& to) {
  const detail::blocking_scope may_wait;
  const std::lock_guard hold(rt::g_lock);
  rt::current_trace& it = rt::current();
  rt::check_none_locked(it);
  it.stream = std::make_unique<rt::ostream_sink>(to);
  rt::begin_trace_locked(it);
}

void stop() {
  const detail::blocking_scope may_wait;
  end_trace();
}

bool enabled() noexcept { return rt::trace::on(); }

// ---- What the program says about itself -------------------------------------------------------

namespace {

using rt::G;
using rt::M;

rt::atomic<std::uint64_t> g_ids{0};

std::uint64_t next_id() {
  return g_ids.fetch_add(1, rt::relaxed) + 1;  // relaxed: only distinct numbers are wanted
}

// tell(M&, goroutine, stack) inside the gate; only for a goroutine that runs. The goroutine's extra
// is there.
template <class Tell>
void tell_as(G& g, Tell tell) {
  M* const m = rt::enter();
  if (m == nullptr) return;
  {
    const rt::trace::place at = rt::traced::place_of(g, __builtin_frame_address(0));
    tell(*m, rt::traced::subject(g), at);
  }
  rt::leave(m);
}

G* traced_goroutine() { return enabled() ? rt::current_g() : nullptr; }

void log_in(std::uint64_t task, std::string_view category, std::string_view message) {
  G* const g = traced_goroutine();
  if (g == nullptr) return;
  if (task == 0 && g->extra != nullptr) task = g->extra->task;
  tell_as(*g, [&](M& m, const rt::trace::goroutine& self, const rt::trace::place& at) {
    m.trace.log(m.p->trace, self, task, category, message, at);
  });
}

}  // namespace

task::task(std::string_view type) {
  G* const g = traced_goroutine();
  if (g == nullptr) return;
  rt::goroutine_extra& extra = rt::extra_of(*g);
  tell_as(*g, [&](M& m, const rt::trace::goroutine& self, const rt::trace::place& at) {
    id_ = next_id();
    outer_ = extra.task;
    m.trace.task_begin(m.p->trace, self, id_, outer_, type, at);
    extra.task = id_;
  });
}

task::~task() {
  if (id_ == 0) return;
  G* const g = rt::current_g();
  if (g == nullptr) return;
  if (g->extra != nullptr && g->extra->task == id_) g->extra->task = outer_;
  if (!enabled()) return;
  tell_as(*g, [&](M& m, const rt::trace::goroutine& self, const rt::trace::place& at) {
    m.trace.task_end(m.p->trace, self, id_, at);
  });
}

region::region(std::string_view type) {
  if (enabled()) begin(0, type);
}

region::region(const task& of, std::string_view type) {
  if (enabled()) begin(of.id(), type);
}

// A reader wants the ends in the order of a stack. One that comes out of order, or on another
// goroutine, is not told; neither are those of the regions around it.
void region::begin(std::uint64_t task, std::string_view type) {
  G* const g = rt::current_g();
  if (g == nullptr) return;
  rt::goroutine_extra& extra = rt::extra_of(*g);
  type_ = type;
  task_ = task != 0 ? task : extra.task;
  tell_as(*g, [&](M& m, const rt::trace::goroutine& self, const rt::trace::place& at) {
    if (!m.trace.region_begin(m.p->trace, self, task_, type_, at)) return;
    id_ = next_id();
    goroutine_ = g->id;
    outer_ = extra.region;
    extra.region = id_;
  });
}

region::~region() {
  if (id_ == 0) return;
  G* const g = rt::current_g();
  if (g == nullptr || g->id != goroutine_ || g->extra->region != id_) return;
  bool told = !enabled();  // then there is nobody to be misled
  tell_as(*g, [&](M& m, const rt::trace::goroutine& self, const rt::trace::place& at) {
    told |= m.trace.region_end(m.p->trace, self, task_, type_, at) || !enabled();
  });
  if (told) g->extra->region = outer_;
}

void log(std::string_view category, std::string_view message) { log_in(0, category, message); }
void log(const task& of, std::string_view category, std::string_view message) {
  log_in(of.id(), category, message);
}

// ---- The flight recorder ----------------------------------------------------------------------

class flight_recorder::memory final : public rt::trace::sink {
 public:
  memory(duration min_age, std::size_t max_bytes)
      : min_age_(std::max(min_age, duration::zero())), max_bytes_(max_bytes) {
    // Several of them should fit, so that little is lost when the oldest one goes.
    largest = max_bytes / 4;
  }

  void take(const rt::trace::shared_generation& generation) override {
    const std::lock_guard hold(lock_);
    kept_.push_back({generation, rt::os::now()});
    bytes_ += generation->memory();
    const rt::os::nanos oldest = rt::os::now() - min_age_.count();
    // One that ended before `oldest` is not needed. Two are kept whatever their size: the last one
    // may have just begun, when somebody asks.
    while (kept_.size() > 2 && (kept_.front().ended < oldest || bytes_ > max_bytes_)) {
      bytes_ -= kept_.front().bytes->memory();
      kept_.pop_front();
    }
  }

  void write_to(std::ostream& to) {
    std::deque<piece> all;
    {
      const std::lock_guard hold(lock_);
      all = kept_;
    }
    to.write(reinterpret_cast<const char*>(rt::k_header.data()), rt::k_header.size());
    for (const piece& each : all) {
      each.bytes->visit([&to](std::span<const std::uint8_t> bytes) {
        to.write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
      });
    }
  }

  void forget() {
    const std::lock_guard hold(lock_);
    kept_.clear();
    bytes_ = 0;
  }

  bool runs = false;  // under control
  std::mutex control;

 private:
  struct piece {
    rt::trace::shared_generation bytes;
    rt::os::nanos ended;
  };

  const duration min_age_;
  const std::size_t max_bytes_;
  std::mutex lock_;
  std::deque<piece> kept_;
  std::size_t bytes_ = 0;
};

flight_recorder::flight_recorder(duration min_age, std::size_t max_bytes)
    : memory_(std::make_unique<memory>(min_age, max_bytes)) {}

flight_recorder::~flight_recorder() { stop(); }

void flight_recorder::start() {
  const detail::blocking_scope may_wait;
  const std::lock_guard hold(memory_->control);
  if (memory_->runs) throw misuse("flight_recorder::start: it runs already");
  memory_->period = rt::debugging().tracegen;
  rt::trace::attach(*memory_);
  memory_->runs = true;
}

void flight_recorder::stop() {
  const detail::blocking_scope may_wait;
  const std::lock_guard hold(memory_->control);
  if (!memory_->runs) return;
  rt::trace::detach(*memory_);
  memory_->runs = false;
  memory_->forget();
}

bool flight_recorder::enabled() const noexcept {
  const std::lock_guard hold(memory_->control);
  return memory_->runs;
}

void flight_recorder::write_to(std::ostream& to) {
  const detail::blocking_scope may_wait;
  const std::lock_guard hold(memory_->control);
  if (!memory_->runs) throw misuse("flight_recorder::write_to: it does not run");
  rt::trace::cut();
  memory_->write_to(to);
}

}  // namespace magpie::trace
