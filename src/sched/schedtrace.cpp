// schedtrace.cpp: MAGPIE_DEBUG=schedtrace=MS, a line about the runtime every so often, in the
// format that readers of Go's know; scheddetail=1 adds a line for each P.

#include "base/print.h"
#include "sched/debug_settings.h"
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
  for (int i = 0; i < count; ++i) {
    const P& p = *ps_[i];
    const M* const m =
        p.m.load(acquire);  // pairs with acquire_p(); it lives while we hold the lock
    out << "  P" << i << ": status=" << (m != nullptr ? 1 : 0) << " schedtick=" << p.slices.read()
        << " syscalltick=" << (m != nullptr ? m->calls.load(relaxed) : 0)  // relaxed: as above
        << " m=";
    if (m != nullptr) {
      out << m->id;
    } else {
      out << "nil";
    }
    out << " runqsize=" << p.queue.ring_length() << " gfreecnt=0 timerslen=0\n";
  }
}

}  // namespace magpie::rt
