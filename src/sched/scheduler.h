// One runtime: its Ps, its Ms and the verbs that move goroutines. Each station of a goroutine's
// trip is a file of its own:
//
//   spawn.cpp     birth and death          schedule.cpp     who runs next
//   park.cpp      wait, wake, yield        steal.cpp        from whom to take
//   join.cpp      wait for another's end   idle.cpp         sleep and wake of Ms: the essay
//   syscall.cpp   blocking calls           sysmon.cpp       the monitor
//   resize.cpp    the number of Ps         start.cpp        threads; start and end of a runtime
//   deadlock.cpp  nobody can move          thread_lock.cpp  a goroutine that stays on its thread
//   timers.cpp    who looks after them     waiting.cpp      in an object, with others
//   runners.cpp   who runs for too long    takeover.cpp     Ps of threads that sleep
//   polling.cpp   who asks the poller      preempt.cpp      stopped at any instruction
//   stalls.cpp    what is said about threads that sleep
//   turn.h        from one goroutine to the next, inlined
//   tracing.cpp   what a trace is told about all that
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <magpie/runtime.h>

#include "base/atomic.h"
#include "fiber/stack_pool.h"
#include "os/clock.h"
#include "os/cpu.h"
#include "os/fork.h"
#include "os/lock.h"
#include "os/mapped_text.h"
#include "os/note.h"
#include "os/thread_view.h"
#include "poll/poller.h"
#include "sched/call_history.h"
#include "sched/global_queue.h"
#include "sched/m.h"
#include "sched/p.h"
#include "trace/recorder.h"

namespace magpie::rt {

inline constexpr int k_most_procs = 1024;

// A timer that is late by so much while every P is in use is the monitor's business.
inline constexpr os::nanos k_timer_slack = 200'000;
// ... and when those who have the Ps have had no turn for a while.
inline constexpr os::nanos k_short_timer_slack = 20'000;
inline constexpr os::nanos k_longest_timer_look = 2'000'000;

// Between two looks for a deadlock while nothing moves: from the first to the longest.
inline constexpr os::nanos k_first_check = 1'000'000;
inline constexpr os::nanos k_longest_check = 1'000'000'000;

class printer;
class wake_list;
class snapshot;
struct meters;

// Where a G was allocated; found from its address.
struct g_arena;

namespace testing {
class waste_meter;
}

// The line at `address`, which is mapped, is needed at once. A load whose result nobody waits for:
// where the pages are cold, too, a run of prefetches took half as long again (Zen 4). With
// sanitizers a prefetch, because they would look at the load.
[[gnu::always_inline]] inline void fetch_line(std::uintptr_t address) {
  const auto* const line = reinterpret_cast<const volatile char*>(address);
  if constexpr (sanitizer::k_address || sanitizer::k_thread) {
    __builtin_prefetch(const_cast<const char*>(line));
  } else {
    (void)*line;
  }
}

// The same, needed soon: what comes after it is not held up. Nothing happens where nothing is
// mapped. Inlined by force, like the others here: g++ finds that prefetches have no effect, and
// drops such functions.
[[gnu::always_inline]] inline void prefetch_line(std::uintptr_t address) {
  __builtin_prefetch(reinterpret_cast<const void*>(address), 1);
}

// The frames that one who stopped with this stack pointer comes back to: the first ones of its
// stack, if they are on the same page.
template <void (*Fetch)(std::uintptr_t)>
[[gnu::always_inline]] inline void fetch_frames_at(const void* stack_pointer) {
  constexpr std::uintptr_t k_page = 4096;  // or more; the frames of interest are within this
  const auto at = reinterpret_cast<std::uintptr_t>(stack_pointer);
  const std::uintptr_t end = (at | (k_page - 1)) + 1;
  // finish_switch() calls somebody at once. But the page below may be the guard.
  const std::uintptr_t first_call = std::max(at - 48, end - k_page);
  for (std::uintptr_t line = first_call; line < at + 4 * k_cache_line; line += k_cache_line) {
    Fetch(line < end ? line : end - 1);
  }
  for (std::uintptr_t line = end - 3 * k_cache_line; line != end; line += k_cache_line) {
    Fetch(line);
  }
}

// For one that has waited for long, and goes on at once: its frames, and the stack's record, for
// when it ends. The caller owns it.
[[gnu::always_inline]] inline void fetch_frames(const G& g) {
  if (g.fiber.stack == nullptr) return __builtin_prefetch(&g, 1);
  fetch_line(reinterpret_cast<std::uintptr_t>(g.fiber.stack));
  fetch_frames_at<fetch_line>(g.fiber.registers.stack_pointer);
}

class scheduler final : private trace::source {
 public:
  scheduler(const config&, runtime* facade);
  ~scheduler();  // after shut_down()
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  // ---- spawn.cpp ----

  // A dead G to put a closure into. With a P (m not null) or from any thread.
  G* new_g(M* m);
  // Makes it runnable: the child runs next on this P, the parent goes on.
  void spawn(M* m, G* g);
  // In two steps, for timers: from the first on it counts as alive, so that the runtime does not
  // end. Either of the others follows.
  void announce_spawn() { spawned_outside_.fetch_add(1, relaxed); }  // relaxed: see stats.cpp
  void spawn_announced(M* m, G* g);
  void withdraw_spawn() { spawned_outside_.fetch_sub(1, relaxed); }  // as above
  void free_g(M* m, G* g);
  size_class default_class() const { return class_for(settings.stack_size); }
  static scheduler& home_of(const G* g);
  // For the end of the process, in builds with AddressSanitizer.
  void show_closures_to_leak_check();

  // ---- park.cpp ----

  // The running goroutine waits. `commit` runs after its stack was left: it makes the waiting
  // known to whoever will call ready(), and may refuse. Returns on the M it was woken on.
  M* park(M* m, wait_reason, park_commit commit, void* argument);
  // The same in two steps, where nothing can be refused: `finish` finds the argument in M::leaving.
  // For those who would rather not have a frame of ours on their stack while they wait.
  void begin_wait(M* m, wait_reason, void (*finish)(M&), void* argument);
  M* switch_away(M* m, G* g) noexcept;
  // A waiting goroutine becomes runnable. m: the caller's M in this runtime, or null.
  void ready(M* m, G* g);
  // The same for several, which are in the state runnable already.
  enum class wake_policy {
    wake_others,
    keep_here,  // for as long as this P gets on with them; see polling.cpp
  };
  void ready_all(M* m, G* const* woken, std::size_t count, wake_policy = wake_policy::wake_others);
  // Others on this P get their turn first.
  M* yield(M* m);
  // The same, not by the goroutine's wish: it does not care for those in the global queue.
  M* yield_unasked(M* m);
  // It has had at once what it could have had to wait for, from a disk: it may yield.
  M* end_quick_call(M* m);
  // Its time slice is over: it goes to the end of the line.
  M* give_way(M* m);
  // Outside the gate: the same, if it was asked to.
  static void checkpoint() noexcept;

  // ---- join.cpp ----

  // Runs the goroutine that would finish `end` right here, on the caller's stack, if it is next
  // and has not started. False: it is not, and nothing happened.
  bool run_inline(M*& m, const detail::meeting* end);

  // ---- schedule.cpp ----

  // What an M does on its own stack, until the runtime ends or the thread is not needed.
  void run_loop(M& m);
  bool run(M& m, G* g);

  // ---- idle.h, idle.cpp ----

  // Work became visible in a ring or in the global queue: is one more thread worth waking?
  void wake_p();
  void start_m(P* p, bool spinning);
  // Whether some P besides the caller's runs goroutines: a hint for those who spin for one.
  bool others_run() const {
    // relaxed: numbers that change all the time.
    return procs() - idle_count_.load(relaxed) - spinning_.load(relaxed) > 1;
  }

  // ---- syscall.cpp ----

  // `caller`: the frame that makes the call, which stays as it is meanwhile; for dumps.
  void enter_syscall(M& m, const context& caller, const void* site);
  void enter_syscall_without_p(M& m, const context& caller);  // known to be long
  M* exit_syscall(M& m);
  // Finds an M, work or rest for a P that nobody holds.
  void hand_off_p(P* p);

  // ---- preempt.cpp ----

  // Somebody who must not wait was made runnable just now, under urgent_wakes, while every P is in
  // use: the goroutine that has run for longest makes room. From a thread without a P.
  void urge(os::nanos now);

  // ---- takeover.cpp ----

  // The gate's: the P of the caller's M was taken, or is about to be.
  M* enter_without_p(M* m);

  // ---- resize.cpp ----

  int set_procs(int count);
  int procs() const { return procs_.load(relaxed); }  // relaxed: a number, nothing follows

  // ---- start.cpp ----

  // Waits until every goroutine has ended, then ends every thread. From plain threads only.
  void shut_down();

  // ---- timers.cpp ----

  // m: the caller's M in this runtime, or null. See timer_heap::add(); false: refused.
  bool add_timer(M* m, timer& t, timer_heap::agreement = nullptr, void* argument = nullptr);

  // ---- polling.cpp ----

  // Before the first descriptor is handed to the poller.
  os::error start_poller();
  // Around every wait for a descriptor. m: the caller's M in this runtime, or null.
  void io_wait_begins(M* m);
  void io_wait_ends(M* m);
  std::uint64_t io_waiters() const;
  // Under the descriptor's lock.
  os::error arm_guest_locked(poll_desc&);
  // The ring of the caller's P, made if need be; null: files must do without. Inside the gate.
  file_ring* ring_for_files(M& m);
  // Under the ring's lock.
  static void collect_locked(file_ring&, wake_list&);

  // ---- snapshot.cpp ----

  // About the present, as the monitor knows it: some milliseconds old. Any thread.
  os::nanos coarse_now() const { return coarse_now_.load(relaxed); }  // relaxed: a number

  // ---- stats.cpp ----

  std::uint64_t live_goroutines() const;
  stats read_stats() const;

  // ---- meters.cpp ----

  meters read_meters() const;

 private:
  // What a new thread starts with; made and freed by the spawner.
  struct thread_slot {
    scheduler* home;
    int id;
    os::thread thread;
    thread_slot* next = nullptr;
    os::note known{};  // `thread` is filled in
  };
  struct thread_wish {
    P* p;
    bool spinning;
  };

  // turn.h
  static G* next_local(M& m, stack* left = nullptr);
  static run_queue::popped pop_local(M& m);
  static void begin_turn(M& m, G* g, bool inherits_slice);

  // schedule.cpp
  run_queue::popped find_runnable(M& m);
  static G* pop_newest_child(M& m);
  run_queue::popped from_global_queue_when_urged(M& m);
  run_queue::popped from_global_queue_for_fairness(M& m);
  run_queue::popped from_local_queue(M& m);
  run_queue::popped from_global_queue_after_loot(M& m);
  run_queue::popped from_global_queue(M& m, std::size_t most);

  // steal.cpp
  void begin_loot(M& m, std::size_t count, const P* victim);
  void judge_loot(P& p);
  std::uint64_t turns_of_others(const P& thief, const P* victim) const;
  std::uint64_t progress_of_all(const P* but = nullptr) const;
  bool others_get_on(P& p) const;
  std::size_t appetite(P& p) const;
  void rest_held_back(int looks);
  G* steal_work(M& m, std::size_t most);
  G* steal_forgotten(M& m);

  // idle.cpp
  enum class visible_work {
    none,
    in_run_next_only,  // will be run where it is, most likely
    stealable,
  };
  void put_idle_locked(P* p);
  P* take_idle_p_locked();
  void acquire_p(M& m, P* p);
  P* release_p(M& m);
  bool may_spin() const;
  void become_spinning(M& m);
  void stop_spinning(M& m);
  run_queue::popped while_spinning(M& m);
  bool sleep_until_work(M& m);
  bool give_up_p(M& m);
  visible_work last_look() const;
  bool wait_for_p(M& m, os::nanos deadline);
  bool take_p_back(M& m);
  bool nobody_watches();
  void end_sleepers_locked();
  void wake_one();
  // One that sleeps, taken off the list: to be woken when the lock is released.
  struct sleeper {
    M* m = nullptr;
    bool watches = false;
  };
  sleeper pop_sleeper_locked();
  void wake_sleeper(const sleeper&, P* p, bool spinning);

  // park.cpp
  bool somebody_waits_for(const P& p) const {
    // relaxed: hints. Also those who were stopped here. The ring's length is quick to tell.
    return p.queue.ring_length() != 0 || !p.queue.empty() || global_.length() != 0 ||
           p.stopped.count.load(relaxed) != 0;
  }
  void push_global(goroutine_queue& batch);
  void push_local(M& m, G* g);
  void push_overflowing(M& m, G* g);
  void push_next(M& m, G* g);
  static void finish_park(M& m);
  static void finish_yield(M& m);

  // timers.cpp
  void announce_timer(os::nanos when);
  void announce_own_timer(M& m);
  os::nanos earliest_timer() const;
  bool timers_may_wake() const;
  static bool timer_is_due(P& p) {
    const os::nanos next = p.timers.next();
    return next != os::k_never && timer_has_come(p, next);
  }
  static bool timer_has_come(P& p, os::nanos next);
  bool run_timers(M* m, P& p, os::nanos now);
  void run_own_timers(M& m);
  bool run_timers_of_all(M* m, os::nanos slack);
  os::nanos become_timekeeper(M& m);
  bool resign_as_timekeeper(M& m);
  void pause_timers();
  void resume_timers();
  os::nanos next_overdue_timer() const;
  os::nanos look_at_timers(os::nanos now);
  bool fire_overdue_timers(os::nanos now, os::nanos slack);

  // polling.cpp
  void take_events(const poll_batch&, wake_list&);
  void collect_from_ring(int number, wake_list&);
  bool ask_poller(M* m);
  bool deliver(M* m, const poll_batch&);
  void measure_pace(P& p) const;
  bool keeps_to_itself(const P& p) const;
  run_queue::popped from_poller(M& m);
  bool poll_is_overdue(os::nanos limit) const;
  void ask_poller_under_load(M& m);
  struct watch {
    bool assigned = false;   // the M is the watcher
    bool in_poller = false;  // ... and sleeps there; else beside it
    os::nanos glance = 0;    // for so long
  };
  watch become_watcher(M& m);
  void resign_as_watcher();
  void watch_until(os::nanos deadline, poll_batch& out);
  os::nanos look_at_descriptors(os::nanos now);
  bool gets_on_quickly();

  // start.cpp
  static void thread_main(void* slot);
  static void spawner_main(void* self);
  static void monitor_main(void* self);
  void request_thread_locked(P* p, bool spinning);
  void rest_without_thread_locked(P* p, bool spinning);
  bool hand_to_locked_sleeper_locked(P* p);
  void start_m_thread(int id);
  void request_spare_locked();
  bool count_new_thread_locked();
  P* take_wished_p_locked();
  P* take_usable_wished_p_locked();
  void take_wish(M& m);
  bool grant_wishes();
  void wake_spawner();

  // sysmon.cpp
  void wake_monitor();
  void poke_monitor_slow();
  // Somebody waits, and every P is in use, or so it seems: those who have them may sleep.
  void poke_monitor() {
    if (monitor_naps_.load(relaxed)) [[unlikely]]  // relaxed: the caller's fence orders it
      poke_monitor_slow();
  }
  enum class calls_seen {
    none,
    some,      // an M is in a blocking call and has its P beside it
    long_one,  // ... and lost it
  };
  calls_seen look_at_calls(os::nanos now);
  bool rest_while_all_are_idle();
  bool is_wanted_locked(const P& p, os::nanos in_call_for) const;
  void follow_cpus();

  // runners.cpp
  enum class runner_view {
    idle,
    busy,            // some P is in use
    somebody_waits,  // ... while a goroutine waits for one
  };
  struct runners_seen {
    runner_view view = runner_view::idle;
    os::nanos next = os::k_never;  // when to look again
  };
  runners_seen look_at_runners(os::nanos now);
  bool work_is_visible() const;
  static os::nanos asleep_since_locked(P& p, const M& m, os::nanos now);
  bool slice_is_over_locked(P& p, os::nanos now) const;

  // preempt.cpp
  // The turn of the first stopped one has come.
  static bool stopped_is_due(const P& p) {
    // relaxed: hints; the list itself is looked at under the lock.
    if (p.stopped.count.load(relaxed) == 0) return false;
    // Whoever is in run_next goes on with a slice that has begun: one more has to begin first.
    const std::uint64_t begun = p.queue.peek_next() != nullptr ? 1 : 0;
    return p.queue_turns() >= p.stopped.due.load(relaxed) + begun;  // relaxed: as above
  }
  static void note_first_stopped_locked(P& p);
  static void count_stopped_locked(P& p, int change);
  void push_stopped_locked(P& p, M& m);
  static void push_stopped_first_locked(P& p, M& m, os::nanos slice_used);
  static M* pop_stopped_locked(P& p);
  M* pop_stopped_elsewhere_locked(const P* mine, std::uint32_t more);
  M* pop_next_stopped_locked(P& mine);
  bool others_have_more_stopped(const P& p) const;
  sleeper pop_successor_locked(P& p);
  bool resume_stopped(M& m);
  bool resume_stopped_elsewhere(M& m);
  bool resume_from(M& m, P* only);
  static void on_preempt_signal(const os::signal_event& event);
  void stop_here(M& m, std::uint64_t request, const os::signal_event& event);
  void stop_with_p(M& m, std::uint64_t request, const os::signal_event& event);
  void stop_orphan(M& m, const os::signal_event& event);
  static void note_stop(M& m, const os::signal_event& event);
  void wait_while_stopped(M& m);
  void start_preempting();
  void open_to_preemption(M& m) const;
  void close_to_preemption(M& m) const;
  void send_request_locked(M& m, std::uint64_t request, os::nanos now);
  // An M that has a P, as seen under the lock, for those who go on without it: it may have ended
  // by then.
  struct runner {
    M* m = nullptr;
    os::thread_id thread = 0;
    bool inside = false;  // the gate
  };
  static runner runner_locked(M& m);
  void stop_runner(P& p, const runner& it, os::nanos now, bool make_room);
  void look_at_orphans(os::nanos now);
  void stop_orphan_soon_locked(M& m, os::nanos now);

  // takeover.cpp
  bool take_from_sleeper(P& p, const runner& suspect);
  bool take_p_locked(P& p, M& m);

  // stalls.cpp
  bool may_note_stall_locked(const M& m, os::nanos now) const;
  void note_stall_locked(M& m, const os::thread_view& view, os::nanos now);

  // tracing.cpp
  void join_traces();
  void leave_traces();
  void list(trace::lister&) override;
  void find_runners() override;

  // meters.cpp
  void read_ps(meters&) const;
  void read_usage_locked(meters&) const;
  void share_out(meters&) const;

  // schedtrace.cpp
  void print_trace_line(os::nanos now);
  void make_room_for_trace(os::mapped_text& text) const;
  void trace_locked(os::mapped_text& text, os::nanos now, bool detailed) const;
  void print_ps_locked(printer& out) const;
  void print_ms_locked(printer& out) const;
  void print_gs_locked(printer& out) const;

  // spawn.cpp
  static void bind_stack(M& m, G* g);
  void push_from_outside(G* g);
  G* refill_free_gs(P* p);
  G* carve_g_locked();
  void free_arenas();
  static departure goroutine_main(fiber* self, thread_state* thread);
  static M* run_body(M* m, G* g);
  static bool stays_on_stack_after(G* g, M* m);
  static M* run_guest(M* m, G* g);
  void bury(M* m, G* g);
  static void finish_stack(M& m);

  // stand_in.cpp
  bool nobody_can_watch_locked() const;
  void call_stand_in_locked();
  os::nanos stand_in();

  // thread_lock.cpp
  void wait_for_locked_turn(M& m);
  void hand_p_to_locked(M& m, G* g);

  // snapshot.cpp
  friend class snapshot;
  friend void for_each_runtime(void (*visit)(scheduler&, void*), void*);
  struct running_look;
  static running_look g_look;
  enum class reading {
    done,
    moving,   // it is about to stop, or to go on: try again
    running,  // ask its thread
  };
  void join_registry();
  void leave_registry();
  void note_time(os::nanos now) { coarse_now_.store(now, relaxed); }  // relaxed: a number
  friend void print_last_trace(printer&);
  static void trace_all_while_dying(printer& out);
  void take_snapshot(snapshot& out);
  bool lock_for_look(bool dying);
  void unlock_after_look(bool dying);
  reading read_pinned(const G& g, snapshot& out) const;
  void read_batch(G* const* batch, std::size_t count, snapshot& out);
  void read_again(G* g, snapshot& out);
  bool read_running(const G& g, snapshot& out);
  M* runner_of_locked(const G& g) const;
  void read_procs_locked(snapshot& out) const;
  static void answer_look(M& m, const os::signal_event& event);

  // deadlock.cpp
  bool check_deadlock();  // false: somebody can still move, in this runtime
  bool nothing_moves_locked() const;
  bool nobody_outside_moves_locked() const;
  int threads_known_to_sleep_locked() const;
  [[noreturn]] void report_deadlock_locked();

  // syscall.cpp
  static M* leave_to_global_queue(M* m, G* g);
  static void finish_to_global_queue(M& m);

  // resize.cpp
  enum class resize_cause {
    wish,
    cpus,  // the process may use more or fewer: no matter if somebody has set a number since
  };
  int resize(int count, resize_cause = resize_cause::wish);
  int resize_locked(int count);
  void follow_resize(int before, int count);
  void retire_p(M& m);
  void rest_retired_locked(P* p);
  void move_stopped_locked(P& p);
  static void turn_off_locked(P& p);

  friend class testing::waste_meter;

  // pause.cpp
  friend class world;
  void join_pause();
  void begin_pause();
  bool look_at_pause(os::nanos now);  // true: nobody runs
  void end_pause();
  template <class Visit>
  void for_each_parked_stack(Visit visit);

 public:
  const config settings;
  runtime* const facade;  // what users call it
  stack_pool& stacks;
  poller descriptors;

 private:
  const std::uint64_t trace_number_;  // 0 for the first runtime of the process
  P* ps_[k_most_procs] = {};
  atomic<int> ps_made_{0};  // Ps ever made: thieves look at all of them
  atomic<int> procs_{0};    // Ps in use
  atomic<bool> follows_cpus_{false};
  atomic<os::nanos> coarse_now_{os::now()};
  bool holds_lock_while_dying_ = false;  // under the lock; for its holder
  scheduler* next_runtime_ = nullptr;    // in the registry, under its lock

  // Read at every wake, written when a thread falls asleep or wakes: a line of their own.
  alignas(k_cache_line) atomic<int> idle_count_{0};
  atomic<int> spinning_{0};
  atomic<int> drowsy_{0};
  atomic<os::nanos> watched_until_{os::k_never};  // when the timekeeper wakes up by itself
  // When the monitor does, if nobody wakes it.
  atomic<os::nanos> monitor_until_{os::k_never};
  atomic<bool> monitor_naps_{false};  // for long: nobody waited

  alignas(k_cache_line) mutable os::member_lock lock_{os::lock_rank::scheduler};
  // All below under lock_.
  global_queue global_;  // but for its length
  intrusive_list<P, &P::idle_links> idle_ps_;
  intrusive_list<M, &M::all_links> all_ms_;
  intrusive_list<M, &M::idle_links> idle_ms_;
  intrusive_list<M, &M::orphan_links> orphans_;
  os::nanos last_stall_ = 0;
  std::uint64_t stalls_seen_ = 0;  // reported or not
  goroutine_ring free_gs_;
  g_arena* arenas_ = nullptr;
  int threads_ = 0;  // Ms that exist or were wished for
  int threads_peak_ = 0;
  int next_m_id_ = 0;
  std::uint64_t readied_outside_ = 0;
  std::uint64_t retakes_ = 0;
  mutable std::uint64_t user_ticks_shown_ = 0;  // by read_usage_locked(), so far
  std::uint64_t calls_ended_outside_ = 0;       // of blocking(), by an M that lost its P meanwhile
  std::size_t locked_sleepers_ = 0;  // Ms that wait for the turn of the goroutine they belong to
  M* timekeeper_ = nullptr;
  M* watcher_ = nullptr;
  bool watcher_in_poller_ = false;
  bool stopping_ = false;
  bool paused_ = false;  // no P is to be used
  int procs_after_pause_ = 0;
  bool monitor_rests_ = false;  // every P was idle: whoever takes one wakes the monitor
  // Wishes for threads, granted by the spawner: making a thread allocates and may block, which
  // nobody who holds a P may do. One P is in at most one wish.
  // The P stays in the wish until the new thread takes it: making it may take long.
  thread_wish wishes_[k_most_procs];
  int wish_count_ = 0;
  int threads_to_make_ = 0;
  bool spare_is_coming_ = false;  // a thread without a P, to have one at hand
  thread_slot* ended_ = nullptr;
  struct {
    bool lasts = false;
    bool asks_poller = false;
    os::nanos until = 0;  // it looks again
  } standing_in_;         // the spawner; see stand_in.cpp

  // The spawner's, for a thread that was refused. Others ask whether there was one.
  atomic<os::nanos> ask_again_at_{os::k_never};
  int refusals_ = 0;             // the spawner's: in a row, without any thread
  os::nanos look_interval_ = 0;  // the same: while it stands in, see stand_in.cpp
  os::nanos check_interval_ = k_first_check;

  alignas(k_cache_line) os::futex_word spawner_word_{0};
  os::thread spawner_;
  os::futex_word monitor_word_{0};
  atomic<bool> monitor_watches_{false};            // looks for blocking calls at short intervals
  os::nanos timer_look_interval_ = k_timer_slack;  // the monitor's
  std::uint64_t progress_at_last_look_ = 0;        // the same
  atomic<os::nanos> timer_slack_{k_timer_slack};
  atomic<bool> monitor_ends_{false};
  bool preempts_ = false;  // by signal; constant once the runtime has started
  os::thread monitor_;
  const os::nanos started_at_ = os::now();
  const os::cpu_quota_files quota_files_;
  call_history call_history_;
  atomic<std::uint64_t> timer_fires_{0};
  atomic<int> firing_{0};              // threads that run timers just now
  atomic<bool> rings_refused_{false};  // by the kernel or by the settings
  atomic<bool> poll_in_progress_{false};
  atomic<std::uint64_t> last_poll_{0};  // ticks
  atomic<std::uint64_t> netpoll_wakeups_{0};
  atomic<std::uint64_t> polls_{0};
  atomic<std::uint64_t> io_waiting_outside_{0};  // plain threads
  atomic<std::uint64_t> goroutine_ids_{1};
  atomic<std::uint64_t> spawned_outside_{0};  // by plain threads and timers
};

// While one exists, those whom the calling thread wakes without having an M are urgent ones in the
// global queue: they have waited for something that has happened, and somebody makes room for them
// (scheduler::urge). For the monitor.
class [[nodiscard]] urgent_wakes {
 public:
  urgent_wakes();
  ~urgent_wakes();
  urgent_wakes(const urgent_wakes&) = delete;
  urgent_wakes& operator=(const urgent_wakes&) = delete;
};

// Every runtime there is, one after the other, under the registry's lock: snapshot.cpp.
void for_each_runtime(void (*visit)(scheduler&, void* argument), void* argument);

// The calling thread's M; null on a thread that is not the runtime's. Never inlined, and never
// kept across a possible switch: a goroutine may go on on another thread.
M* current_m();

// The goroutine the caller is; null on a plain thread.
G* current_g();

scheduler& scheduler_of(const runtime&);

// public_trace.cpp: if MAGPIE_TRACE says so.
void start_trace_from_environment();

// Before anything that could wait for a thread which a forked child does not have.
inline void check_not_forked() {
  if (os::in_forked_child()) [[unlikely]]
    os::fail_in_forked_child();
}

// First thing on every side of a switch where somebody may have left: does what `leaving` says.
inline void finish_switch(M& m) {
  if (m.leaving.finish == nullptr) return;
  auto* const finish = m.leaving.finish;
  m.leaving.finish = nullptr;
  finish(m);
}

}  // namespace magpie::rt
