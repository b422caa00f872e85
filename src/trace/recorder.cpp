#include "trace/recorder.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <optional>

#include "base/check.h"
#include "os/code.h"
#include "os/fence.h"
#include "os/futex.h"
#include "os/note.h"
#include "os/thread.h"
#include "trace/frame_names.h"

namespace magpie::rt::trace {
namespace {

// How often the recorder looks whether the generation has become large.
constexpr os::nanos k_look = 50'000'000;

constinit os::lock g_streams_lock{os::lock_rank::trace_streams};
constinit os::lock g_sources_lock{os::lock_rank::trace_sources};
constinit intrusive_list<stream, &stream::links> g_streams;
constinit intrusive_list<source, &source::links> g_sources;

constinit os::lock g_numbers_lock{os::lock_rank::leaf};
enum class number_state : std::uint8_t {
  free,
  used,
  spent,  // in the trace that is being written
};
constinit number_state g_numbers[1 << 16] = {};

}  // namespace

void add_stream(stream& s) {
  const os::lock_guard hold(g_streams_lock);
  g_streams.push_back(&s);
}

// What it has written is not lost.
void remove_stream(stream& s) {
  const os::lock_guard hold(g_streams_lock);
  g_streams.remove(&s);
  // The recorder may be about to ask for the one before.
  s.flush(s.last_generation() - 1);
  s.flush(s.last_generation());
}

void add_source(source& s) {
  const os::lock_guard hold(g_sources_lock);
  g_sources.push_back(&s);
}

void remove_source(source& s) {
  const os::lock_guard hold(g_sources_lock);
  g_sources.remove(&s);
}

std::uint32_t take_proc_number() {
  const os::lock_guard hold(g_numbers_lock);
  const auto* const found =
      std::find(std::begin(g_numbers), std::end(g_numbers), number_state::free);
  if (found == std::end(g_numbers)) fatal("more Ps than a trace can number");
  const auto number = static_cast<std::uint32_t>(found - std::begin(g_numbers));
  g_numbers[number] = number_state::used;
  return number;
}

void give_back_proc_number(std::uint32_t number) {
  const os::lock_guard hold(g_numbers_lock);
  g_numbers[number] = on() ? number_state::spent : number_state::free;
}

void change_procs(int difference) {
  g_session.procs.fetch_add(difference, relaxed);  // relaxed: numbers, both
  g_session.procs_told.store(0, relaxed);
}

// ---- The bytes of a generation ----------------------------------------------------------------

generation_bytes::~generation_bytes() {
  for (const piece& each : pieces_) {
    if (each.whole != nullptr) give_back(each.whole);
  }
}

void generation_bytes::add(std::span<const std::uint8_t> more) {
  if (pieces_.empty() || pieces_.back().whole != nullptr) pieces_.emplace_back();
  std::vector<std::uint8_t>& to = pieces_.back().copied;
  to.insert(to.end(), more.begin(), more.end());
  memory_ += more.size();
}

void generation_bytes::add(buffer* b) {
  if (b->size > sizeof(b->bytes) / 4 * 3) {
    pieces_.push_back({.whole = b});
    memory_ += buffer::k_size;
  } else {
    add(b->batch());
    give_back(b);
  }
}

// ---- The recorder -----------------------------------------------------------------------------

namespace {

// Writes batches that the recorder itself brings, and begins another when one is full.
class table_writer {
 public:
  explicit table_writer(generation_bytes& to) : to_(to) {}

  // `begin(writer, memory)` begins a batch; `put(writer)` is false when it does not fit.
  template <class Begin, class Put>
  void add(Begin begin, Put put) {
    if (!std::exchange(begun_, true)) begin(out_, memory_);
    if (put(out_)) return;
    to_.add(out_.finish());
    begin(out_, memory_);
    put(out_);
  }
  void end() {
    if (begun_) to_.add(out_.finish());
    begun_ = false;
  }

 private:
  generation_bytes& to_;
  bool begun_ = false;
  batch_writer out_;
  std::array<std::uint8_t, k_max_batch_payload> memory_;
};

class recorder final : lister {
 public:
  explicit recorder(std::uint64_t generation) : generation_(generation) {}

  void begin_session() {
    os::note_code();
    for (tables*& each : g_session.of_generation) {
      if (each == nullptr) each = tables::make();
      each->clear();
    }
    {
      const os::lock_guard hold(g_numbers_lock);
      std::replace(std::begin(g_numbers), std::end(g_numbers), number_state::spent,
                   number_state::free);
    }
    first_ = generation_;
    g_session.first.store(generation_, relaxed);  // relaxed: the generation publishes it
    make_known(generation_);
    {
      const os::lock_guard hold(g_sources_lock);
      for (source* s = g_sources.front(); s != nullptr; s = g_sources.next(s)) s->find_runners();
    }
    begin_generation();
  }

  // `next` 0: the trace ends. Returns the bytes of the one that ends.
  shared_generation end_generation(std::uint64_t next) {
    make_known(next);
    collect();
    write_tables();
    shared_generation done = std::exchange(bytes_, std::make_shared<generation_bytes>());
    if (next != 0) {
      generation_ = next;
      begin_generation();
    }
    return done;
  }

  // What every generation begins with must not make it so.
  bool is_larger_than(std::uint64_t limit) const {
    return bytes_finished() - bytes_before_ > limit + 4 * listed_bytes_;
  }

 private:
  static void make_known(std::uint64_t generation) {
    g_session.generation.store(generation, release);  // pairs with the acquire of a section
    os::heavy_fence();
  }

  // What the streams have written in this generation. After that nobody touches its tables.
  void collect() {
    {
      const os::lock_guard hold(g_streams_lock);
      for (stream* s = g_streams.front(); s != nullptr; s = g_streams.next(s)) {
        s->wait_until_outside();
        s->flush(generation_);
      }
    }
    buffer* more = take_finished();
    while (more != nullptr) {
      buffer* const b = more;
      more = b->next;
      (b->generation == generation_ ? now_ : later_).push_back(b);
    }
    for (buffer* const b : now_) bytes_->add(b);
    now_.clear();
    std::swap(now_, later_);  // they belong to the next one
  }

  // Its clock, and all that nobody may speak of in this generation. Before what others write.
  void begin_generation() {
    bytes_before_ = bytes_finished();
    listed_bytes_ = 0;
    started_ = os::ticks();
    std::uint8_t sync[k_max_sync_batch];
    const clock_reading clock{os::ticks_per_second(), started_, 0, 0, 0};
    bytes_->add({sync, write_sync(sync, k_default_version, generation_, clock)});
    list_bound();
    table_writer listed(*bytes_);
    listing_ = &listed;
    {
      const os::lock_guard hold(g_sources_lock);
      for (source* s = g_sources.front(); s != nullptr; s = g_sources.next(s)) s->list(*this);
    }
    listed.end();
    listing_ = nullptr;
  }

  // In the name of the threads that have what is listed.
  void list_bound() {
    const os::lock_guard hold(g_streams_lock);
    for (stream* s = g_streams.front(); s != nullptr; s = g_streams.next(s)) {
      stream::bound has;
      if (!s->claim_listing(generation_, has)) continue;
      batch_writer out;
      std::array<std::uint8_t, k_min_batch_memory> memory;
      out.begin_events(memory, generation_, has.thread, started_);
      if (has.proc != stream::k_no_proc) {
        out.write<event::proc_status>(started_, has.proc,
                                      has.in_call ? p_status::syscall : p_status::running);
      }
      if (has.g != 0) {
        out.write<event::go_status>(started_, has.g, has.thread,
                                    has.in_call ? g_status::syscall : g_status::running);
      }
      bytes_->add(out.finish());
    }
  }

  bool is_known(const mark_value& is) const {
    return is.generation >= first_ && is.state > belief::unborn;
  }

  template <event kind, class... Numbers>
  void list(Numbers... numbers) {
    listed_bytes_ += 8;
    listing_->add(
        [&](batch_writer& out, std::span<std::uint8_t> memory) {
          out.begin_events(memory, generation_, k_nobody, started_);
        },
        [&](batch_writer& out) { return out.write<kind>(started_, numbers...); });
  }

  void goroutine(mark& m, std::uint64_t id, belief state, const void* record) override {
    const std::uint64_t word = m.load();
    const mark_value is = mark::unpack(word);
    if (is.generation == generation_) return;
    const bool known = is_known(is);
    // One that is not known by now is introduced when it starts.
    if (!known &&
        (generation_ != first_ || (is.generation >= first_ && is.state != belief::nothing)))
      return;
    if (known) state = is.state;
    if (state != belief::runnable && state != belief::waiting) return;  // its thread's business
    if (!m.claim(word, {generation_, state, 0})) return;
    const auto status = state == belief::runnable ? g_status::runnable : g_status::waiting;
    list<event::go_status_stack>(id, k_nobody, status, name_of(record));
  }

  std::uint32_t name_of(const void* record) const {
    char for_name[k_longest_name];
    const goroutine_facts facts = how_to_look()(record, for_name);
    if (!facts.name.empty()) return names().stack_named(facts.name);
    const std::uintptr_t frame = frame_naming(facts);
    return frame != 0 ? names().stack({&frame, 1}) : 0;
  }

  void proc(trace::proc& p, bool idle) override {
    const std::uint64_t word = p.mark.load();
    const mark_value is = mark::unpack(word);
    if (is.generation == generation_) return;
    if (is_known(is)) idle = is.state == belief::idle;
    if (!idle || !p.mark.claim(word, {generation_, belief::idle, 0})) return;
    list<event::proc_status>(p.number, p_status::idle);
  }

  tables& names() const { return *g_session.of_generation[generation_ & 1]; }

  void write_tables() {
    generation_texts texts;
    names().visit_texts([&](std::uint64_t id, std::string_view chars) { texts.note(id, chars); });
    names().visit_stacks(
        [&](std::uint32_t, std::span<const std::uint64_t> words) { frame_names_.want(words); });
    frame_names_.look_up();
    table_writer stacks(*bytes_);
    const std::uint64_t now = os::ticks();
    names().visit_stacks([&](std::uint32_t id, std::span<const std::uint64_t> words) {
      const std::vector<frame> frames = frame_names_.resolve(words, texts);
      stacks.add(
          [&](batch_writer& out, std::span<std::uint8_t> memory) {
            out.begin_stacks(memory, generation_, now);
          },
          [&](batch_writer& out) { return out.write_stack(id, frames); });
    });
    stacks.end();
    table_writer strings(*bytes_);
    texts.visit([&](std::uint64_t id, std::string_view chars) {
      strings.add(
          [&](batch_writer& out, std::span<std::uint8_t> memory) {
            out.begin_strings(memory, generation_, now);
          },
          [&](batch_writer& out) { return out.write_string(id, chars); });
    });
    strings.end();
    names().clear();
  }

  std::uint64_t generation_;
  std::uint64_t first_ = 0;
  std::uint64_t started_ = 0;
  std::uint64_t bytes_before_ = 0;
  std::uint64_t listed_bytes_ = 0;
  std::shared_ptr<generation_bytes> bytes_ = std::make_shared<generation_bytes>();
  table_writer* listing_ = nullptr;
  std::vector<buffer*> now_, later_;
  frame_names frame_names_;
};

// ---- Who asks for what ------------------------------------------------------------------------

struct request {
  enum class kind {
    attach,
    detach,
    cut
  } what;
  sink* who = nullptr;
  os::note done{};
};

constinit std::mutex g_control;  // one who asks at a time
constinit os::futex_word g_asked{0};
constinit atomic<request*> g_request{nullptr};
constinit atomic<bool> g_runs{false};
constinit atomic<os::thread_id> g_recorder{0};
std::uint64_t g_last_generation = 0;  // of all sessions; the recorder's, and under g_control
os::thread* g_thread = nullptr;       // under g_control; may run until the process ends
sink* g_first_sink = nullptr;         // what the recorder starts with

// What save_before_death() and the recorder say to each other.
enum death : std::uint32_t {
  k_alive,
  k_dying,
  k_saved,
};
constinit os::futex_word g_death{k_alive};

bool is_asked() {
  // pairs with ask() and save_before_death(), both
  return g_request.load(acquire) != nullptr || g_death.load(acquire) == k_dying;
}

void wait_for_request(os::nanos until, std::uint64_t largest, const recorder& self) {
  while (!is_asked()) {
    const os::nanos now = os::now();
    const bool is_over = g_death.load(relaxed) == k_saved;  // relaxed: its own
    if (!is_over && (now >= until || self.is_larger_than(largest))) return;
    const std::uint32_t seen = g_asked.load(acquire);  // pairs with ask()
    if (is_asked()) return;
    os::futex_wait(g_asked, seen, is_over ? os::k_never : std::min(until, now + k_look));
  }
}

void tell_saved() {
  g_death.store(k_saved, release);  // pairs with save_before_death()
  os::futex_wake(&g_death, 1);
}

void recorder_main(void* started) {
  g_recorder.store(os::current_thread_id(), relaxed);  // relaxed: see save_before_death()
  std::vector<sink*> sinks{g_first_sink};
  recorder self(++g_last_generation);
  self.begin_session();
  static_cast<os::note*>(started)->wake();
  while (!sinks.empty()) {
    os::nanos period = os::k_never;
    std::uint64_t largest = ~std::uint64_t{0};
    for (const sink* s : sinks) {
      period = std::min(period, s->period);
      largest = std::min(largest, s->largest);
    }
    wait_for_request(os::now() + period, largest, self);
    const bool dying = g_death.load(acquire) == k_dying;          // pairs with save_before_death()
    request* const asked = g_request.exchange(nullptr, acquire);  // pairs with ask()
    const std::vector<sink*> takers = sinks;
    if (asked != nullptr && asked->what == request::kind::detach) std::erase(sinks, asked->who);
    if (asked != nullptr && asked->what == request::kind::attach) sinks.push_back(asked->who);
    const shared_generation done = self.end_generation(sinks.empty() ? 0 : ++g_last_generation);
    for (sink* s : takers) s->take(done);
    if (asked != nullptr) asked->done.wake();
    if (dying) tell_saved();
  }
}

void ask(request& wish) {
  g_request.store(&wish, release);  // pairs with the recorder's
  g_asked.fetch_add(1, release);    // as above
  os::futex_wake(&g_asked, 1);
  wish.done.wait();
}

}  // namespace

void attach(sink& s) {
  const std::lock_guard hold(g_control);
  if (g_runs.load(relaxed)) {  // relaxed: under the lock
    request wish{request::kind::attach, &s};
    return ask(wish);
  }
  prepare_outside_stream();
  auto kept = std::make_unique<os::thread>();  // before there is one: it may throw
  g_first_sink = &s;
  os::note started{};
  auto thread = os::thread::start(recorder_main, &started, {.name = "magpie-trace"});
  if (!thread)
    fatal("cannot start the thread \"magpie-trace\" (", os::error_name(thread.error()), ")");
  *kept = std::move(*thread);
  g_thread = kept.release();
  g_runs.store(true, relaxed);  // relaxed: a number for reports
  started.wait();
}

void detach(sink& s) {
  const std::lock_guard hold(g_control);
  request wish{request::kind::detach, &s};
  ask(wish);
  if (on()) return;  // for another sink
  g_thread->join();
  delete g_thread;
  g_runs.store(false, relaxed);  // relaxed: as above
}

void cut() {
  const std::lock_guard hold(g_control);
  request wish{request::kind::cut};
  ask(wish);
}

void save_before_death(os::nanos patience) {
  // relaxed: who does not see the recorder yet has nothing in its files; nobody but the recorder
  // finds its own number there.
  if (!g_runs.load(relaxed) || g_recorder.load(relaxed) == os::current_thread_id()) return;
  const os::nanos deadline = os::now() + patience;
  std::uint32_t was = k_alive;
  // acq_rel: the recorder finds all events of this thread. relaxed: somebody else has asked.
  if (!g_death.compare_exchange_strong(was, k_dying, acq_rel, relaxed)) return;
  g_asked.fetch_add(1, release);  // pairs with wait_for_request()
  os::futex_wake(&g_asked, 1);
  while (g_death.load(acquire) == k_dying) {  // pairs with tell_saved()
    if (os::futex_wait(g_death, k_dying, deadline) == os::futex_outcome::timed_out) return;
  }
}

int recorder_threads() { return g_runs.load(relaxed) ? 1 : 0; }  // relaxed: as above

}  // namespace magpie::rt::trace
