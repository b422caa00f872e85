// start.cpp: a runtime starts, its threads come and go, and it ends.
//
// Threads are made by a thread of its own, the spawner: making one allocates, and may wait for a
// lock of libc whose holder waits for us. Nobody waits for the spawner.

#include <algorithm>
#include <new>
#include <utility>

#include "fiber/sanitizer.h"
#include "os/environment.h"
#include "os/fence.h"
#include "os/random.h"
#include "os/signal.h"
#include "sched/current.h"
#include "sched/debug_settings.h"
#include "sched/idle.h"
#include "sched/local.h"
#include "sched/outside.h"
#include "sched/report.h"
#include "sched/scheduler.h"
#include "sched/service.h"

namespace magpie::rt {
namespace {

stack_pool& shared_stacks() {
  static stack_pool* const pool = new stack_pool;  // goroutines may run until the process ends
  return *pool;
}

std::uint64_t next_trace_number() {
  static constinit atomic<std::uint64_t> next{0};
  return next.fetch_add(1, relaxed);  // relaxed: only distinct numbers are wanted
}

constexpr std::size_t k_thread_stack = 256 * 1024;  // an M's own: looks for work, sleeps

[[noreturn]] void cannot_start(const char* name, os::error why) {
  fatal("cannot start the thread \"", name, "\" (", os::error_name(why),
        "): is there a limit on processes (ulimit -u, pids.max of the cgroup)?");
}

// A thread that was refused is asked for again after so long, while it would have work: often the
// limit was reached by others, for a moment. Without a single thread the runtime gives up after so
// many refusals.
constexpr os::nanos k_refusal_lasts = 10'000'000;
constexpr int k_most_refusals = 100;

// One that the runtime cannot do without.
os::thread start_thread(os::thread::body body, void* argument, const char* name) {
  for (int refusals = 1;; ++refusals) {
    auto thread = os::thread::start(body, argument, {.name = name, .stack_size = k_thread_stack});
    if (thread) return std::move(*thread);
    if (refusals == k_most_refusals) cannot_start(name, thread.error());
    os::futex_word nobody{0};
    os::futex_wait(nobody, 0, os::now() + k_refusal_lasts);
  }
}

}  // namespace

scheduler::scheduler(const config& wanted, runtime* face)
    : settings(wanted), facade(face), stacks(shared_stacks()), trace_number_(next_trace_number()) {
  install_reports();
  runtime_uses_service();
  os::watch_forks();
  rings_refused_.store(wanted.io == io_backend::epoll, relaxed);  // relaxed: no thread yet
  follows_cpus_.store(wanted.procs == 0, relaxed);                // relaxed: no thread yet
  resize(wanted.procs > 0 ? wanted.procs : os::usable_cpus(quota_files_));
  join_traces();
  start_preempting();
  spawner_ = start_thread(spawner_main, this, "magpie-spawner");
  if (!debugging().nosysmon) monitor_ = start_thread(monitor_main, this, "magpie-monitor");
  join_registry();
  start_trace_from_environment();
}

scheduler::~scheduler() {
  leave_registry();
  leave_traces();
  trace::change_procs(-procs());
  runtime_leaves_service();
  for (int i = 0; i < ps_made_.load(relaxed); ++i) {  // relaxed: no thread any more
    // relaxed: as above. Whoever waited for a file has ended.
    if (file_ring* const ring = ps_[i]->ring.load(relaxed)) ring->destroy();
    trace::give_back_proc_number(ps_[i]->trace.number);
    ps_[i]->~P();
    (void)os::unmap({ps_[i], sizeof(P)});
  }
  free_arenas();
}

// ---- Threads ----------------------------------------------------------------------------------

// A P for which there is no idle M. Somebody who was stopped does not need one.
void scheduler::request_thread_locked(P* p, bool spinning) {
  if (M* const stopped = pop_stopped_elsewhere_locked(nullptr, 1)) {
    if (spinning) spinning_.fetch_sub(1, relaxed);  // relaxed: counts only, see idle.cpp
    stopped->handed_p = p;
    request_spare_locked();
    return stopped->wake.wake();
  }
  if (!count_new_thread_locked()) return rest_without_thread_locked(p, spinning);
  wishes_[wish_count_++] = {p, spinning};
}

// An M to have at hand when somebody is stopped.
void scheduler::request_spare_locked() {
  if (!spare_is_coming_ && !stopping_) spare_is_coming_ = count_new_thread_locked();
}

bool scheduler::count_new_thread_locked() {
  if (threads_ >= settings.max_threads) return false;
  ++threads_;
  if (threads_ > threads_peak_) threads_peak_ = threads_;
  ++threads_to_make_;
  wake_spawner();
  return true;
}

// Null: no P waits for its thread.
P* scheduler::take_wished_p_locked() {
  if (wish_count_ == 0) return nullptr;
  const thread_wish wish = wishes_[--wish_count_];
  if (wish.spinning) spinning_.fetch_sub(1, relaxed);  // relaxed: counts only, see idle.cpp
  return wish.p;
}

// The same, but none that is to be given up.
P* scheduler::take_usable_wished_p_locked() {
  for (int i = 0; i < wish_count_; ++i) {
    if (wishes_[i].p->retired.load(relaxed)) continue;  // relaxed: written under the lock
    std::swap(wishes_[i], wishes_[wish_count_ - 1]);
    return take_wished_p_locked();
  }
  return nullptr;
}

// There can be no more threads: the P rests, and what it had to run waits in the global queue.
// Threads come back from their calls, or run out of work, and take both. But one who sleeps until
// the goroutine that is locked to it has its turn does neither: it gets the P for that.
void scheduler::rest_without_thread_locked(P* p, bool spinning) {
  if (spinning) spinning_.fetch_sub(1, relaxed);  // relaxed: counts only, see idle.cpp
  // relaxed: written under the lock. By the time the thread was refused the P may be one too many.
  if (p->retired.load(relaxed)) return rest_retired_locked(p);
  goroutine_queue rest;
  p->queue.drain_into(rest);
  global_.push_all(rest);
  if (hand_to_locked_sleeper_locked(p)) return;
  put_idle_locked(p);
  call_stand_in_locked();
}

// False: nobody who is locked to a thread waits for a P.
bool scheduler::hand_to_locked_sleeper_locked(P* p) {
  G* const g = locked_sleepers_ != 0 ? global_.pop_locked() : nullptr;
  if (g == nullptr) return false;
  M* const owner = g->extra->locked_to;
  owner->handed_p = p;
  owner->wake.wake();
  return true;
}

void scheduler::wake_spawner() {
  spawner_word_.fetch_add(1, release);  // pairs with the acquire in spawner_main
  os::futex_wake(&spawner_word_, 1);
}

void scheduler::spawner_main(void* raw) {
  auto& self = *static_cast<scheduler*>(raw);
  for (;;) {
    const std::uint32_t seen = self.spawner_word_.load(acquire);  // pairs with wake_spawner()
    if (!self.grant_wishes()) return;
    const os::nanos ask_again_at = self.ask_again_at_.load(relaxed);  // relaxed: its own
    os::futex_wait(self.spawner_word_, seen, std::min(self.stand_in(), ask_again_at));
    if (os::now() < ask_again_at) continue;
    self.ask_again_at_.store(os::k_never, relaxed);  // relaxed: see nobody_can_watch_locked()
    if (self.last_look() != visible_work::none) self.wake_p();
  }
}

// False: the runtime ends and all threads have.
bool scheduler::grant_wishes() {
  for (;;) {
    thread_slot* ended = nullptr;
    int id = 0;  // 0: nobody is wanted
    bool finished = false;
    {
      const os::lock_guard hold(lock_);
      ended = ended_;
      ended_ = nullptr;
      if (threads_to_make_ > 0) {
        --threads_to_make_;
        id = ++next_m_id_;
      }
      finished = stopping_ && threads_ == 0;
    }
    const bool some_ended = ended != nullptr;
    while (ended != nullptr) {
      thread_slot* const slot = ended;
      ended = slot->next;
      slot->thread.join();
      delete slot;
    }
    if (id != 0) start_m_thread(id);
    // At the limit of threads somebody's work may have waited for one to end.
    if (some_ended && last_look() != visible_work::none) wake_p();
    if (id == 0 && !some_ended) return !finished;
  }
}

void scheduler::start_m_thread(int id) {
  auto* const slot = new thread_slot{this, id, {}, nullptr};
  sanitizer::is_no_leak(slot);
  auto thread =
      os::thread::start(thread_main, slot, {.name = "magpie", .stack_size = k_thread_stack});
  if (thread) {
    slot->thread = std::move(*thread);
    slot->known.wake();
    refusals_ = 0;
    return;
  }
  delete slot;
  // relaxed: see nobody_can_watch_locked().
  ask_again_at_.store(os::now() + k_refusal_lasts, relaxed);
  const os::lock_guard hold(lock_);
  if (--threads_ == 0 && ++refusals_ == k_most_refusals) cannot_start("magpie", thread.error());
  spare_is_coming_ = false;
  if (wish_count_ == 0) return;
  const thread_wish wish = wishes_[--wish_count_];
  const sleeper one = pop_sleeper_locked();
  if (one.m == nullptr) return rest_without_thread_locked(wish.p, wish.spinning);
  wake_sleeper(one, wish.p, wish.spinning);  // has fallen asleep since the wish
}

// For a new thread: the P it was wished for, unless somebody has taken it meanwhile.
void scheduler::take_wish(M& m) {
  const os::lock_guard hold(lock_);
  all_ms_.push_back(&m);
  if (wish_count_ == 0) {
    spare_is_coming_ = false;  // this is it
    return;
  }
  const thread_wish wish = wishes_[--wish_count_];
  acquire_p(m, wish.p);
  m.spinning = wish.spinning;
}

void scheduler::thread_main(void* raw) {
  auto* const slot = static_cast<thread_slot*>(raw);
  scheduler& home = *slot->home;
  {
    const os::alternate_stack for_signals;
    os::wake_calling_thread_on_time();
    M m(home, slot->id, home.settings.seed + static_cast<std::uint64_t>(slot->id));
    set_current_m(&m);
    home.open_to_preemption(m);
    home.take_wish(m);
    home.run_loop(m);
    if (m.p != nullptr) home.hand_off_p(home.release_p(m));
    home.close_to_preemption(m);
    set_current_m(nullptr);
    delete m.left_extra;
    const os::lock_guard hold(home.lock_);
    home.all_ms_.remove(&m);
  }
  slot->known.wait();  // until the spawner has filled in the thread to be joined
  {
    const os::lock_guard hold(home.lock_);
    --home.threads_;
    slot->next = home.ended_;
    home.ended_ = slot;
    home.wake_spawner();  // under the lock: the spawner may end the runtime right after
  }
}

// ---- The end ----------------------------------------------------------------------------------

namespace {

// Between two looks whether every goroutine has ended: from the first to the longest.
constexpr os::nanos k_first_pause = 200'000;
constexpr os::nanos k_longest_pause = 10'000'000;

}  // namespace

void scheduler::shut_down() {
  // Ends are not announced: that would cost every goroutine something. So it is asked.
  note_outside_thread();
  outside_wait_begins();
  os::futex_word nobody{0};
  for (;;) {
    for (os::nanos pause = k_first_pause; live_goroutines() != 0;) {
      os::futex_wait(nobody, 0, os::now() + pause);
      pause = std::min(2 * pause, k_longest_pause);
    }
    // A timer may have started one since; from here on none does.
    pause_timers();
    if (live_goroutines() == 0) break;
    resume_timers();
  }
  outside_wait_ends();
  {
    const os::lock_guard hold(lock_);
    stopping_ = true;
    end_sleepers_locked();
  }
  wake_spawner();
  spawner_.join();
  monitor_ends_.store(true, release);  // pairs with the acquire in monitor_main
  wake_monitor();
  if (monitor_.joinable()) monitor_.join();
}

}  // namespace magpie::rt

// gdb loads this script from the program itself, so that it is there whenever debug information is.
// In a file that every program needs, or a static library would leave it out.
#if defined(MAGPIE_GDB_SCRIPT)
asm(".pushsection \".debug_gdb_scripts\", \"MS\", %progbits, 1\n"
    ".byte 4\n"  // a script in Python, in full
    ".ascii \"magpie-gdb.py\\n\"\n"
    ".incbin \"" MAGPIE_GDB_SCRIPT
    "\"\n"
    ".byte 0\n"
    ".popsection");
#endif
