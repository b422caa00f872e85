// snapshot.cpp: reading goroutines that go on meanwhile.
//
// Three kinds of them, by what keeps their stack from changing under the reader:
//
//   - One that does not run is pinned: whoever wants to run it waits until it has been read, for
//     some microseconds (G::go_on). It may well be made runnable meanwhile. A batch is pinned at a
//     time, because of the fence that goes with it.
//   - One that runs is asked: a signal to its thread, whose handler copies the registers and the
//     top of the stack, and goes on. The walk is done here, on the copy.
//   - One whose thread sleeps in the kernel, in user code, is not disturbed: what it sleeps in
//     might end early. The kernel says where it stands, and its stack does not change.
//
// Between two states, on its way out of running, a goroutine has no registers stored yet: its
// program counter is null then (G::stop), and it is looked at again.
//
// While goroutines are pinned the reader waits for nobody, takes no lock, and is not preempted
// (it holds the registry's lock): those who wait for it have a P.

#include "sched/snapshot.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "fiber/unwind.h"
#include "os/fence.h"
#include "os/mapped_text.h"
#include "os/thread.h"
#include "os/thread_view.h"
#include "sched/arena.h"
#include "sched/local.h"
#include "sched/racy.h"
#include "sched/scheduler.h"
#include "sched/waiting.h"

namespace magpie::rt {
namespace {

constinit os::lock g_registry_lock{os::lock_rank::registry};
scheduler* g_runtimes = nullptr;  // under the lock

constexpr std::size_t k_batch = 16;

// How long a thread has to answer before its stack is done without.
constexpr os::nanos k_patience = 20'000'000;
// How long one who dies waits for a lock that somebody may hold for ever.
constexpr os::nanos k_dying_patience = 100'000'000;

void pause(os::nanos time) {
  os::futex_word nobody{0};
  os::futex_wait(nobody, 0, os::now() + time);
}

bool acquire_for(os::lock& l, bool dying) {
  if (!dying) {
    l.acquire();
    return true;
  }
  for (const os::nanos end = os::now() + k_dying_patience; !l.try_seize();) {
    if (os::now() > end) return false;
    os::yield_thread();
  }
  return true;
}

void release_after(os::lock& l, bool dying) { dying ? l.let_go() : l.release(); }

unwind_registers registers_of(const context& c) {
  unwind_registers r;
  r.program_counter = reinterpret_cast<std::uintptr_t>(c.program_counter);
  r.values[unwind_registers::k_stack_pointer] = reinterpret_cast<std::uintptr_t>(c.stack_pointer);
  r.values[unwind_registers::k_frame_pointer] = reinterpret_cast<std::uintptr_t>(c.frame_pointer);
  return r;
}

}  // namespace

// What a thread answers with. One at a time, under the registry's lock; in memory that stays, for
// a handler that comes late.
struct scheduler::running_look {
  enum phase : int {
    idle,
    wanted,
    busy,  // the handler writes
    done,
  };
  atomic<int> at{idle};
  std::uint64_t goroutine = 0;  // whose stack is wanted
  unwind_registers registers{};
  std::uintptr_t stack_low = 0, stack_high = 0;
  std::size_t size = 0;  // 0: that goroutine does not run there any more
  char name[k_longest_name] = {};
  std::size_t name_size = 0;
  alignas(16) std::byte copy[32 << 10] = {};
};
constinit scheduler::running_look scheduler::g_look;

// ---- Which runtimes there are -----------------------------------------------------------------

void scheduler::join_registry() {
  const os::lock_guard hold(g_registry_lock);
  next_runtime_ = g_runtimes;
  g_runtimes = this;
  join_pause();
}

void scheduler::leave_registry() {
  const os::lock_guard hold(g_registry_lock);
  scheduler** link = &g_runtimes;
  while (*link != this) link = &(*link)->next_runtime_;
  *link = next_runtime_;
}

void for_each_runtime(void (*visit)(scheduler&, void* argument), void* argument) {
  const os::lock_guard hold(g_registry_lock);
  for (scheduler* s = g_runtimes; s != nullptr; s = s->next_runtime_) visit(*s, argument);
}

// ---- Frames -----------------------------------------------------------------------------------

void snapshot::add_frames(goroutine_record& r, stack_walk& walk) {
  // One more than are kept: the last to come may turn out to be another goroutine's.
  constexpr std::size_t k_ring = k_outer + 1;
  std::uintptr_t inner[k_inner], outer[k_ring];
  std::size_t count = 0;
  const auto guest = reinterpret_cast<std::uintptr_t>(&scheduler::run_guest);
  for (bool more = true; more;) {
    (count < k_inner ? inner[count] : outer[(count - k_inner) % k_ring]) = walk.inside();
    ++count;
    more = walk.step();
    if (walk.left_function() == guest) {  // what follows is another goroutine's
      --count;
      more = false;
    }
  }
  const std::size_t at_end = count > k_inner ? std::min(count - k_inner, k_outer) : 0;
  r.first_frame = static_cast<std::uint32_t>(frames_.size());
  r.inner_frames = static_cast<std::uint32_t>(std::min(count, k_inner));
  r.left_out = static_cast<std::uint32_t>(count - r.inner_frames - at_end);
  frames_.add(inner, r.inner_frames);
  for (std::size_t i = count - at_end; i < count; ++i) {
    frames_.add(outer[(i - k_inner) % k_ring]);
  }
  r.frames = static_cast<std::uint32_t>(frames_.size() - r.first_frame);
}

std::size_t walk_sleeper(const os::thread_view& view, const std::uintptr_t* stack,
                         std::size_t words, std::uintptr_t* out, std::size_t room) {
  if (view.program_counter == 0) return 0;
  const os::module_table modules;
  unwind_registers registers;
  registers.program_counter = view.program_counter;
  registers.values[unwind_registers::k_stack_pointer] = view.stack_pointer;
  const stack_memory memory{view.stack_pointer, view.stack_pointer + words * sizeof *stack, stack};
  stack_walk walk(modules, memory, registers, true);
  std::size_t count = 0;
  do out[count++] = walk.inside();
  while (count < room && walk.step());
  return count;
}

// ---- One that is pinned -----------------------------------------------------------------------

scheduler::reading scheduler::read_pinned(const G& g, snapshot& out) const {
  const goroutine_state state = g.state.load(acquire);  // pairs with transition()
  if (state == goroutine_state::dead) return reading::done;
  const bool is_caller = &g == out.caller_;
  if (state == goroutine_state::running && !is_caller) return reading::running;

  goroutine_record r;
  r.id = g.id;
  r.parent = origin_of(g).parent;
  r.runtime = out.runtime_;
  r.state = is_caller ? goroutine_state::running : state;
  r.locked = g.locked;
  r.is_caller = is_caller;
  r.spawn_site = g.spawn_site;

  const stack* const on = racy(g.fiber.stack);
  if (on != nullptr) {
    unwind_registers stands = out.caller_stands_;
    const bool interrupted = is_caller && out.caller_was_interrupted_;
    if (state != goroutine_state::running && !interrupted) {
      void* const before = racy(g.fiber.registers.program_counter);
      stands = registers_of(
          {racy(g.fiber.registers.stack_pointer), before, racy(g.fiber.registers.frame_pointer)});
      if (before == nullptr || racy(g.fiber.registers.program_counter) != before) {
        return reading::moving;
      }
    }
    r.stack_low = reinterpret_cast<std::uintptr_t>(on->low);
    r.stack_high = reinterpret_cast<std::uintptr_t>(on->high);
    r.stack_pointer = stands.stack_pointer();
    r.view = stack_view::whole;
    stack_memory memory{r.stack_pointer, r.stack_high, nullptr};
    if (interrupted && r.stack_pointer < r.stack_low) {
      memory.low = r.stack_low;  // an overflow: below is the guard, and nothing of the callers
    } else if (r.stack_pointer < r.stack_low || r.stack_pointer >= r.stack_high) {
      memory.high = memory.low;  // of a handler, say: not to be walked
    }
    // Another one that was stopped by a signal stands at an instruction, not after a call. To look
    // one byte before it finds another line at most.
    stack_walk walk(out.modules_, memory, stands, interrupted);
    out.add_frames(r, walk);
  }
  if (state == goroutine_state::waiting) {
    r.reason = g.waits_for.load(relaxed);  // relaxed: written before the state
    const waiter* const as = racy(g.waits_as);
    const auto place = reinterpret_cast<std::uintptr_t>(as);
    const bool on_stack = place >= r.stack_pointer && place + sizeof *as <= r.stack_high;
    const bool in_room = place == reinterpret_cast<std::uintptr_t>(&wait_room_of(g));
    // Anything else was never one, or is none any more.
    if (on_stack || in_room) {
      r.waited = std::max<os::nanos>(os::now() - racy(as->since), 0);
      r.object = racy(as->object);
      if (const auto* const holder = racy(as->holder)) {
        // The object may be gone by now.
        os::copy_memory(reinterpret_cast<std::uintptr_t>(holder), &r.holder_place,
                        sizeof r.holder_place);
        r.held_by = holder_kind::thread;
        if (r.holder_place == nullptr) r.held_by = holder_kind::none;
        if (find_stack(r.holder_place) != nullptr) r.held_by = holder_kind::ended;  // so far
      }
    }
  }
  if (g.extra != nullptr) {
    r.name_at = static_cast<std::uint32_t>(out.names_.size());
    r.name_size = static_cast<std::uint32_t>(std::min(g.extra->name.size(), k_longest_name));
    if (!out.names_.add(g.extra->name.data(), r.name_size)) r.name_size = 0;
  }
  out.goroutines_.add(r);
  return reading::done;
}

void scheduler::read_batch(G* const* batch, std::size_t count, snapshot& out) {
  reading how[k_batch];
  for (std::size_t i = 0; i < count; ++i) batch[i]->pinned.store(true, relaxed);  // the fence
  os::heavy_fence();
  for (std::size_t i = 0; i < count; ++i) {
    how[i] = read_pinned(*batch[i], out);
    batch[i]->pinned.store(false, release);  // pairs with go_on(): it has been read
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (how[i] != reading::done) read_again(batch[i], out);
  }
}

// ---- One that runs ----------------------------------------------------------------------------

// Of one that may go on at any moment: from copies, each of which may be of anything.
std::size_t copy_name(const G& g, char (&to)[k_longest_name]) {
  alignas(goroutine_extra) std::byte copy[sizeof(goroutine_extra)];
  const auto place = reinterpret_cast<std::uintptr_t>(racy(g.extra));
  if (place == 0 || os::copy_memory(place, copy, sizeof copy) != sizeof copy) return 0;
  const std::string& name = reinterpret_cast<const goroutine_extra*>(copy)->name;
  const std::size_t size = std::min(name.size(), k_longest_name);
  return os::copy_memory(reinterpret_cast<std::uintptr_t>(name.data()), to, size);
}

// Under the lock, so that the M is there.
M* scheduler::runner_of_locked(const G& g) const {
  for (int i = 0; i < ps_made_.load(relaxed); ++i) {  // relaxed: under the lock
    M* const m = ps_[i]->m.load(acquire);             // pairs with acquire_p()
    if (m != nullptr && racy(m->current) == &g) return m;
  }
  for (M* m = orphans_.front(); m != nullptr; m = orphans_.next(m)) {
    if (racy(m->current) == &g) return m;
  }
  return nullptr;
}

// The handler's; at whatever the thread did, so only its own things are touched.
void scheduler::answer_look(M& m, const os::signal_event& event) {
  running_look& look = g_look;
  int wanted = running_look::wanted;
  // acquire: pairs with the release of the one who asks.
  if (!look.at.compare_exchange_strong(wanted, running_look::busy, acquire, relaxed)) return;
  look.size = look.name_size = 0;
  const G* const g = m.current;
  const stack* const on = g != nullptr ? g->fiber.stack : nullptr;
  if (on != nullptr && g->id == look.goroutine) {
    const auto low = reinterpret_cast<std::uintptr_t>(on->low);
    const auto high = reinterpret_cast<std::uintptr_t>(on->high);
    if (event.stack_pointer >= low && event.stack_pointer < high) {
      event.read_registers(look.registers.values, unwind_registers::k_count);
      look.registers.program_counter = event.program_counter;
      look.stack_low = low;
      look.stack_high = high;
      if (g->extra != nullptr && g->unstoppable == 0) {  // not while it is given one
        look.name_size = std::min(g->extra->name.size(), k_longest_name);
        std::memcpy(look.name, g->extra->name.data(), look.name_size);
      }
      look.size = os::copy_memory(event.stack_pointer, look.copy,
                                  std::min(sizeof look.copy, high - event.stack_pointer));
    }
  }
  look.at.store(running_look::done, release);  // pairs with the acquire of the one who asked
}

// False: it does not run any more.
bool scheduler::read_running(const G& g, snapshot& out) {
  running_look& look = g_look;
  goroutine_record r;
  r.id = racy(g.id);
  r.parent = racy(origin_of(g).parent);
  r.runtime = out.runtime_;
  r.spawn_site = racy(g.spawn_site);
  r.locked = racy(g.locked);
  r.state = goroutine_state::running;
  r.view = stack_view::unavailable;
  look.size = look.name_size = 0;
  bool asked = false;
  if (lock_for_look(out.dying_)) {
    M* const m = runner_of_locked(g);
    if (m == nullptr) {
      unlock_after_look(out.dying_);
      return false;
    }
    const os::thread_view view = os::look_at_thread(m->thread);
    if (view.activity == os::thread_activity::asleep && view.stack_pointer != 0) {
      stack on{};
      const auto place = reinterpret_cast<std::uintptr_t>(racy(g.fiber.stack));
      const bool read = os::copy_memory(place, &on, sizeof on) == sizeof on;
      look.stack_low = reinterpret_cast<std::uintptr_t>(on.low);
      look.stack_high = reinterpret_cast<std::uintptr_t>(on.high);
      if (read && view.stack_pointer >= look.stack_low && view.stack_pointer < look.stack_high) {
        r.system_call = view.system_call;
        look.name_size = copy_name(g, look.name);
        look.registers = {};
        look.registers.program_counter = view.program_counter;
        look.registers.values[unwind_registers::k_stack_pointer] = view.stack_pointer;
        look.size =
            os::copy_memory(view.stack_pointer, look.copy,
                            std::min(sizeof look.copy, look.stack_high - view.stack_pointer));
      }
    } else if (preempts_) {
      look.goroutine = r.id;
      look.at.store(running_look::wanted, release);  // pairs with answer_look()
      m->stop.look.store(true, release);             // pairs with the handler's exchange
      os::send_signal(m->thread, settings.preempt_signal);
      asked = true;
    }
    unlock_after_look(out.dying_);
  }
  if (asked) {
    const os::nanos end = os::now() + k_patience;
    // acquire: pairs with answer_look().
    while (look.at.load(acquire) != running_look::done) {
      int wanted = running_look::wanted;
      // relaxed: only whether the handler has begun.
      if (os::now() > end && look.at.compare_exchange_strong(wanted, running_look::idle, relaxed)) {
        break;
      }
      pause(20'000);
    }
    const bool answered = look.at.load(acquire) == running_look::done;  // as above
    look.at.store(running_look::idle, relaxed);                         // relaxed: nobody looks
    if (answered && look.size == 0) return false;
  }
  if (look.size != 0) {
    const std::uintptr_t sp = look.registers.stack_pointer();
    r.view = stack_view::interrupted;
    r.stack_low = look.stack_low;
    r.stack_high = look.stack_high;
    r.stack_pointer = sp;
    stack_walk walk(out.modules_, {sp, sp + look.size, look.copy}, look.registers, true);
    out.add_frames(r, walk);
    r.name_at = static_cast<std::uint32_t>(out.names_.size());
    if (out.names_.add(look.name, look.name_size)) {
      r.name_size = static_cast<std::uint32_t>(look.name_size);
    }
  }
  out.goroutines_.add(r);
  return true;
}

// It ran, or was about to stop or to go on: one or the other will be caught.
void scheduler::read_again(G* g, snapshot& out) {
  for (int attempt = 0;; ++attempt) {
    g->pinned.store(true, relaxed);  // the fence orders it
    os::heavy_fence();
    const reading how = read_pinned(*g, out);
    g->pinned.store(false, release);  // pairs with go_on(): it has been read
    if (how == reading::done) return;
    if (how == reading::running && read_running(*g, out)) return;
    if (attempt >= 200) break;
    if (attempt >= 10) pause(10'000);
  }
  goroutine_record r;
  r.id = racy(g->id);
  r.runtime = out.runtime_;
  r.spawn_site = racy(g->spawn_site);
  r.state = goroutine_state::running;
  r.view = stack_view::unavailable;
  out.goroutines_.add(r);
}

// ---- All of them ------------------------------------------------------------------------------

void scheduler::read_procs_locked(snapshot& out) const {
  runtime_record all;
  all.threads = threads_;
  all.idle_threads = static_cast<int>(idle_ms_.size());
  all.procs = procs();
  all.idle_procs = static_cast<int>(idle_ps_.size());
  all.global_queue_length = global_.length();
  out.runtimes_.add(all);
  for (int i = 0; i < procs(); ++i) {
    const P& p = *ps_[i];
    proc_record r;
    r.runtime = out.runtime_;
    r.id = p.id;
    r.turns = p.turns.read();
    r.queue_length = p.queue.ring_length() + (p.queue.peek_next() != nullptr ? 1 : 0);
    r.stopped = p.stopped.count.load(relaxed);   // relaxed: under the lock
    if (const M* const m = p.m.load(acquire)) {  // pairs with acquire_p()
      r.thread = m->id;
      r.in_call = m->call_p.load(relaxed) == &p;  // relaxed: a hint
      if (const G* const g = racy(m->current)) r.goroutine = racy(g->id);
    }
    out.procs_.add(r);
  }
}

// Not when the caller has it, and dies.
bool scheduler::lock_for_look(bool dying) {
  return (dying && holds_lock_while_dying_) || acquire_for(lock_, dying);
}

void scheduler::unlock_after_look(bool dying) {
  if (!dying || !holds_lock_while_dying_) release_after(lock_, dying);
}

void scheduler::take_snapshot(snapshot& out) {
  struct block {
    g_arena* arena;
    std::size_t used;
  };
  os::mapped_list<block> blocks;
  if (!lock_for_look(out.dying_)) return;
  for (g_arena* arena = arenas_; arena != nullptr; arena = arena->next) {
    blocks.add({arena, arena->used});
  }
  read_procs_locked(out);
  unlock_after_look(out.dying_);
  G* batch[k_batch];
  std::size_t count = 0;
  for (const block& b : blocks) {
    for (std::size_t i = 0; i < b.used; ++i) {
      G& g = b.arena->gs()[i];
      // relaxed: one that is spawned now need not be seen.
      if (g.state.load(relaxed) != goroutine_state::dead) batch[count++] = &g;
      if (count == k_batch) {
        read_batch(batch, count, out);
        count = 0;
      }
    }
  }
  if (count != 0) read_batch(batch, count, out);
}

// For schedtrace.cpp.
void scheduler::trace_all_while_dying(printer& out) {
  if (!acquire_for(g_registry_lock, true)) return;
  for (scheduler* s = g_runtimes; s != nullptr; s = s->next_runtime_) {
    os::mapped_text text;
    s->make_room_for_trace(text);
    if (!s->lock_for_look(true)) {
      out << "SCHED: a lock of the scheduler is held\n";
      continue;
    }
    s->trace_locked(text, os::now(), true);
    s->unlock_after_look(true);
    out << text.text();
  }
  release_after(g_registry_lock, true);
}

// Whose stack the place is on that a lock's holder left in it.
void snapshot::find_holders() {
  const bool anybody =
      std::any_of(goroutines_.begin(), goroutines_.end(),
                  [](const goroutine_record& g) { return g.holder_place != nullptr; });
  if (!anybody) return;
  struct range {
    std::uintptr_t low, high, stack_pointer;
    std::uint64_t id;
  };
  os::mapped_list<range> stacks;
  for (const goroutine_record& g : goroutines_) {
    if (g.stack_high != 0) stacks.add({g.stack_low, g.stack_high, g.stack_pointer, g.id});
  }
  // Of several on one stack, those who came first are above.
  std::sort(stacks.begin(), stacks.end(), [](const range& a, const range& b) {
    return a.low != b.low ? a.low < b.low : a.stack_pointer < b.stack_pointer;
  });
  for (goroutine_record& g : goroutines_) {
    if (g.holder_place == nullptr) continue;
    const auto place = reinterpret_cast<std::uintptr_t>(g.holder_place);
    // The last one whose stack pointer is not above the place.
    const range* after = std::upper_bound(
        stacks.begin(), stacks.end(), place, [](std::uintptr_t at, const range& r) {
          return at < r.low || (at < r.high && at < r.stack_pointer);
        });
    if (after == stacks.begin()) continue;
    const range& r = after[-1];
    if (place < r.low || place >= r.high) continue;
    g.held_by = holder_kind::goroutine;
    g.holder = r.id;
  }
}

[[gnu::noinline]] void snapshot::take_caller() {
  caller_ = current_g();
  caller_stands_ = registers_of(calling_frame());
  if (caller_ != nullptr) scheduler::home_of(caller_).read_pinned(*caller_, *this);
}

void snapshot::take_caller(const os::signal_event& event) {
  caller_ = current_g();
  caller_was_interrupted_ = true;
  event.read_registers(caller_stands_.values, unwind_registers::k_count);
  caller_stands_.program_counter = event.program_counter;
  if (caller_ != nullptr) scheduler::home_of(caller_).read_pinned(*caller_, *this);
}

void snapshot::remove_caller() {
  goroutine_record* const end =
      std::remove_if(goroutines_.begin(), goroutines_.end(),
                     [](const goroutine_record& g) { return g.is_caller; });
  goroutines_.shrink(static_cast<std::size_t>(end - goroutines_.begin()));
}

[[gnu::noinline]] bool snapshot::take(caution how) {
  dying_ = how == caution::dying;
  caller_ = current_g();
  caller_stands_ = registers_of(calling_frame());
  if (!acquire_for(g_registry_lock, dying_)) return false;
  for (scheduler* s = g_runtimes; s != nullptr; s = s->next_runtime_) {
    s->take_snapshot(*this);
    ++runtime_;
  }
  release_after(g_registry_lock, dying_);
  find_holders();
  std::sort(goroutines_.begin(), goroutines_.end(),
            [](const goroutine_record& a, const goroutine_record& b) {
              return a.id != b.id ? a.id < b.id : a.runtime < b.runtime;
            });
  return runtimes_.size() == static_cast<std::size_t>(runtime_);
}

}  // namespace magpie::rt
