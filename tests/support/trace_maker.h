// Makes traces for tests: a scheduler played with dice, that writes every kind of event magpie
// knows, over several generations. What it does is always possible, so every reader must accept it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "trace/batch.h"

namespace magpie::rt::testing {

struct trace_recipe {
  std::uint64_t seed = 1;
  trace::version format = trace::k_default_version;
  int threads = 6;
  int procs = 4;
  int generations = 3;
  std::uint64_t events = 1000;    // in each generation, or a few more
  std::size_t batch_size = 4096;  // small: many batches
  std::uint64_t skew = 0;         // clocks of threads differ by up to so many nanoseconds
  std::uint64_t step_nanos = 1000;
  std::size_t most_goroutines = 200;
};

class trace_maker {
 public:
  explicit trace_maker(const trace_recipe& recipe)
      : recipe_(recipe),
        random_(recipe.seed),
        ms_(static_cast<std::size_t>(recipe.threads)),
        ps_(static_cast<std::size_t>(recipe.procs)) {
    const auto header = trace::file_header(recipe.format);
    file_.assign(header.begin(), header.end());
    for (std::size_t i = 0; i < ms_.size(); ++i) {
      ms_[i].id = 1000 + i;
      if (recipe.skew > 0) ms_[i].ahead = random_.below(static_cast<std::uint32_t>(recipe.skew));
    }
    // The program's first goroutine runs when the trace begins; some sleep, some want to run.
    new_goroutine(trace::g_status::running, false);
    ms_[0].g = gs_.back().get();
    take_p(ms_[0], ps_[0]);
    for (int i = 0; i < 3; ++i) new_goroutine(trace::g_status::waiting, false);
    for (int i = 0; i < 3; ++i) new_goroutine(trace::g_status::runnable, false);
  }

  std::vector<std::uint8_t> make() {
    for (int i = 0; i < recipe_.generations; ++i) {
      begin_generation();
      for (const std::uint64_t before = events_; events_ - before < recipe_.events;) do_something();
      end_generation();
    }
    return file_;
  }

  [[nodiscard]] std::uint64_t events() const { return events_; }

 private:
  struct machine;
  struct goroutine {
    std::uint64_t id;
    trace::g_status status;
    bool foreign;  // a plain thread's, inside the runtime for a while
    std::uint64_t sequence = 0;
    std::vector<std::pair<std::uint64_t, std::string>> regions;
  };
  struct proc {
    trace::p_status status = trace::p_status::idle;
    machine* m = nullptr;
    std::uint64_t abandoned_by = 0;
    std::uint64_t sequence = 0;
  };
  struct machine {
    std::uint64_t id = 0;
    std::uint64_t ahead = 0;
    goroutine* g = nullptr;
    proc* p = nullptr;
    bool begun = false;
    trace::batch_writer out;
    std::vector<std::uint8_t> memory;
  };

  goroutine& new_goroutine(trace::g_status status, bool foreign) {
    gs_.push_back(std::make_unique<goroutine>(goroutine{++last_g_, status, foreign, 0, {}}));
    return *gs_.back();
  }
  void forget(goroutine* g) {
    gs_.erase(
        std::find_if(gs_.begin(), gs_.end(), [&](const auto& each) { return each.get() == g; }));
  }
  std::uint64_t number_of(const proc& p) const {
    return static_cast<std::uint64_t>(&p - ps_.data());
  }
  bool one_in(std::uint32_t n) { return random_.below(n) == 0; }

  void take_p(machine& m, proc& p) {
    p.status = trace::p_status::running;
    p.m = &m;
    m.p = &p;
  }
  void lose_p(proc& p) {
    p.status = trace::p_status::idle;
    p.m->p = nullptr;
    p.m = nullptr;
  }

  // Writing.

  void append(std::span<const std::uint8_t> bytes) {
    file_.insert(file_.end(), bytes.begin(), bytes.end());
  }

  template <trace::event kind, class... Numbers>
  void write(machine& m, Numbers... numbers) {
    const std::uint64_t now = clock_ + m.ahead;
    if (!m.begun) begin_batch(m, now);
    if (!m.out.template write<kind>(now, numbers...)) {
      append(m.out.finish());
      begin_batch(m, std::max(now, m.out.last()));
      m.out.template write<kind>(now, numbers...);
    }
    ++events_;
  }
  void begin_batch(machine& m, std::uint64_t now) {
    m.memory.resize(std::max(recipe_.batch_size, trace::k_min_batch_memory));
    m.out.begin_events(m.memory, generation_, m.id, now);
    m.begun = true;
  }

  std::uint64_t string(const std::string& text) {
    return strings_.try_emplace(text, strings_.size() + 1).first->second;
  }
  // A stack like func, middle, root: the root names the goroutine.
  std::uint64_t stack(const std::string& leaf, std::uint64_t g) {
    const std::string root = "worker_" + std::to_string(g % 5);
    const auto [place, fresh] = stacks_.try_emplace({leaf, root}, stacks_.size() + 1);
    if (fresh) {
      frames_.push_back({{pc(leaf), string(leaf), string("leaf.cpp"), 10},
                         {pc("middle"), string("middle"), string("middle.cpp"), 20},
                         {pc(root), string(root), string("main.cpp"), 30}});
    }
    return place->second;
  }
  std::uint64_t entry_stack(std::uint64_t g) {
    const std::string root = "worker_" + std::to_string(g % 5);
    const auto [place, fresh] = stacks_.try_emplace({"", root}, stacks_.size() + 1);
    if (fresh) frames_.push_back({{pc(root), string(root), string("main.cpp"), 30}});
    return place->second;
  }
  std::uint64_t pc(const std::string& function) {
    return pcs_.try_emplace(function, 0x400000 + 16 * pcs_.size()).first->second;
  }

  void begin_generation() {
    ++generation_;
    strings_.clear();
    stacks_.clear();
    frames_.clear();
    std::uint8_t memory[trace::k_max_sync_batch];
    const std::size_t size =
        trace::write_sync(memory, recipe_.format, generation_,
                          {1'000'000'000, clock_, clock_, 1'700'000'000 + generation_, 5});
    append({memory, size});
    for (auto& g : gs_) g->sequence = 0;
    for (proc& p : ps_) p.sequence = 0;
    machine nobody;
    nobody.id = trace::k_nobody;
    std::vector<const goroutine*> bound;
    for (machine& m : ms_) {
      if (m.p != nullptr) write<trace::event::proc_status>(m, number_of(*m.p), m.p->status);
      if (m.g == nullptr) continue;
      write<trace::event::go_status>(m, m.g->id, m.id, m.g->status);
      bound.push_back(m.g);
    }
    for (const proc& p : ps_) {
      if (p.m == nullptr) write<trace::event::proc_status>(nobody, number_of(p), p.status);
    }
    for (const auto& g : gs_) {
      if (std::find(bound.begin(), bound.end(), g.get()) != bound.end()) continue;
      if (recipe_.format >= trace::version::go123 && one_in(2)) {
        write<trace::event::go_status_stack>(nobody, g->id, trace::k_nobody, g->status,
                                             entry_stack(g->id));
      } else {
        write<trace::event::go_status>(nobody, g->id, trace::k_nobody, g->status);
      }
    }
    if (nobody.begun) append(nobody.out.finish());
    for (machine& m : ms_) {
      if (m.g == nullptr || m.g->status != trace::g_status::running) continue;
      write<trace::event::procs_change>(m, ps_.size(), 0);
      break;
    }
  }

  void end_generation() {
    for (machine& m : ms_) {
      if (m.begun) append(m.out.finish());
      m.begun = false;
    }
    // Stacks use strings, so they come first; either may need several batches.
    std::vector<std::uint8_t> memory(trace::k_min_batch_memory);
    trace::batch_writer out;
    out.begin_stacks(memory, generation_, clock_);
    for (std::size_t i = 0; i < frames_.size(); ++i) {
      if (out.write_stack(i + 1, frames_[i])) continue;
      append(out.finish());
      out.begin_stacks(memory, generation_, clock_);
      out.write_stack(i + 1, frames_[i]);
    }
    append(out.finish());
    out.begin_strings(memory, generation_, clock_);
    for (const auto& [text, id] : strings_) {
      if (out.write_string(id, text)) continue;
      append(out.finish());
      out.begin_strings(memory, generation_, clock_);
      out.write_string(id, text);
    }
    append(out.finish());
    if (trace::end_of_generation_size(recipe_.format) > 0) {
      file_.push_back(trace::k_end_of_generation);
    }
  }

  // Playing.

  void do_something() {
    clock_ += 1 + random_.below(static_cast<std::uint32_t>(2 * recipe_.step_nanos));
    machine& m = ms_[random_.below(static_cast<std::uint32_t>(ms_.size()))];
    if (m.g != nullptr && m.g->status == trace::g_status::syscall) {
      in_a_call(m);
    } else if (m.p == nullptr) {
      without_p(m);
    } else if (m.g == nullptr) {
      look_for_work(m);
    } else {
      run(m);
    }
  }

  void without_p(machine& m) {
    if (one_in(4)) pick_up_abandoned(m);
    if (one_in(10) && gs_.size() < recipe_.most_goroutines) {
      goroutine& g = new_goroutine(trace::g_status::syscall, true);
      m.g = &g;
      write<trace::event::go_create_syscall>(m, g.id);
    } else {
      start_p(m);
    }
  }
  bool start_p(machine& m) {
    for (proc& p : ps_) {
      if (p.status != trace::p_status::idle) continue;
      take_p(m, p);
      write<trace::event::proc_start>(m, number_of(p), ++p.sequence);
      return true;
    }
    return false;
  }

  goroutine* any(trace::g_status status) {
    const std::size_t begin = random_.below(static_cast<std::uint32_t>(gs_.size()));
    for (std::size_t i = 0; i < gs_.size(); ++i) {
      goroutine* const g = gs_[(begin + i) % gs_.size()].get();
      const bool bound =
          std::any_of(ms_.begin(), ms_.end(), [&](const machine& m) { return m.g == g; });
      if (g->status == status && !bound) return g;
    }
    return nullptr;
  }

  void look_for_work(machine& m) {
    if (one_in(4)) pick_up_abandoned(m);
    goroutine* const g = any(trace::g_status::runnable);
    if (g != nullptr && !one_in(10)) {
      start(m, *g);
    } else if (one_in(2)) {
      unblock(m);
    } else {
      write<trace::event::proc_stop>(m);
      lose_p(*m.p);
    }
  }
  void start(machine& m, goroutine& g) {
    g.status = trace::g_status::running;
    m.g = &g;
    write<trace::event::go_start>(m, g.id, ++g.sequence);
  }
  void unblock(machine& m) {
    goroutine* const g = any(trace::g_status::waiting);
    if (g == nullptr) return;
    g->status = trace::g_status::runnable;
    write<trace::event::go_unblock>(m, g->id, ++g->sequence,
                                    m.g != nullptr ? stack("wake", m.g->id) : 0);
  }

  void in_a_call(machine& m) {
    if (m.p != nullptr) {
      switch (random_.below(4)) {
        case 0:
          if (m.g->foreign) break;
          m.g->status = trace::g_status::running;
          m.p->status = trace::p_status::running;
          write<trace::event::go_syscall_end>(m);
          return;
        case 1:
          write<trace::event::proc_stop>(m);
          lose_p(*m.p);
          return;
        case 2: {
          machine& thief = ms_[random_.below(static_cast<std::uint32_t>(ms_.size()))];
          write<trace::event::proc_steal>(thief, number_of(*m.p), ++m.p->sequence, m.id);
          lose_p(*m.p);
          return;
        }
        default:
          if (m.g->foreign) leave(m);
          return;
      }
      return;
    }
    if (m.g->foreign && one_in(4)) return leave(m);
    goroutine& g = *m.g;
    const bool found_p = one_in(2) && start_p(m);
    g.status = trace::g_status::runnable;
    m.g = nullptr;
    write<trace::event::go_syscall_end_blocked>(m);
    if (found_p) start(m, g);
  }

  // A plain thread goes back to where it came from; a P that it had is left lying about.
  void leave(machine& m) {
    write<trace::event::go_destroy_syscall>(m);
    forget(m.g);
    m.g = nullptr;
    if (m.p == nullptr) return;
    m.p->status = trace::p_status::syscall_abandoned;
    m.p->abandoned_by = m.id;
    m.p->m = nullptr;
    m.p = nullptr;
    ++events_;  // readers also say that the P was lost
  }
  void pick_up_abandoned(machine& m) {
    for (proc& p : ps_) {
      if (p.status != trace::p_status::syscall_abandoned) continue;
      p.status = trace::p_status::idle;
      write<trace::event::proc_steal>(m, number_of(p), ++p.sequence, p.abandoned_by);
    }
  }

  void run(machine& m) {
    goroutine& g = *m.g;
    switch (random_.below(16)) {
      case 0:
      case 1:
        create(m);
        break;
      case 2:
      case 3:
        unblock(m);
        break;
      case 4:
      case 5: {
        static const char* const k_reasons[] = {"chan receive", "chan send", "select",
                                                "sleep",        "sync",      "network"};
        g.status = trace::g_status::waiting;
        m.g = nullptr;
        write<trace::event::go_block>(m, string(k_reasons[random_.below(6)]), stack("wait", g.id));
        break;
      }
      case 6:
        g.status = trace::g_status::runnable;
        m.g = nullptr;
        write<trace::event::go_stop>(m, string(one_in(2) ? "preempted" : "runtime.Gosched"),
                                     stack("loop", g.id));
        break;
      case 7:
        if (g.foreign) break;
        write<trace::event::go_destroy>(m);
        forget(&g);
        m.g = nullptr;
        break;
      case 8:
      case 9:
        g.status = trace::g_status::syscall;
        m.p->status = trace::p_status::syscall;
        write<trace::event::go_syscall_begin>(m, ++m.p->sequence, stack("read", g.id));
        break;
      case 10:
        if (recipe_.format >= trace::version::go123) switch_to_another(m);
        break;
      default:
        say_something(m);
    }
  }
  void create(machine& m) {
    if (gs_.size() >= recipe_.most_goroutines) return;
    const bool blocked = recipe_.format >= trace::version::go123 && one_in(5);
    goroutine& g =
        new_goroutine(blocked ? trace::g_status::waiting : trace::g_status::runnable, false);
    if (blocked) {
      write<trace::event::go_create_blocked>(m, g.id, entry_stack(g.id), stack("spawn", m.g->id));
    } else {
      write<trace::event::go_create>(m, g.id, entry_stack(g.id), stack("spawn", m.g->id));
    }
  }
  void switch_to_another(machine& m) {
    goroutine* const to = any(trace::g_status::waiting);
    if (to == nullptr) return;
    goroutine* const from = m.g;
    to->status = trace::g_status::running;
    m.g = to;
    if (one_in(3) && !from->foreign) {
      write<trace::event::go_switch_destroy>(m, to->id, ++to->sequence);
      forget(from);
    } else {
      from->status = trace::g_status::waiting;
      write<trace::event::go_switch>(m, to->id, ++to->sequence);
    }
    events_ += 2;  // readers give it as three
  }
  void say_something(machine& m) {
    goroutine& g = *m.g;
    switch (random_.below(6)) {
      case 0: {
        const std::uint64_t task = tasks_.empty() ? 0 : tasks_.back();
        const std::string name = "region " + std::to_string(random_.below(4));
        g.regions.emplace_back(task, name);
        write<trace::event::region_begin>(m, task, string(name), 0);
        break;
      }
      case 1:
        if (g.regions.empty()) break;
        write<trace::event::region_end>(m, g.regions.back().first, string(g.regions.back().second),
                                        0);
        g.regions.pop_back();
        break;
      case 2:
        tasks_.push_back(++last_task_);
        write<trace::event::task_begin>(m, last_task_, 0, string("request"), stack("serve", g.id));
        break;
      case 3:
        if (tasks_.empty()) break;
        write<trace::event::task_end>(m, tasks_.front(), 0);
        tasks_.pop_front();
        break;
      case 4:
        write<trace::event::log>(m, tasks_.empty() ? 0 : tasks_.back(), string("state"),
                                 string("value " + std::to_string(random_.below(50))), 0);
        break;
      case 5:
        write<trace::event::go_label>(m, string("label"));
        break;
    }
    if (one_in(50)) {
      write<trace::event::stw_begin>(m, string("GOMAXPROCS"), 0);
      write<trace::event::stw_end>(m);
      write<trace::event::procs_change>(m, ps_.size(), 0);
    }
  }

  trace_recipe recipe_;
  random_source random_;
  std::vector<std::uint8_t> file_;
  std::vector<machine> ms_;
  std::vector<proc> ps_;
  std::vector<std::unique_ptr<goroutine>> gs_;
  std::deque<std::uint64_t> tasks_;
  std::map<std::string, std::uint64_t> strings_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> stacks_;
  std::vector<std::vector<trace::frame>> frames_;
  std::map<std::string, std::uint64_t> pcs_;
  std::uint64_t clock_ = 5'000'000'000;
  std::uint64_t generation_ = 0;
  std::uint64_t last_g_ = 0;
  std::uint64_t last_task_ = 0;
  std::uint64_t events_ = 0;
};

}  // namespace magpie::rt::testing
