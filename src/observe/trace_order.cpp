// trace_order.cpp: one function per kind of event. Each first asks whether the event must wait,
// then whether it is possible at all, and then does what it says.

#include "observe/trace_order.h"

#include <algorithm>

namespace magpie::rt {

using trace::event;
using trace::g_status;
using trace::p_status;

namespace {

std::string number(std::uint64_t value) {
  return value == trace::k_nobody ? std::string("-1") : std::to_string(value);
}

std::string_view name_of(g_status status) {
  constexpr std::string_view k_names[] = {"?", "runnable", "running", "in a system call",
                                          "waiting"};
  return k_names[static_cast<std::size_t>(status)];
}

std::string_view name_of(p_status status) {
  constexpr std::string_view k_names[] = {"?", "running", "idle", "in a system call",
                                          "abandoned in a system call"};
  return k_names[static_cast<std::size_t>(status)];
}

std::string goroutine_name(std::uint64_t g) { return "goroutine " + number(g); }
std::string proc_name(std::uint64_t p) { return "P " + number(p); }

// The event that begins what `kind` continues or ends.
event beginning_of(event kind) {
  switch (kind) {
    case event::stw_end:
      return event::stw_begin;
    case event::gc_mark_assist_active:
    case event::gc_mark_assist_end:
      return event::gc_mark_assist_begin;
    case event::gc_sweep_active:
    case event::gc_sweep_end:
      return event::gc_sweep_begin;
    default:
      return kind;
  }
}

}  // namespace

void trace_order::begin_generation(const trace_generation& generation) {
  tables_ = &generation;
  generation_ = generation.number;
  if (first_ == 0) first_ = generation_;
}

trace_order::goroutine* trace_order::find_g(std::uint64_t id) {
  const auto found = gs_.find(id);
  return found != gs_.end() ? &found->second : nullptr;
}

trace_order::proc* trace_order::find_p(std::uint64_t id) {
  const auto found = ps_.find(id);
  return found != ps_.end() ? &found->second : nullptr;
}

trace_order::verdict trace_order::broken(const trace_event& event, std::string_view what) {
  problem_ = trace::facts_of(event.kind).name;
  problem_ += " of thread " + number(event.m) + ": ";
  problem_ += what;
  return verdict::broken;
}

trace_order::verdict trace_order::advance(trace_event& event, std::vector<trace_event>& out) {
  // Nobody's events bind nothing.
  thread nobody;
  thread& self = event.m == k_nobody ? nobody : ms_[event.m];
  event.p = self.p;
  event.g = self.g;
  return dispatch(event, self, out);
}

trace_order::verdict trace_order::dispatch(trace_event& event, thread& self,
                                           std::vector<trace_event>& out) {
  const auto one = [&](verdict result) {
    if (result == verdict::done) out.push_back(event);
    return result;
  };
  switch (event.kind) {
    case event::proc_start:
      return one(proc_start(event, self));
    case event::proc_stop:
      return one(proc_stop(event, self));
    case event::proc_steal:
      return one(proc_steal(event, self));
    case event::proc_status:
      return one(proc_status(event, self));
    case event::go_create:
    case event::go_create_blocked:
      return one(go_create(event, self));
    case event::go_create_syscall:
      return one(go_create_syscall(event, self));
    case event::go_start:
      return one(go_start(event, self));
    case event::go_destroy:
    case event::go_stop:
    case event::go_block:
      return one(go_leave(event, self));
    case event::go_destroy_syscall:
      return go_destroy_syscall(event, self, out);
    case event::go_unblock:
      return one(go_unblock(event));
    case event::go_switch:
    case event::go_switch_destroy:
      return go_switch(event, self, out);
    case event::go_syscall_begin:
      return one(go_syscall_begin(event, self));
    case event::go_syscall_end:
      return one(go_syscall_end(event, self));
    case event::go_syscall_end_blocked:
      return one(go_syscall_end_blocked(event, self));
    case event::go_status:
    case event::go_status_stack:
      return one(go_status(event, self));
    case event::stw_begin:
    case event::stw_end:
    case event::gc_mark_assist_active:
    case event::gc_mark_assist_begin:
    case event::gc_mark_assist_end:
      return one(go_range(event, self));
    case event::gc_sweep_active:
    case event::gc_sweep_begin:
    case event::gc_sweep_end:
      return one(p_range(event, self));
    case event::gc_active:
    case event::gc_begin:
    case event::gc_end:
      return one(collection(event, self));
    default:
      return one(annotation(event, self));
  }
}

bool trace_order::needs(const trace_event& event, const thread& self, bool p, bool g) {
  if (event.m == k_nobody) {
    broken(event, "it needs a thread");
  } else if (p && self.p == k_nobody) {
    broken(event, "it needs a P, and the thread has none");
  } else if (g && self.g == k_nobody) {
    broken(event, "it needs a goroutine, and the thread runs none");
  } else {
    return true;
  }
  return false;
}

// Ps.

trace_order::verdict trace_order::proc_start(const trace_event& event, thread& self) {
  proc* const p = find_p(event.arguments[0]);
  if (p == nullptr || p->status != p_status::idle || !follows(p->last, event.arguments[1]) ||
      self.p != k_nobody) {
    return verdict::not_yet;
  }
  if (!needs(event, self, false, false)) return verdict::broken;
  p->status = p_status::running;
  p->last.number = event.arguments[1];
  self.p = event.arguments[0];
  return verdict::done;
}

trace_order::verdict trace_order::proc_stop(const trace_event& event, thread& self) {
  if (!needs(event, self, true, false)) return verdict::broken;
  proc* const p = find_p(self.p);
  if (p == nullptr || (p->status != p_status::running && p->status != p_status::syscall)) {
    return broken(event, proc_name(self.p) + " is not running");
  }
  p->status = p_status::idle;
  self.p = k_nobody;
  return verdict::done;
}

trace_order::verdict trace_order::proc_steal(const trace_event& event, thread& self) {
  const std::uint64_t id = event.arguments[0];
  const std::uint64_t victim = event.arguments[2];
  proc* const p = find_p(id);
  if (p == nullptr ||
      (p->status != p_status::syscall && p->status != p_status::syscall_abandoned) ||
      !follows(p->last, event.arguments[1])) {
    return verdict::not_yet;
  }
  if (!needs(event, self, false, false)) return verdict::broken;
  const bool abandoned = p->status == p_status::syscall_abandoned;
  p->status = p_status::idle;
  p->last.number = event.arguments[1];
  // Whose it was is not known then, and that thread has gone on.
  if (abandoned) return verdict::done;
  const auto found = ms_.find(victim);
  if (found == ms_.end()) {
    return broken(event, proc_name(id) + " is taken from thread " + number(victim) +
                             ", which does not exist");
  }
  thread& from = found->second;
  if (from.p != id) {
    return broken(event, proc_name(id) + " is taken from thread " + number(victim) +
                             ", which has " +
                             (from.p == k_nobody ? std::string("none") : proc_name(from.p)));
  }
  from.p = k_nobody;
  return verdict::done;
}

trace_order::verdict trace_order::proc_status(trace_event& event, thread& self) {
  const std::uint64_t id = event.arguments[0];
  if (event.arguments[1] < 1 || event.arguments[1] > 4) {
    return broken(event, "unknown status " + number(event.arguments[1]) + " of " + proc_name(id));
  }
  const auto status = static_cast<p_status>(event.arguments[1]);
  const bool binds = status == p_status::running || status == p_status::syscall;
  proc* const known = find_p(id);
  if (known == nullptr) {
    ps_.emplace(id, proc{status, {generation_, 0}, {}});
  } else if (status == p_status::syscall_abandoned && known->status == p_status::syscall) {
    // We know better: it is bound to a thread, and that is about to lose it.
    known->last = {generation_, 0};
    for (const auto& [m, bound] : ms_) {
      if (bound.p != id) continue;
      event.m = m;
      event.p = id;
      event.g = bound.g;
      event.arguments[1] = static_cast<std::uint64_t>(p_status::syscall);
      return verdict::done;
    }
    return broken(event, proc_name(id) + " is in a system call on no thread");
  } else if (known->status != status) {
    return broken(event, proc_name(id) + " is said to be " + std::string(name_of(status)) +
                             ", but it is " + std::string(name_of(known->status)));
  } else {
    known->last = {generation_, 0};
  }
  if (binds) self.p = id;
  return verdict::done;
}

// Goroutines.

trace_order::verdict trace_order::go_create(const trace_event& event, const thread& self) {
  if (!needs(event, self, true, false)) return verdict::broken;
  const goroutine* const creator = self.g != k_nobody ? find_g(self.g) : nullptr;
  if (creator != nullptr && creator->status != g_status::running) {
    return broken(event, goroutine_name(self.g) + " creates, but is " +
                             std::string(name_of(creator->status)));
  }
  const g_status status =
      event.kind == event::go_create_blocked ? g_status::waiting : g_status::runnable;
  if (!gs_.emplace(event.arguments[0], goroutine{status, {generation_, 0}, {}, {}}).second) {
    return broken(event, goroutine_name(event.arguments[0]) + " exists already");
  }
  return verdict::done;
}

trace_order::verdict trace_order::go_create_syscall(const trace_event& event, thread& self) {
  if (!needs(event, self, false, false)) return verdict::broken;
  if (self.g != k_nobody) return broken(event, "the thread runs " + goroutine_name(self.g));
  goroutine fresh{g_status::syscall, {generation_, 0}, {}, {}};
  if (!gs_.emplace(event.arguments[0], std::move(fresh)).second) {
    return broken(event, goroutine_name(event.arguments[0]) + " exists already");
  }
  self.g = event.arguments[0];
  return verdict::done;
}

trace_order::verdict trace_order::go_start(const trace_event& event, thread& self) {
  goroutine* const g = find_g(event.arguments[0]);
  if (g == nullptr || g->status != g_status::runnable || !follows(g->last, event.arguments[1])) {
    return verdict::not_yet;
  }
  if (!needs(event, self, true, false)) return verdict::broken;
  if (self.g != k_nobody) {
    return broken(event, goroutine_name(event.arguments[0]) + " starts where " +
                             goroutine_name(self.g) + " runs");
  }
  g->status = g_status::running;
  g->last.number = event.arguments[1];
  self.g = event.arguments[0];
  return verdict::done;
}

trace_order::verdict trace_order::go_leave(const trace_event& event, thread& self) {
  if (!needs(event, self, true, true)) return verdict::broken;
  goroutine* const g = find_g(self.g);
  if (g == nullptr) return broken(event, goroutine_name(self.g) + " does not exist");
  if (g->status != g_status::running) {
    return broken(
        event, goroutine_name(self.g) + " is " + std::string(name_of(g->status)) + ", not running");
  }
  if (event.kind == event::go_destroy) {
    gs_.erase(self.g);
  } else {
    g->status = event.kind == event::go_stop ? g_status::runnable : g_status::waiting;
  }
  self.g = k_nobody;
  return verdict::done;
}

trace_order::verdict trace_order::go_unblock(const trace_event& event) {
  goroutine* const g = find_g(event.arguments[0]);
  if (g == nullptr || g->status != g_status::waiting || !follows(g->last, event.arguments[1])) {
    return verdict::not_yet;
  }
  g->status = g_status::runnable;
  g->last.number = event.arguments[1];
  return verdict::done;
}

trace_order::verdict trace_order::go_switch(const trace_event& event, thread& self,
                                            std::vector<trace_event>& out) {
  if (!needs(event, self, true, true)) return verdict::broken;
  goroutine* const from = find_g(self.g);
  if (from == nullptr || from->status != g_status::running) {
    return broken(event, goroutine_name(self.g) + " is not running");
  }
  goroutine* const to = find_g(event.arguments[0]);
  if (to == nullptr || to->status != g_status::waiting || !follows(to->last, event.arguments[1])) {
    return verdict::not_yet;
  }
  trace_event part = event;
  part.arguments = {event.arguments[0], event.arguments[1]};
  part.kind = event::go_unblock;
  out.push_back(part);
  part.arguments = {};
  part.kind = event.kind == event::go_switch ? event::go_block : event::go_destroy;
  out.push_back(part);
  part.kind = event::go_start;
  part.g = k_nobody;
  part.arguments = {event.arguments[0], event.arguments[1]};
  out.push_back(part);

  to->status = g_status::running;
  to->last.number = event.arguments[1];
  if (event.kind == event::go_switch) {
    from->status = g_status::waiting;
  } else {
    gs_.erase(self.g);
  }
  self.g = event.arguments[0];
  return verdict::done;
}

// System calls.

trace_order::verdict trace_order::go_syscall_begin(const trace_event& event, const thread& self) {
  if (!needs(event, self, true, true)) return verdict::broken;
  goroutine* const g = find_g(self.g);
  proc* const p = find_p(self.p);
  if (g == nullptr || g->status != g_status::running) {
    return broken(event, goroutine_name(self.g) + " is not running");
  }
  if (p == nullptr) return broken(event, proc_name(self.p) + " does not exist");
  if (!follows(p->last, event.arguments[0])) {
    return broken(event, proc_name(self.p) + " comes with number " + number(event.arguments[0]) +
                             " after " + number(p->last.number));
  }
  g->status = g_status::syscall;
  p->status = p_status::syscall;
  p->last.number = event.arguments[0];
  return verdict::done;
}

trace_order::verdict trace_order::go_syscall_end(const trace_event& event, const thread& self) {
  if (!needs(event, self, true, true)) return verdict::broken;
  goroutine* const g = find_g(self.g);
  proc* const p = find_p(self.p);
  if (g == nullptr || g->status != g_status::syscall) {
    return broken(event, goroutine_name(self.g) + " is not in a system call");
  }
  if (p == nullptr || p->status != p_status::syscall) {
    return broken(event, proc_name(self.p) + " is not in a system call");
  }
  g->status = g_status::running;
  p->status = p_status::running;
  return verdict::done;
}

trace_order::verdict trace_order::go_syscall_end_blocked(const trace_event& event, thread& self) {
  if (self.p != k_nobody) {
    const proc* const p = find_p(self.p);
    if (p == nullptr) return broken(event, proc_name(self.p) + " does not exist");
    // It was taken away, but the thief's event has not come yet.
    if (p->status == p_status::syscall) return verdict::not_yet;
  }
  if (!needs(event, self, false, true)) return verdict::broken;
  goroutine* const g = find_g(self.g);
  if (g == nullptr || g->status != g_status::syscall) {
    return broken(event, goroutine_name(self.g) + " is not in a system call");
  }
  g->status = g_status::runnable;
  self.g = k_nobody;
  return verdict::done;
}

trace_order::verdict trace_order::go_destroy_syscall(trace_event& event, thread& self,
                                                     std::vector<trace_event>& out) {
  if (!needs(event, self, false, true)) return verdict::broken;
  const goroutine* const g = find_g(self.g);
  if (g == nullptr || g->status != g_status::syscall) {
    return broken(event, goroutine_name(self.g) + " is not in a system call");
  }
  if (self.p != k_nobody) {
    proc* const p = find_p(self.p);
    if (p == nullptr || p->status != p_status::syscall) {
      return broken(event, proc_name(self.p) + " is not in a system call");
    }
    // The thread leaves, and its P with it until somebody takes that.
    p->status = p_status::syscall_abandoned;
    trace_event part = event;
    part.kind = event::proc_steal;
    part.arguments = {self.p, p->last.number, event.m};
    out.push_back(part);
    self.p = k_nobody;
  }
  out.push_back(event);
  gs_.erase(self.g);
  self.g = k_nobody;
  return verdict::done;
}

trace_order::verdict trace_order::go_status(trace_event& event, thread& self) {
  const std::uint64_t id = event.arguments[0];
  const std::uint64_t m = event.arguments[1];
  if (event.arguments[2] < 1 || event.arguments[2] > 4) {
    return broken(event,
                  "unknown status " + number(event.arguments[2]) + " of " + goroutine_name(id));
  }
  const auto status = static_cast<g_status>(event.arguments[2]);
  goroutine* const known = find_g(id);
  if (known != nullptr) {
    if (known->status != status) {
      return broken(event, goroutine_name(id) + " is said to be " + std::string(name_of(status)) +
                               ", but it is " + std::string(name_of(known->status)));
    }
    known->last = {generation_, 0};
  } else if (first_generation()) {
    gs_.emplace(id, goroutine{status, {generation_, 0}, {}, {}});
  } else {
    return broken(event,
                  goroutine_name(id) + " was neither created nor listed in the first generation");
  }
  if (status == g_status::running) self.g = id;
  if (status != g_status::syscall) return verdict::done;

  if (m == k_nobody) return broken(event, goroutine_name(id) + " is in a system call on no thread");
  const auto wrong_thread = [&](std::uint64_t runs) {
    return broken(event, goroutine_name(id) + " is said to be in a system call on thread " +
                             number(m) + ", which has " +
                             (runs == k_nobody ? std::string("none") : goroutine_name(runs)));
  };
  if (m == event.m) {
    if (!first_generation() && self.g != id) return wrong_thread(self.g);
    self.g = id;
    return verdict::done;
  }
  const auto [found, fresh] = ms_.try_emplace(m, thread{k_nobody, id});
  if (!fresh && found->second.g != id) return wrong_thread(found->second.g);
  event.m = m;
  event.p = found->second.p;
  event.g = id;
  return verdict::done;
}

// Stretches: pauses and assists of a goroutine, sweeps of a P.

bool trace_order::begin_range(ranges& open, event kind, std::uint64_t which) {
  const std::pair range{kind, which};
  if (std::find(open.begin(), open.end(), range) != open.end()) return false;
  open.push_back(range);
  return true;
}

bool trace_order::end_range(ranges& open, event kind) {
  const auto found = std::find_if(open.begin(), open.end(),
                                  [&](const auto& range) { return range.first == kind; });
  if (found == open.end()) return false;
  *found = open.back();
  open.pop_back();
  return true;
}

trace_order::verdict trace_order::go_range(const trace_event& event, const thread& self) {
  const trace::event begin = beginning_of(event.kind);
  const bool active = event.kind == event::gc_mark_assist_active;
  if (!active && !needs(event, self, true, true)) return verdict::broken;
  const std::uint64_t id = active ? event.arguments[0] : self.g;
  goroutine* const g = find_g(id);
  if (g == nullptr) return broken(event, goroutine_name(id) + " does not exist");
  if (active && !first_generation()) {
    const std::pair range{begin, std::uint64_t{0}};
    if (std::find(g->open.begin(), g->open.end(), range) != g->open.end()) return verdict::done;
    return broken(event, "it never began");
  }
  if (active || event.kind == begin) {
    // A pause is known by the text of its kind, as an id; it does not outlive the generation.
    const std::uint64_t which = event.kind == event::stw_begin ? event.arguments[0] : 0;
    if (!begin_range(g->open, begin, which)) return broken(event, "it is under way already");
  } else if (!end_range(g->open, begin)) {
    return broken(event, "it never began");
  }
  return verdict::done;
}

trace_order::verdict trace_order::p_range(const trace_event& event, const thread& self) {
  const bool active = event.kind == event::gc_sweep_active;
  if (!active && !needs(event, self, true, false)) return verdict::broken;
  const std::uint64_t id = active ? event.arguments[0] : self.p;
  proc* const p = find_p(id);
  if (p == nullptr) return broken(event, proc_name(id) + " does not exist");
  if (active && !first_generation()) {
    if (!p->open.empty()) return verdict::done;
    return broken(event, "it never began");
  }
  if (active || event.kind == event::gc_sweep_begin) {
    if (!begin_range(p->open, event::gc_sweep_begin, 0)) {
      return broken(event, "it is under way already");
    }
  } else if (!end_range(p->open, event::gc_sweep_begin)) {
    return broken(event, "it never began");
  }
  return verdict::done;
}

trace_order::verdict trace_order::collection(const trace_event& event, const thread& self) {
  const std::uint64_t count = event.arguments[0];
  const bool first = event.kind != event::gc_end && collector_ == collector::unknown;
  if (event.kind == event::gc_active && first_generation() && !first) {
    return broken(event, "it is not the first event about the collector");
  }
  if (!first) {
    if (count != collections_ + 1) return verdict::not_yet;
    const bool running = collector_ == collector::running;
    if (running != (event.kind != event::gc_begin)) {
      return broken(event, running ? "a collection is under way" : "no collection is under way");
    }
    if (!needs(event, self, true, true)) return verdict::broken;
  }
  collections_ = count;
  collector_ = event.kind == event::gc_end ? collector::resting : collector::running;
  return verdict::done;
}

// What the program says about itself, and counters.

trace_order::verdict trace_order::annotation(const trace_event& event, const thread& self) {
  const bool on_p = event.kind < event::first_experimental;
  const bool on_g = on_p && event.kind != event::heap_alloc && event.kind != event::heap_goal;
  if (!needs(event, self, on_p, on_g)) return verdict::broken;
  switch (event.kind) {
    case event::task_begin:
      if (!tasks_.emplace(event.arguments[0], *tables_->string(event.arguments[2])).second) {
        return broken(event, "task " + number(event.arguments[0]) + " is under way already");
      }
      return verdict::done;
    case event::task_end:
      tasks_.erase(event.arguments[0]);
      return verdict::done;
    case event::region_begin:
    case event::region_end:
      break;
    default:
      return verdict::done;
  }
  goroutine* const g = find_g(self.g);
  if (g == nullptr) return broken(event, goroutine_name(self.g) + " does not exist");
  const region named{event.arguments[0], *tables_->string(event.arguments[1])};
  if (event.kind == event::region_begin) {
    g->regions.push_back(named);
  } else if (!g->regions.empty()) {  // else it began before the trace did
    if (g->regions.back() != named) {
      return broken(event, "the region \"" + std::string(named.name) + "\" of " +
                               goroutine_name(self.g) + " ends inside \"" +
                               std::string(g->regions.back().name) + "\"");
    }
    g->regions.pop_back();
  }
  return verdict::done;
}

std::string trace_order::what_it_waits_for(const trace_event& event) const {
  const auto sequel = [&](const sequence& last, std::uint64_t wanted) {
    if (last.generation != generation_) {
      return std::string(", which has no status in this generation");
    }
    if (wanted == last.number + 1) return std::string();
    return " after number " + number(last.number) + " (this is number " + number(wanted) + ")";
  };
  const auto about_g = [&](std::uint64_t id, g_status wanted) {
    const auto found = gs_.find(id);
    if (found == gs_.end()) return goroutine_name(id) + ", which does not exist";
    return goroutine_name(id) + ", which is " + std::string(name_of(found->second.status)) +
           (found->second.status == wanted ? "" : ", not " + std::string(name_of(wanted))) +
           sequel(found->second.last, event.arguments[1]);
  };
  const auto about_p = [&](std::uint64_t id, p_status wanted) {
    const auto found = ps_.find(id);
    if (found == ps_.end()) return proc_name(id) + ", which has no status yet";
    return proc_name(id) + ", which is " + std::string(name_of(found->second.status)) +
           (found->second.status == wanted ? "" : ", not " + std::string(name_of(wanted))) +
           sequel(found->second.last, event.arguments[1]);
  };
  switch (event.kind) {
    case event::go_start:
      return about_g(event.arguments[0], g_status::runnable);
    case event::go_unblock:
    case event::go_switch:
    case event::go_switch_destroy:
      return about_g(event.arguments[0], g_status::waiting);
    case event::proc_start: {
      const auto self = ms_.find(event.m);
      if (self != ms_.end() && self->second.p != k_nobody) {
        return "the thread to lose " + proc_name(self->second.p);
      }
      return about_p(event.arguments[0], p_status::idle);
    }
    case event::proc_steal:
      return about_p(event.arguments[0], p_status::syscall);
    case event::go_syscall_end_blocked:
      return "its P to be taken away";
    default:
      return "collection " + number(event.arguments[0]);
  }
}

}  // namespace magpie::rt
