// schedtrace.cpp: MAGPIE_DEBUG=schedtrace=MS, a line about the runtime every so often, in the
// format that readers of Go's know; scheddetail=1 adds a line for each P, each M and each
// goroutine. What an M does is its own business: it is read as it is at that moment, as Go does it.

//
// Written into memory first: a terminal may be stopped, and everybody needs the lock.

#include <span>

#include "base/print.h"
#include "os/fork.h"
#include "os/mapped_text.h"
#include "sched/arena.h"
#include "sched/debug_settings.h"
#include "sched/racy.h"
#include "sched/report.h"
#include "sched/scheduler.h"
#include "sched/service.h"

namespace magpie::rt {
namespace {

// Since when they count.
os::nanos since_first_trace(os::nanos now) {
  static constinit atomic<os::nanos> g_first{0};
  os::nanos first = 0;
  // relaxed: a number.
  return g_first.compare_exchange_strong(first, now, relaxed) ? 0 : now - first;
}

}  // namespace

void scheduler::print_trace_line(os::nanos now) {
  os::mapped_text text;
  make_room_for_trace(text);
  {
    const os::lock_guard hold(lock_);
    trace_locked(text, now, debugging().scheddetail);
  }
  print_soon(text.text());
}

// About what the lines take: to ask the kernel for memory with the lock held would take long.
void scheduler::make_room_for_trace(os::mapped_text& text) const {
  constexpr std::size_t k_head = 1024, k_line = 224, k_goroutine = 96;
  const auto threads = static_cast<std::size_t>(racy(threads_));
  const auto ps = static_cast<std::size_t>(procs());
  text.reserve(k_head + (ps + threads) * k_line + live_goroutines() * k_goroutine);
}

void scheduler::trace_locked(os::mapped_text& text, os::nanos now, bool detailed) const {
  printer out(text.sink());
  const int count = procs();
  // Somebody should look for work, and nobody does: for a moment only, unless a wake-up was lost.
  bool work = global_.length() != 0;
  for (int i = 0; i < count; ++i) work |= ps_[i]->queue.ring_length() != 0;
  const int spinning = spinning_.load(relaxed);  // relaxed: a moment's view
  const bool lacks_spinner = work && spinning == 0 && idle_ps_.size() != 0;
  out << "SCHED " << since_first_trace(now) / 1'000'000 << "ms: gomaxprocs=" << count
      << " idleprocs=" << idle_ps_.size() << " threads=" << threads_
      << " spinningthreads=" << spinning << " needspinning=" << (lacks_spinner ? 1 : 0)
      << " idlethreads=" << idle_ms_.size() << " runqueue=" << global_.length();
  if (!detailed) {
    out << " [ ";
    for (int i = 0; i < count; ++i) out << ps_[i]->queue.ring_length() << ' ';
    out << "] schedticks=[ ";
    for (int i = 0; i < count; ++i) out << ps_[i]->slices.read() << ' ';
    out << "]\n";
    return;
  }
  out << " gcwaiting=" << (paused_ ? "true" : "false") << " nmidlelocked=" << locked_sleepers_
      << " stopwait=0 sysmonwait=" << (monitor_rests_ ? "true" : "false") << '\n';
  print_ps_locked(out);
  print_ms_locked(out);
  print_gs_locked(out);
}

// As in Go: who watches the scheduler wants to know how it was at the end.
void print_last_trace(printer& out) {
  static constinit atomic<bool> g_printed{false};
  if (!wants_last_trace() || os::in_forked_child()) return;
  if (g_printed.exchange(true, relaxed)) return;  // relaxed: only picks who is first
  scheduler::trace_all_while_dying(out);
  out.flush();
}

namespace {

template <class Id>
void print_id(printer& out, const char* key, bool known, Id id) {
  out << key;
  if (known) {
    out << id;
  } else {
    out << "nil";
  }
}

}  // namespace

void scheduler::print_ps_locked(printer& out) const {
  constexpr int k_idle = 0, k_running = 1, k_paused = 3;  // Go's numbers
  for (int i = 0; i < procs(); ++i) {
    const P& p = *ps_[i];
    const M* const m = p.m.load(acquire);  // pairs with acquire_p(); it lives under the lock
    const int status = m != nullptr ? k_running : paused_ ? k_paused : k_idle;
    out << "  P" << i << ": status=" << status << " schedtick=" << p.slices.read()
        << " syscalltick=" << p.counters.calls_begun.read();
    print_id(out, " m=", m != nullptr, m != nullptr ? m->id : 0);
    out << " runqsize=" << p.queue.ring_length() << " gfreecnt=" << racy(p.free_gs.size())
        << " timerslen=" << p.timers.pending() << '\n';
  }
}

// Goroutines are type-stable: of one that has ended meanwhile the number of another is read.
void scheduler::print_ms_locked(printer& out) const {
  for (const M* m = all_ms_.front(); m != nullptr; m = all_ms_.next(m)) {
    int p = -1;
    for (int i = 0; i < ps_made_.load(relaxed) && p < 0; ++i) {  // relaxed: under the lock
      if (ps_[i]->m.load(relaxed) == m) p = i;                   // relaxed: to be compared only
    }
    const G* const runs = racy(m->current);
    const G* locked = racy(m->stopped_locked);
    if (locked == nullptr && runs != nullptr && racy(runs->locked)) locked = runs;
    out << "  M" << m->id;
    print_id(out, ": p=", p >= 0, p);
    print_id(out, " curg=", runs != nullptr, runs != nullptr ? look_at(runs->id) : 0);
    out << " mallocing=0 throwing=0 preemptoff= locks="
        << m->depth.load(relaxed)  // relaxed: a view
        << " dying=0 spinning=" << (racy(m->spinning) ? "true" : "false")
        << " blocked=" << (idle_ms_.contains(m) ? "true" : "false");
    print_id(out, " lockedg=", locked != nullptr, locked != nullptr ? look_at(locked->id) : 0);
    out << '\n';
  }
}

namespace {

int number_in_go(goroutine_state state) {
  switch (state) {
    case goroutine_state::dead:
      return 6;
    case goroutine_state::runnable:
      return 1;
    case goroutine_state::running:
      return 2;
    case goroutine_state::waiting:
      return 4;
    case goroutine_state::syscall:
      return 3;
  }
  return 0;
}

}  // namespace

// Those that live.
void scheduler::print_gs_locked(printer& out) const {
  for (g_arena* arena = arenas_; arena != nullptr; arena = arena->next) {
    for (const G& g : std::span(arena->gs(), arena->used)) {
      const goroutine_state state = g.state.load(relaxed);  // relaxed, both: a moment's view
      const wait_reason why = g.waits_for.load(relaxed);
      if (state == goroutine_state::dead) continue;
      const bool waits = state == goroutine_state::waiting;
      const bool has_m = state == goroutine_state::running || state == goroutine_state::syscall;
      const M *runs_on = nullptr, *locked_to = nullptr;
      if (has_m || racy(g.locked)) {
        for (const M* m = all_ms_.front(); m != nullptr; m = all_ms_.next(m)) {
          if (racy(m->current) == &g) runs_on = m;
          if (racy(m->stopped_locked) == &g) locked_to = m;
        }
        if (racy(g.locked) && locked_to == nullptr) locked_to = runs_on;
      }
      out << "  G" << look_at(g.id) << ": status=" << number_in_go(state) << '('
          << (waits ? wait_reason_text(why) : "") << ')';
      print_id(out, " m=", runs_on != nullptr, runs_on != nullptr ? runs_on->id : 0);
      print_id(out, " lockedm=", locked_to != nullptr, locked_to != nullptr ? locked_to->id : 0);
      out << '\n';
    }
  }
}

}  // namespace magpie::rt
