// schedtrace.cpp: MAGPIE_DEBUG=schedtrace=MS, a line about the runtime every so often, in the
// format that readers of Go's know; scheddetail=1 adds a line for each P and each M. What an M does
// is its own business: it is read as it is at that moment, as Go does it. There are no lines for
// goroutines: SIGQUIT shows more of them.

#include "base/print.h"
#include "sched/debug_settings.h"
#include "sched/racy.h"
#include "sched/scheduler.h"

namespace magpie::rt {

void scheduler::print_trace_line(os::nanos now) {
  static const os::nanos start = now;
  printer out;
  const os::lock_guard hold(lock_);
  const int count = procs();
  // Somebody should look for work, and nobody does: for a moment only, unless a wake-up was lost.
  bool work = global_.length() != 0;
  for (int i = 0; i < count; ++i) work |= ps_[i]->queue.ring_length() != 0;
  const int spinning = spinning_.load(relaxed);  // relaxed: a moment's view
  const bool lacks_spinner = work && spinning == 0 && idle_ps_.size() != 0;
  out << "SCHED " << (now - start) / 1'000'000 << "ms: gomaxprocs=" << count
      << " idleprocs=" << idle_ps_.size() << " threads=" << threads_
      << " spinningthreads=" << spinning << " needspinning=" << (lacks_spinner ? 1 : 0)
      << " idlethreads=" << idle_ms_.size() << " runqueue=" << global_.length();
  if (!debugging().scheddetail) {
    out << " [ ";
    for (int i = 0; i < count; ++i) out << ps_[i]->queue.ring_length() << ' ';
    out << "] schedticks=[ ";
    for (int i = 0; i < count; ++i) out << ps_[i]->slices.read() << ' ';
    out << "]\n";
    return;
  }
  out << " gcwaiting=false nmidlelocked=" << locked_sleepers_ << " stopwait=0 sysmonwait=false\n";
  print_ps_locked(out);
  print_ms_locked(out);
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
  constexpr int k_idle = 0, k_running = 1, k_in_call = 2;  // Go's numbers
  for (int i = 0; i < procs(); ++i) {
    const P& p = *ps_[i];
    // acquire pairs with acquire_p(); it lives while we hold the lock. relaxed: a moment's view.
    const M* const m = p.m.load(acquire);
    const bool beside = m != nullptr && m->call_p.load(relaxed) == &p;
    const int status = m == nullptr ? k_idle : beside ? k_in_call : k_running;
    out << "  P" << i << ": status=" << status << " schedtick=" << p.slices.read()
        << " syscalltick=" << (m != nullptr ? m->calls.load(relaxed) : 0);  // relaxed: as above
    print_id(out, " m=", m != nullptr, m != nullptr ? m->id : 0);
    out << " runqsize=" << p.queue.ring_length() << " gfreecnt=0 timerslen=" << p.timers.pending()
        << '\n';
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

}  // namespace magpie::rt
