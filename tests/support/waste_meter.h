// Work conservation, measured: for how long there was a goroutine to run and an idle P, and nobody
// who looked for work.
//
// Such an episode begins with a step that some thread takes inside the runtime: it publishes a
// goroutine, lets its P go, or stops spinning. Before that thread leaves the runtime, or falls
// asleep there, it sees to it that somebody looks. So what an episode may last is the time which
// that thread takes for it, and that is next to nothing, unless the kernel takes its processor away
// in between. That is nobody's fault, and on a machine with fewer processors than threads it
// happens all the time. Therefore the clock of an episode is the CPU time of who may be about to
// end it:
//
//   - a suspect is a thread that was inside the runtime when the episode was first seen, and
//     whenever it was looked at since;
//   - while a suspect is able to run, time that it has no processor for does not count;
//   - all other time does. Without a suspect, or with all of them asleep, it is that on the wall.
//
// A goroutine in run_next counts when it has been there since the last look, and its P has not
// begun anything since: it is not about to be run there.
//
// What happens between two looks is not seen, but a search for work is, by the count of attempts to
// steal: after one, it is another episode. Looks that are too far apart prove nothing.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <magpie/runtime.h>

#include "os/clock.h"
#include "os/thread_view.h"
#include "sched/idle.h"

namespace magpie::rt::testing {

struct suspect {
  os::thread_id thread = 0;
  bool could_run = false;  // or did
  os::nanos cpu_time = 0;
  os::nanos at = 0;  // when it was looked at
};

// The arithmetic, apart from where the numbers come from.
class episode {
 public:
  // `inside`: all threads that are inside the runtime now.
  void look(os::nanos now, bool is_waste, std::uint64_t searches, std::vector<suspect> inside) {
    const os::nanos passed = now - std::exchange(last_look_, now);
    const bool searched = searches != std::exchange(searches_, searches);
    const bool goes_on = lasts_ && is_waste && !searched && passed <= k_gap;
    lasts_ = is_waste;
    if (passed <= k_gap) covered_ += passed;
    if (!goes_on) {
      counted_ = 0;
      suspects_ = std::move(inside);
      return;
    }
    os::nanos excused = 0;
    std::vector<suspect> still;
    for (const suspect& now_seen : inside) {
      const auto before = std::ranges::find(suspects_, now_seen.thread, &suspect::thread);
      if (before == suspects_.end()) continue;
      still.push_back(now_seen);
      const os::nanos ran = now_seen.cpu_time - before->cpu_time;
      if (now_seen.could_run) excused = std::max(excused, now_seen.at - before->at - ran);
    }
    suspects_ = std::move(still);
    counted_ += passed - std::clamp<os::nanos>(excused, 0, passed);
    longest_ = std::max(longest_, counted_);
  }

  os::nanos longest() const { return longest_; }
  os::nanos covered() const { return covered_; }

 private:
  static constexpr os::nanos k_gap = 500'000;

  bool lasts_ = false;
  os::nanos last_look_ = 0;
  std::uint64_t searches_ = 0;
  os::nanos counted_ = 0;
  os::nanos longest_ = 0;
  os::nanos covered_ = 0;
  std::vector<suspect> suspects_;
};

class waste_meter {
 public:
  explicit waste_meter(const runtime& r) : scheduler_(scheduler_of(r)) {
    // The monitor and the spawner are inside the runtime all the time.
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::string name;
      std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
      if (name.starts_with("magpie-")) servants_.push_back(std::stoi(task.path().filename()));
    }
  }

  void look() {
    const bool is_waste = looks_wasteful();
    std::vector<suspect> inside;
    if (is_waste) inside = threads_inside();
    episode_.look(os::now(), is_waste, searches(), std::move(inside));
    ++looks_;
    looks_at_waste_ += is_waste;
  }

  os::nanos longest() const { return episode_.longest(); }
  os::nanos covered() const { return episode_.covered(); }
  std::uint64_t looks() const { return looks_; }
  std::uint64_t looks_at_waste() const { return looks_at_waste_; }

  // While one exists whoever brings work believes that somebody looks for it.
  class false_spinner {
   public:
    explicit false_spinner(waste_meter& meter) : meter_(meter) {
      meter_.scheduler_.spinning_.fetch_add(1);
    }
    ~false_spinner() { meter_.scheduler_.spinning_.fetch_sub(1); }

   private:
    waste_meter& meter_;
  };
  void make_good() { scheduler_.wake_p(); }

 private:
  struct next_one {
    const G* g = nullptr;
    std::uint64_t turns = 0;
    bool operator==(const next_one&) const = default;
  };

  bool looks_wasteful() {
    bool work = scheduler_.global_.length() != 0;
    const int count = scheduler_.ps_made_.load(acquire);  // pairs with the release in set_procs()
    next_ones_.resize(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      const P& p = *scheduler_.ps_[i];
      const next_one next{p.queue.peek_next(), p.turns.read()};
      const bool stays = std::exchange(next_ones_[static_cast<std::size_t>(i)], next) == next;
      work |= p.queue.ring_length() != 0 || p.stopped.count.load(relaxed) != 0;  // relaxed: a look
      work |= next.g != nullptr && stays;
    }
    // relaxed: as above.
    return work && scheduler_.idle_count_.load(relaxed) != 0 &&
           scheduler_.spinning_.load(relaxed) == 0;  // relaxed: as above
  }

  std::uint64_t searches() const {
    std::uint64_t sum = 0;
    const int count = scheduler_.ps_made_.load(acquire);  // pairs with the release in set_procs()
    for (int i = 0; i < count; ++i) sum += scheduler_.ps_[i]->counters.steal_attempts.read();
    return sum;
  }

  std::vector<suspect> threads_inside() {
    std::vector<suspect> all;
    for (const os::thread_id thread : servants_) all.push_back({.thread = thread});
    {
      const os::lock_guard hold(scheduler_.lock_);  // an M does not end meanwhile
      for (M* m = scheduler_.all_ms_.front(); m != nullptr; m = scheduler_.all_ms_.next(m)) {
        if (m->depth.load(relaxed) != 0) all.push_back({.thread = m->thread});  // relaxed: a look
      }
    }
    for (suspect& one : all) {
      one.could_run = os::look_at_thread(one.thread).activity == os::thread_activity::running;
      one.cpu_time = os::cpu_time_of(one.thread);
      one.at = os::now();
    }
    return all;
  }

  scheduler& scheduler_;
  std::vector<os::thread_id> servants_;
  std::vector<next_one> next_ones_;
  episode episode_;
  std::uint64_t looks_ = 0;
  std::uint64_t looks_at_waste_ = 0;
};

}  // namespace magpie::rt::testing
