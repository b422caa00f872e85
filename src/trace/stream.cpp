#include "trace/stream.h"

#include <algorithm>
#include <atomic>
#include <iterator>

#include "base/check.h"
#include "os/clock.h"
#include "os/code.h"
#include "os/thread.h"
#include "trace/recorder.h"

namespace magpie::rt::trace {

constinit session_state g_session;
namespace {

constinit atomic<describe_goroutine> g_describe{nullptr};
constinit atomic<look_at_goroutine> g_look{nullptr};

goroutine_facts facts_of(const goroutine& g) {
  return g_describe.load(relaxed)(g.record);  // relaxed: set before there is any goroutine
}

}  // namespace

void set_description(describe_goroutine describe, look_at_goroutine look) {
  g_describe.store(describe, relaxed);  // relaxed: as above; all runtimes set the same
  g_look.store(look, relaxed);          // as above
}

look_at_goroutine how_to_look() { return g_look.load(relaxed); }  // relaxed: as above

namespace {

constexpr std::uint64_t as_status(belief b) {
  switch (b) {
    case belief::runnable:
      return static_cast<std::uint64_t>(g_status::runnable);
    case belief::waiting:
      return static_cast<std::uint64_t>(g_status::waiting);
    case belief::syscall:
      return static_cast<std::uint64_t>(g_status::syscall);
    default:
      return static_cast<std::uint64_t>(g_status::running);
  }
}

}  // namespace

// ---- Sections ---------------------------------------------------------------------------------

class [[nodiscard]] stream::section {
 public:
  enum class clock {
    fresh,
    same_moment,  // as the event before, if that has said so
  };
  explicit section(stream& s, clock which = clock::fresh) : s_(s) {
    s.writing_.store(true, relaxed);  // relaxed: the fence orders it
    os::light_fence();
    // acquire: the tables of the generation are ready.
    const std::uint64_t generation = g_session.generation.load(acquire);
    open_ = generation != 0;
    if (!open_) return;
    if (!s.moment_lasts_ || which == clock::fresh) s.now_ = os::ticks();
    s.moment_lasts_ = false;
    if (s.generation_ != generation) [[unlikely]]
      s.begin_generation(generation);
  }
  ~section() { s_.writing_.store(false, release); }  // pairs with wait_until_outside()
  section(const section&) = delete;
  section& operator=(const section&) = delete;

  // False: the trace has ended meanwhile.
  explicit operator bool() const { return open_; }

 private:
  stream& s_;
  bool open_;
};

stream::stream(std::uint64_t thread) : thread_(thread) { add_stream(*this); }
stream::~stream() { remove_stream(*this); }

void stream::next_buffer() {
  slot& to = *to_;
  if (to.in != nullptr) {
    to.in->size = to.out.finish().size();
    push_finished(to.in);
  }
  to.in = take_buffer();
  to.in->generation = generation_;
  to.out.begin_events(to.in->memory(), generation_, thread_, now_);
}

template <event kind, class... Numbers>
void stream::write(Numbers... numbers) {
  // Nothing fits into a batch that has not begun.
  while (!to_->out.template write<kind>(now_, numbers...)) next_buffer();
}

// The first section of the thread in this generation: what is bound to it is listed, unless the
// recorder has done that in its name.
void stream::begin_generation(std::uint64_t generation) {
  const std::uint64_t first = g_session.first.load(relaxed);  // relaxed: as the generation
  const bool new_session = generation_ < first;
  generation_ = generation;
  names_ = g_session.of_generation[generation & 1];
  for (known_stack& known : known_stacks_) known.count = 0;
  to_ = &slots_[generation & 1];
  if (new_session) {
    bind_p(nullptr);
    bind_g(nullptr, false);
    listed_.store(generation, release);  // pairs with claim_listing()
    return;
  }
  std::uint64_t before = listed_.load(relaxed);  // relaxed: to be compared
  // acq_rel: see claim_listing(). relaxed: as above.
  const bool won =
      before < generation && listed_.compare_exchange_strong(before, generation, acq_rel, acquire);
  const bool in_call = in_call_.load(relaxed);  // relaxed: own, both
  const std::uint64_t id = bound_g_.load(relaxed);
  if (p_ != nullptr) {
    if (won) {
      write<event::proc_status>(p_->number, in_call ? p_status::syscall : p_status::running);
    }
    p_->mark.set({generation, in_call ? belief::syscall : belief::running, 0});
  }
  if (g_ != nullptr) {
    const belief state = in_call ? belief::syscall : belief::running;
    if (won) write<event::go_status>(id, thread_, as_status(state));
    g_->set({generation, state, 0});
  }
}

void stream::bind_p(proc* p) {
  p_ = p;
  bound_p_.store(p != nullptr ? p->number : k_no_proc, relaxed);  // relaxed: see claim_listing()
}

void stream::bind_g(const goroutine* g, bool in_call) {
  g_ = g != nullptr ? g->mark : nullptr;
  bound_g_.store(g != nullptr ? g->id : 0, relaxed);  // relaxed: see claim_listing(), both
  in_call_.store(in_call, relaxed);
}

// What is read here is true if the compare-and-swap succeeds: the thread changes it only after its
// own, which then fails and sees this one.
bool stream::claim_listing(std::uint64_t generation, bound& out) {
  std::uint64_t before = listed_.load(acquire);  // pairs with the thread's
  // relaxed: written before the trace began.
  if (before >= generation || before < g_session.first.load(relaxed)) return false;
  out.thread = thread_;
  out.proc = bound_p_.load(relaxed);  // relaxed, all three: see above
  out.g = bound_g_.load(relaxed);
  out.in_call = in_call_.load(relaxed);
  // acq_rel: see above. relaxed: nothing follows.
  if (!listed_.compare_exchange_strong(before, generation, acq_rel, relaxed)) return false;
  return out.proc != k_no_proc || out.g != 0;
}

void stream::wait_until_outside() const {
  while (writing_.load(acquire)) os::yield_thread();  // pairs with the end of a section
}

void stream::flush(std::uint64_t generation) {
  slot& from = slots_[generation & 1];
  if (from.in == nullptr || from.in->generation != generation) return;
  from.in->size = from.out.finish().size();
  push_finished(from.in);
  from = {};
}

// ---- Names ------------------------------------------------------------------------------------

// As walk() would find it: the same frames, and no more.
bool stream::known_stack::is_at(const place& at) const {
  if (count == 0) return false;
  std::size_t i = 0;
  if (at.pc != 0 && at.pc != frames[i++]) return false;
  frame_chain chain(at);
  for (; i < count; ++i, chain.go_up()) {
    if (!chain.more() || chain.pc() != frames[i]) return false;
  }
  return !chain.more() || !os::is_code(chain.pc());
}

// Of a stack that is too deep the first frames are kept and the last ones, among which is the one
// that names the goroutine.
void stream::known_stack::walk(const place& at) {
  os::code_look code;
  count = 0;
  if (at.pc != 0) frames[count++] = at.pc;
  for (frame_chain chain(at); chain.more() && code.is_code(chain.pc()); chain.go_up()) {
    if (count == std::size(frames)) {
      constexpr std::size_t k_last = 8;
      std::copy(std::end(frames) - k_last + 1, std::end(frames), std::end(frames) - k_last);
      --count;
    }
    frames[count++] = chain.pc();
  }
}

std::uint32_t stream::stack_of_chain(const place& at) {
  const auto depth = static_cast<const char*>(at.high) - static_cast<const char*>(at.frame);
  known_stack& known = known_by(static_cast<std::uintptr_t>(depth));
  if (!known.is_at(at)) {
    known.walk(at);
    known.id = names_->stack({known.frames, known.count});
  }
  return known.id;
}

std::uint32_t stream::stack_of_one(std::uintptr_t frame) {
  known_stack& known = known_by(frame);
  if (known.count != 1 || known.frames[0] != frame) {
    known.count = 1;
    known.frames[0] = frame;
    known.id = names_->stack({&frame, 1});
  }
  return known.id;
}

// One frame: what names the goroutine in all tools.
std::uint32_t stream::name_of(const goroutine_facts& facts) {
  if (!facts.name.empty()) return names_->stack_named(facts.name);
  const std::uintptr_t frame = frame_naming(facts);
  return frame != 0 ? stack_of_one(frame) : 0;
}

// ---- Bringing the reader's belief in line -----------------------------------------------------

bool stream::is_first() const {
  return generation_ == g_session.first.load(relaxed);  // relaxed: as the generation
}

// What the reader believes, once it has heard of `g` in this generation.
std::uint64_t stream::introduce(const goroutine& g, mark_value& is) {
  const std::uint64_t first = g_session.first.load(relaxed);  // relaxed: as the generation
  for (;;) {
    const std::uint64_t word = g.mark->load();
    is = mark::unpack(word);
    if (is.generation < first) is.state = belief::nothing;
    if (is.generation == generation_ || is.state <= belief::unborn) return word;
    if (!g.mark->claim(word, {generation_, is.state, 0})) continue;
    // With its name: the generations before this one may be gone.
    const goroutine_facts facts = foreign_ ? goroutine_facts{} : facts_of(g);
    write<event::go_status_stack>(g.id, k_nobody, as_status(is.state), name_of(facts));
    is = {generation_, is.state, 0};
    return 0;
  }
}

// The reader comes to believe that this thread holds `p`.
void stream::hold(proc& p) {
  if (p_ == &p) [[likely]]
    return;
  const std::uint64_t first = g_session.first.load(relaxed);  // relaxed: as the generation
  for (;;) {
    const std::uint64_t word = p.mark.load();
    const mark_value is = mark::unpack(word);
    if (is.generation < first) {
      if (!p.mark.claim(word, {generation_, belief::running, 0})) continue;
      write<event::proc_status>(p.number, p_status::running);
      break;
    }
    if (is.generation != generation_) {
      if (!p.mark.claim(word, {generation_, belief::idle, 0})) continue;
      write<event::proc_status>(p.number, p_status::idle);
      continue;
    }
    p.mark.set({generation_, belief::running, is.sequence + 1});
    write<event::proc_start>(p.number, is.sequence + 1);
    break;
  }
  bind_p(&p);
}

// `before`: what it is, if the reader has never heard of it.
void stream::make_runnable(const goroutine& g, belief before) {
  for (;;) {
    mark_value is;
    const std::uint64_t word = introduce(g, is);
    if (is.state == belief::nothing && is_first()) {
      if (!g.mark->claim(word, {generation_, before, 0})) continue;
      write<event::go_status_stack>(g.id, k_nobody, as_status(before), name_of(facts_of(g)));
      continue;
    }
    if (is.state <= belief::unborn) {
      const goroutine_facts facts = foreign_ ? goroutine_facts{} : facts_of(g);
      g.mark->set({generation_, belief::runnable, 0});
      write<event::go_create>(g.id, name_of(facts),
                              facts.spawned != 0 ? stack_of_one(facts.spawned) : 0);
    } else if (is.state == belief::waiting) {
      g.mark->set({generation_, belief::runnable, is.sequence + 1});
      write<event::go_unblock>(g.id, is.sequence + 1, 0);
    }
    return;
  }
}

void stream::start_runnable(const goroutine& g) {
  const mark_value is = mark::unpack(g.mark->load());
  g.mark->set({generation_, belief::running, is.sequence + 1});
  write<event::go_start>(g.id, is.sequence + 1);
  bind_g(&g, false);
}

// The reader comes to believe that this thread runs `g` on `p`.
void stream::run(proc& p, const goroutine& g) {
  hold(p);
  if (g_ != g.mark) [[unlikely]] {
    mark_value is;
    const std::uint64_t word = introduce(g, is);
    if (is.state == belief::nothing && is_first() &&
        g.mark->claim(word, {generation_, belief::running, 0})) {
      const goroutine_facts facts = foreign_ ? goroutine_facts{} : facts_of(g);
      write<event::go_status_stack>(g.id, thread_, g_status::running, name_of(facts));
      bind_g(&g, false);
    } else {
      make_runnable(g, belief::runnable);
      start_runnable(g);
    }
  }
  // relaxed: whoever exchanges it tells.
  if (g_session.procs_told.load(relaxed) != generation_) [[unlikely]]
    tell_procs();
}

void stream::tell_procs() {
  // relaxed: a number that is told again when it has changed.
  if (g_session.procs_told.exchange(generation_, relaxed) == generation_) return;
  write<event::procs_change>(g_session.procs.load(relaxed), 0);  // relaxed: as above
}

// ---- Ps ---------------------------------------------------------------------------------------

void stream::proc_start(proc& p) {
  const section open(*this);
  if (!open) return;
  // relaxed: own.
  MAGPIE_DCHECK(!in_call_.load(relaxed), "a P is taken before the end of the call is told");
  hold(p);
}

void stream::proc_stop(proc& p) {
  const section open(*this);
  if (!open || p_ != &p) return;
  const mark_value is = mark::unpack(p.mark.load());
  p.mark.set({generation_, belief::idle, is.sequence});
  write<event::proc_stop>();
  bind_p(nullptr);
}

void stream::proc_steal(proc& p) {
  const section open(*this);
  if (!open || p_ != &p) return;
  const mark_value is = mark::unpack(p.mark.load());
  p.mark.set({generation_, belief::idle, is.sequence + 1});
  write<event::proc_steal>(p.number, is.sequence + 1, thread_);
  bind_p(nullptr);
}

// ---- Goroutines -------------------------------------------------------------------------------

void stream::go_start(proc& p, const goroutine& g) {
  const section open(*this, section::clock::same_moment);
  if (!open) return;
  hold(p);
  make_runnable(g, belief::runnable);
  start_runnable(g);
}

void stream::go_block(proc& p, const goroutine& g, text reason, const place& at) {
  const section open(*this);
  if (!open) return;
  run(p, g);
  const mark_value is = mark::unpack(g.mark->load());
  g.mark->set({generation_, belief::waiting, is.sequence});
  write<event::go_block>(reason, stack_of(at));
  bind_g(nullptr, false);
  moment_lasts_ = true;
}

void stream::go_stop(proc& p, const goroutine& g, text reason, const place& at) {
  const section open(*this);
  if (!open) return;
  run(p, g);
  const mark_value is = mark::unpack(g.mark->load());
  g.mark->set({generation_, belief::runnable, is.sequence});
  write<event::go_stop>(reason, stack_of(at));
  bind_g(nullptr, false);
  moment_lasts_ = true;
}

void stream::go_destroy(proc& p, const goroutine& g) {
  const section open(*this);
  if (!open) return;
  run(p, g);
  g.mark->set({generation_, belief::nothing, 0});
  write<event::go_destroy>();
  bind_g(nullptr, false);
  moment_lasts_ = true;
}

void stream::go_create(proc& p, const goroutine* self, const goroutine& made, const place& at) {
  const section open(*this);
  if (!open) return;
  self != nullptr ? run(p, *self) : hold(p);
  const goroutine_facts facts = facts_of(made);
  made.mark->set({generation_, belief::runnable, 0});
  write<event::go_create>(made.id, name_of(facts), stack_of(at));
}

void stream::go_unblock(const goroutine& g, const place& at) {
  const bool lasts = moment_lasts_;
  const section open(*this, section::clock::same_moment);
  if (!open) return;
  for (;;) {
    mark_value is;
    const std::uint64_t word = introduce(g, is);
    if (is.state == belief::nothing && is_first()) {
      if (!g.mark->claim(word, {generation_, belief::waiting, 0})) continue;
      write<event::go_status_stack>(g.id, k_nobody, g_status::waiting, name_of(facts_of(g)));
      continue;
    }
    // Otherwise the recorder has listed it as runnable already; or the reader has never heard of
    // it, and hears of it when it starts.
    if (is.state != belief::waiting) return;
    g.mark->set({generation_, belief::runnable, is.sequence + 1});
    write<event::go_unblock>(g.id, is.sequence + 1, stack_of(at));
    moment_lasts_ = lasts;
    return;
  }
}

// ---- Blocking calls ---------------------------------------------------------------------------

void stream::syscall_begin(proc& p, const goroutine& g, const place& at) {
  const section open(*this);
  if (!open) return;
  run(p, g);
  const mark_value its = mark::unpack(p.mark.load());
  const mark_value is = mark::unpack(g.mark->load());
  p.mark.set({generation_, belief::syscall, its.sequence + 1});
  g.mark->set({generation_, belief::syscall, is.sequence});
  write<event::go_syscall_begin>(its.sequence + 1, stack_of(at));
  bind_g(&g, true);
}

void stream::syscall_end(proc& p, const goroutine& g) {
  const section open(*this);
  if (!open) return;
  if (g_ != g.mark || p_ != &p) return run(p, g);
  p.mark.set({generation_, belief::running, mark::unpack(p.mark.load()).sequence});
  g.mark->set({generation_, belief::running, mark::unpack(g.mark->load()).sequence});
  write<event::go_syscall_end>();
  bind_g(&g, false);
}

void stream::syscall_end_blocked(const goroutine& g) {
  const section open(*this);
  if (!open || g_ != g.mark) return;
  g.mark->set({generation_, belief::runnable, mark::unpack(g.mark->load()).sequence});
  write<event::go_syscall_end_blocked>();
  bind_g(nullptr, false);
}

void stream::found_asleep(proc& p, const goroutine& g) {
  foreign_ = true;
  syscall_begin(p, g, {});
  proc_steal(p);
  foreign_ = false;
}

void stream::found_running(proc& p, const goroutine& g) {
  foreign_ = true;
  {
    const section open(*this);
    if (open) run(p, g);
  }
  foreign_ = false;
}

// ---- What the program says about itself -------------------------------------------------------

void stream::go_label(proc& p, const goroutine& g, std::string_view name) {
  const section open(*this);
  if (!open) return;
  run(p, g);
  write<event::go_label>(names_->text_id(name));
}

void stream::task_begin(proc& p, const goroutine& g, std::uint64_t task, std::uint64_t parent,
                        std::string_view type, const place& at) {
  const section open(*this);
  if (!open) return;
  run(p, g);
  write<event::task_begin>(task, parent, names_->text_id(type), stack_of(at));
}

void stream::task_end(proc& p, const goroutine& g, std::uint64_t task, const place& at) {
  const section open(*this);
  if (!open) return;
  run(p, g);
  write<event::task_end>(task, stack_of(at));
}

// A region without a name cannot be told: readers want both ends to have the same.
template <event kind>
bool stream::region(proc& p, const goroutine& g, std::uint64_t task, std::string_view type,
                    const place& at) {
  const section open(*this);
  if (!open) return false;
  run(p, g);
  const std::uint64_t id = names_->text_id(type);
  if (id == 0) return false;
  write<kind>(task, id, stack_of(at));
  return true;
}

bool stream::region_begin(proc& p, const goroutine& g, std::uint64_t task, std::string_view type,
                          const place& at) {
  return region<event::region_begin>(p, g, task, type, at);
}

bool stream::region_end(proc& p, const goroutine& g, std::uint64_t task, std::string_view type,
                        const place& at) {
  return region<event::region_end>(p, g, task, type, at);
}

void stream::log(proc& p, const goroutine& g, std::uint64_t task, std::string_view category,
                 std::string_view message, const place& at) {
  const section open(*this);
  if (!open) return;
  run(p, g);
  write<event::log>(task, names_->log_text_id(category), names_->log_text_id(message),
                    stack_of(at));
}

// ---- Threads that have no stream --------------------------------------------------------------

namespace {

constinit os::lock g_outside_lock{os::lock_rank::trace_outside};

stream& shared_stream() {
  static stream* const shared = new stream(k_nobody);  // for as long as there is a thread
  return *shared;
}

}  // namespace

void prepare_outside_stream() { (void)shared_stream(); }

outside_stream::outside_stream() { g_outside_lock.acquire(); }
outside_stream::~outside_stream() { g_outside_lock.release(); }
stream* outside_stream::operator->() const { return &shared_stream(); }

}  // namespace magpie::rt::trace
