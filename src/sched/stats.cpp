// stats.cpp: the counters of a runtime, added up over its Ps.

#include "sched/scheduler.h"

namespace magpie::rt {

// Ends are read before beginnings: both only grow, and an end comes after its beginning, so the
// difference is never below the truth at the moment in between. 0 is certain.
std::uint64_t scheduler::live_goroutines() const {
  std::uint64_t finished = 0, spawned = 0;
  int count = ps_made_.load(acquire);  // pairs with the release in resize()
  // With each end the beginnings that came before it are visible, too, on however many Ps there are
  // by now. By the reads themselves: ThreadSanitizer does not know fences, and users who destroy
  // something when nobody is left rely on this.
  for (int i = 0; i < count; ++i) finished += ps_[i]->counters.finished.read_and_see();
  count = ps_made_.load(acquire);  // as above
  for (int i = 0; i < count; ++i) spawned += ps_[i]->counters.spawned.read();
  spawned += spawned_outside_.load(relaxed);  // relaxed: kept in order by the reads above
  return spawned - finished;
}

stats scheduler::read_stats() const {
  stats all;
  all.goroutines = live_goroutines();
  const int count = ps_made_.load(acquire);  // pairs with the release in resize()
  for (int i = 0; i < count; ++i) {
    const p_counters& c = ps_[i]->counters;
    all.spawned += c.spawned.read();
    all.finished += c.finished.read();
    all.parks += c.parks.read();
    all.readies += c.readies.read();
    all.steal_attempts += c.steal_attempts.read();
    all.steals += c.steals.read();
    all.stolen += c.stolen.read();
    all.preemptions += c.preemptions.read();
    all.hand_offs += c.hand_offs.read();
    if (i < procs()) all.local_queue_lengths.push_back(ps_[i]->queue.ring_length());
  }
  all.procs = procs();
  all.idle_procs = idle_count_.load(relaxed);  // relaxed: a moment's view
  all.spinning = spinning_.load(relaxed);      // as above
  all.global_queue_length = global_.length();
  all.timer_fires = timer_fires_.load(relaxed);          // as above
  all.netpoll_wakeups = netpoll_wakeups_.load(relaxed);  // as above
  const os::lock_guard hold(lock_);
  all.spawned += spawned_outside_.load(relaxed);  // relaxed: a moment's view
  all.readies += readied_outside_;
  all.retakes = retakes_;
  all.threads = threads_;
  all.threads_peak = threads_peak_;
  all.idle_threads = static_cast<int>(idle_ms_.size());
  return all;
}

}  // namespace magpie::rt
