// public.cpp: the doors of the public headers that lead to the scheduler.

#include <cerrno>
#include <cstring>
#include <exception>
#include <new>

#include <magpie/blocking.h>
#include <magpie/errors.h>
#include <magpie/runtime.h>

#include "os/environment.h"
#include "os/random.h"
#include "os/thread.h"
#include "sched/arena.h"
#include "sched/defaults.h"
#include "sched/gate.h"
#include "sched/local.h"
#include "sched/tracing.h"

namespace magpie {

using namespace rt;

namespace {

// `m`: the caller's, as enter() gave it.
G& new_goroutine(const destination& to, M* m, std::size_t stack_size, const void* site) {
  G* const g = to.home.new_g(to.m);
  const G* const parent = m != nullptr ? m->current : current_g();  // null inside blocking()
  origin_of(*g).parent = parent != nullptr ? parent->id : 0;
  store_for_lookers(g->spawn_site, site);
  g->size_class = stack_size == 0 ? to.home.default_class() : class_for(stack_size);
  return *g;
}

void check_stack_size(std::size_t size) {
  if (class_for(size) == k_no_class) throw misuse("go: no stack can be that large");
}

void leave_if(M* m) {
  if (m != nullptr) leave(m);
}

}  // namespace

// ---- Spawning ---------------------------------------------------------------------------------

namespace detail {

void spawn_copy(const spawn_request& request, const task_type& task, const void* closure,
                std::size_t size) {
  check_stack_size(request.stack_size);
  goroutine_extra* const extra =
      request.name.empty() ? nullptr : new goroutine_extra{std::string(request.name)};
  M* const m = enter();
  const destination to = find_destination(request.where, m);
  G& g = new_goroutine(to, m, request.stack_size, __builtin_return_address(0));
  g.extra = extra;
  std::memcpy(g.closure, closure, size);
  g.task = &task;
  to.home.spawn(to.m, &g);
  leave_if(m);
}

void go_of_nil() noexcept { fatal("go of nil func value"); }

// Two words: the address, or the place in the table of virtual ones; and what to add to `this`. The
// lowest bit says which, in the first word, or in the second where code may be at odd addresses.
code_address code_of_member(const void* pointer) noexcept {
  std::uintptr_t words[2];
  std::memcpy(words, pointer, sizeof words);
#if defined(__aarch64__)
  const bool is_virtual = (words[1] & 1) != 0;
#else
  const bool is_virtual = (words[0] & 1) != 0;
#endif
  return {is_virtual ? nullptr : reinterpret_cast<const void*>(words[0])};
}

G* begin_spawn(const spawn_request& request) {
  check_stack_size(request.stack_size);
  goroutine_extra* const extra =
      request.name.empty() ? nullptr : new goroutine_extra{std::string(request.name)};
  M* const m = enter();
  const destination to = find_destination(request.where, m);
  G& g = new_goroutine(to, m, request.stack_size, __builtin_return_address(0));
  g.extra = extra;
  leave_if(m);
  return &g;
}

void* closure_of(G* g) noexcept { return g->closure; }

void destroy_locals(void* closure) noexcept {
  // The G around it, which is aligned to its size.
  const auto at = reinterpret_cast<std::uintptr_t>(closure) & ~(alignof(G) - 1);
  G& g = *reinterpret_cast<G*>(at);
  if (g.extra != nullptr) rt::destroy_locals(g);
}

void finish_spawn(G* g, const task_type& task) noexcept {
  M* const m = enter();
  const destination to = find_destination(&scheduler::home_of(g), m);
  g->task = &task;
  to.home.spawn(to.m, g);
  leave_if(m);
}

void cancel_spawn(G* g) noexcept {
  if (g->extra != nullptr) drop_extra(*g);
  M* const m = enter();
  const destination to = find_destination(&scheduler::home_of(g), m);
  to.home.free_g(to.m, g);
  leave_if(m);
}

scheduler* start_default(const config& settings) { return &start_default_scheduler(settings); }

// ---- Blocking ---------------------------------------------------------------------------------

blocking_scope::blocking_scope() : m_(nullptr) {
  M* const m = enter();
  if (m == nullptr) return;
  m->in_call = true;
  m->scheduler_.enter_syscall(*m, calling_frame(), __builtin_return_address(0));
  m_ = m;
}

blocking_scope::blocking_scope(hand_off_now_t) : m_(nullptr) {
  M* const m = enter();
  if (m == nullptr) return;
  m->in_call = true;
  m->handed_off_at = 0;
  m->scheduler_.enter_syscall_without_p(*m, calling_frame());
  m_ = m;
}

// errno is the thread's; the goroutine may go on on another one.
blocking_scope::~blocking_scope() {
  if (m_ == nullptr) return;
  M* m = static_cast<M*>(m_);
  const int error = errno;
  m->in_call = false;
  m = m->scheduler_.exit_syscall(*m);
  leave(m);
  os::set_errno(error);
}

}  // namespace detail

// ---- The runtime ------------------------------------------------------------------------------

runtime::runtime(config settings) : scheduler_(new scheduler(with_defaults(settings), this)) {}

runtime::~runtime() {
  if (M* const m = current_m(); m != nullptr && &m->scheduler_ == scheduler_) {
    fatal("a runtime destroyed by one of its own goroutines: it would wait for itself");
  }
  if (os::in_forked_child()) return;  // its threads are not here: there is nobody to wait for
  scheduler_->shut_down();
  delete scheduler_;
}

namespace rt {
scheduler& scheduler_of(const runtime& r) { return *r.scheduler_; }
}  // namespace rt

int runtime::procs() const { return scheduler_->procs(); }
int runtime::set_procs(int n) { return scheduler_->set_procs(n); }
stats runtime::read_stats() const { return scheduler_->read_stats(); }

runtime& runtime::current() {
  M* const m = current_m();
  return m != nullptr ? *m->scheduler_.facade : default_runtime();
}

int procs() { return runtime::current().procs(); }
int set_procs(int n) { return runtime::current().set_procs(n); }
std::size_t goroutine_count() { return runtime::current().read_stats().goroutines; }

int cpu_count() {
  static const int at_start = os::usable_cpus();
  return at_start;
}

namespace {
[[maybe_unused]] const int g_counted_at_start = cpu_count();
}

// ---- Thread locks -----------------------------------------------------------------------------

thread_lock::thread_lock() {
  G* const g = current_g();
  if (g == nullptr) return;
  goroutine_extra& extra = extra_of(*g);
  if (extra.lock_depth++ != 0) return;
  M* const m = enter();  // null inside blocking(), where the thread is settled anyway
  extra.locked_to = current_m();
  g->locked = true;
  leave_if(m);
}

thread_lock::~thread_lock() {
  G* const g = current_g();
  if (g == nullptr || --g->extra->lock_depth != 0) return;
  M* const m = enter();
  g->locked = false;
  g->extra->locked_to = nullptr;
  leave_if(m);
}

// ---- Critical sections ------------------------------------------------------------------------

no_preempt::no_preempt() noexcept {
  if (G* const g = current_g()) {
    MAGPIE_CHECK(g->unstoppable != UINT16_MAX, "no_preempt nested too deeply");
    ++g->unstoppable;
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);  // before what follows, for the handler
}

no_preempt::~no_preempt() {
  std::atomic_signal_fence(std::memory_order_seq_cst);  // after what came before
  G* const g = current_g();
  if (g != nullptr && --g->unstoppable == 0) this_goroutine::checkpoint();
}

// ---- This goroutine ---------------------------------------------------------------------------

namespace this_goroutine {

std::uint64_t id() noexcept {
  const G* const g = current_g();
  return g != nullptr ? g->id : 0;
}

std::string_view name() noexcept {
  const G* const g = current_g();
  return g != nullptr && g->extra != nullptr ? std::string_view(g->extra->name)
                                             : std::string_view();
}

void set_name(std::string_view name) {
  G* const g = current_g();
  if (g == nullptr) return;
  const no_preempt whole;  // a dump may read the name of one that was stopped
  extra_of(*g).name = name;
  M* const m = enter();
  if (m == nullptr) return;
  trace_name(*m, *g);
  leave(m);
}

void yield() {
  M* m = enter();
  if (m == nullptr) return os::yield_thread();
  m = m->scheduler_.yield(m);
  leave(m);
}

// A gate, but only for those who have a reason to go through it.
void checkpoint() {
  M* const m = current_m();
  if (m == nullptr || m->in_call) return;
  // relaxed: what is missed now is seen the next time.
  if (m->yield_requested.load(relaxed) || m->retake.load(relaxed)) scheduler::checkpoint();
}

void exit() {
  if (!is_goroutine()) throw misuse("this_goroutine::exit: this is a plain thread");
  throw detail::goroutine_exit();
}

bool is_goroutine() noexcept { return current_g() != nullptr; }

}  // namespace this_goroutine

}  // namespace magpie
