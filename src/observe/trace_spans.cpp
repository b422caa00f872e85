// trace_spans.cpp: from events to stretches of time.

#include "observe/trace_spans.h"

#include <algorithm>

namespace magpie::rt {

using trace::event;
using trace::g_status;
using trace::k_nobody;
using trace::p_status;

void span_builder::name(std::uint64_t g, std::uint64_t stack) {
  goroutine& of = gs_[g];
  if (!of.name.empty()) return;
  const auto frames = reader_.stack(stack);
  if (!frames.empty()) of.name = frames.back().function;
}

void span_builder::end_span(std::uint64_t g, goroutine& of, bool open) {
  if (!of.known) return;
  const bool placed = of.what == activity::running || of.what == activity::syscall;
  sink_.goroutine_did({
      .g = g,
      .name = of.name,
      .what = of.what,
      .begin = of.since,
      .end = last_,
      .m = placed ? of.m : k_nobody,
      .p = placed ? of.p : k_nobody,
      .p_end = of.p_end != 0 ? of.p_end : last_,
      .reason = of.reason,
      .by = of.by,
      .created = of.created,
      .to_be_continued = open,
  });
}

void span_builder::change(std::uint64_t g, activity what, const trace_event& event,
                          std::string_view reason) {
  goroutine& of = gs_[g];
  end_span(g, of, false);
  call_ended(g, of);
  of.known = true;
  of.what = what;
  of.since = event.time;
  of.m = event.m;
  of.p = event.p;
  of.p_end = 0;
  of.reason = reason;
  of.by = {};
  of.created = false;
  if (what == activity::syscall && of.p != k_nobody) in_call_[of.p] = g;
}

void span_builder::gone(std::uint64_t g) {
  goroutine& of = gs_[g];
  end_span(g, of, false);
  call_ended(g, of);
  gs_.erase(g);
}

// A goroutine that has lost its P is in no call on that any more, but another one may be.
void span_builder::call_ended(std::uint64_t g, const goroutine& of) {
  if (of.what != activity::syscall) return;
  const auto caller = in_call_.find(of.p);
  if (caller != in_call_.end() && caller->second == g) in_call_.erase(caller);
}

void span_builder::p_taken(std::uint64_t p, std::uint64_t m) {
  ps_.insert_or_assign(p, holding{m, last_});
}

void span_builder::p_left(std::uint64_t p) {
  const auto found = ps_.find(p);
  if (found == ps_.end()) return;
  sink_.thread_had_p(found->second.m, p, found->second.since, last_);
  ps_.erase(found);
  const auto caller = in_call_.find(p);
  if (caller == in_call_.end()) return;
  gs_[caller->second].p_end = last_;
  in_call_.erase(caller);
}

// A status says nothing new about a goroutine that is known already.
void span_builder::listed(const trace_event& event) {
  const std::uint64_t g = event.arguments[0];
  if (event.kind == event::go_status_stack) name(g, event.arguments[3]);
  if (gs_[g].known) return;
  constexpr activity k_of_status[] = {activity::waiting, activity::runnable, activity::running,
                                      activity::syscall, activity::waiting};
  change(g, k_of_status[event.arguments[2]], event, {});
  gs_[g].since = first_;
}

void span_builder::add(const trace_event& event) {
  // A trace begins when its first generation does, some time before anybody has written an event.
  if (first_ == 0) {
    const trace_generation& generation = reader_.generation();
    first_ = std::min(event.time, generation.nanos(generation.first_time));
  }
  last_ = event.time;
  const auto& arguments = event.arguments;
  switch (event.kind) {
    case event::proc_status: {
      const auto status = static_cast<p_status>(arguments[1]);
      const bool held = status == p_status::running || status == p_status::syscall;
      if (held && !ps_.contains(arguments[0])) p_taken(arguments[0], event.m);
      break;
    }
    case event::proc_start:
      p_taken(arguments[0], event.m);
      break;
    case event::proc_stop:
      p_left(event.p);
      break;
    case event::proc_steal:
      p_left(arguments[0]);
      break;
    case event::go_create:
    case event::go_create_blocked: {
      const bool blocked = event.kind == event::go_create_blocked;
      name(arguments[0], arguments[1]);
      change(arguments[0], blocked ? activity::waiting : activity::runnable, event, {});
      gs_[arguments[0]].by = {event.m, event.p, event.g};
      gs_[arguments[0]].created = true;
      break;
    }
    case event::go_create_syscall:
      change(arguments[0], activity::syscall, event, {});
      break;
    case event::go_start:
      change(arguments[0], activity::running, event, {});
      break;
    case event::go_destroy:
    case event::go_destroy_syscall:
      gone(event.g);
      break;
    case event::go_stop:
    case event::go_block:
      name(event.g, arguments[1]);
      change(event.g, event.kind == event::go_stop ? activity::runnable : activity::waiting, event,
             reader_.text(arguments[0]));
      break;
    case event::go_unblock:
      change(arguments[0], activity::runnable, event, {});
      gs_[arguments[0]].by = {event.m, event.p, event.g};
      break;
    case event::go_syscall_begin:
      name(event.g, arguments[1]);
      change(event.g, activity::syscall, event, {});
      break;
    case event::go_syscall_end:
      change(event.g, activity::running, event, {});
      break;
    case event::go_syscall_end_blocked:
      change(event.g, activity::runnable, event, {});
      break;
    case event::go_status:
    case event::go_status_stack:
      listed(event);
      break;
    case event::go_label:
      gs_[event.g].name = reader_.text(arguments[0]);
      break;
    default:
      break;
  }
}

void span_builder::finish() {
  for (auto& [g, of] : gs_) end_span(g, of, true);
  for (const auto& [p, held] : ps_) sink_.thread_had_p(held.m, p, held.since, last_);
  gs_.clear();
  ps_.clear();
  in_call_.clear();
}

}  // namespace magpie::rt
