// What the stations tell the trace: one line each, which is a load and a branch while there is
// none. trace/stream.h has the rules; tracing.cpp is where a G becomes a line in a file.
//
// Who calls owns the goroutine or the P at that moment: it has taken it off its queue or list, and
// has not published it yet.
#pragma once

#include "sched/m.h"
#include "trace/stream.h"

namespace magpie::rt {

namespace traced {

void create(M* m, G& g);
void start(M& m, G& g);
void block(M& m, G& g, wait_reason);
void stop(M& m, G& g, trace::text why);
void stop_at(M& m, G& g, const os::signal_event&);
void destroy(M& m, G& g);
void unblock(M* m, G& g);
void syscall_begin(M& m, G& g);
void syscall_end(M& m, G& g);
void syscall_end_blocked(M& m, G& g);
void lost_p_in_call(M& m, P& p);
void found_asleep(M& m, P& p);
void name(M& m, G& g);

// For those who tell more than the stations do.
trace::goroutine subject(G& g);
// Where the running goroutine is, as far as frame pointers lead from `frame`.
trace::place place_of(const G& g, const void* frame);

}  // namespace traced

// m: null on a thread without a P.
inline void trace_create(M* m, G& g) {
  if (trace::on()) [[unlikely]]
    traced::create(m, g);
}
inline void trace_start(M& m, G& g) {
  if (trace::on()) [[unlikely]]
    traced::start(m, g);
}
inline void trace_block(M& m, G& g, wait_reason why) {
  if (trace::on()) [[unlikely]]
    traced::block(m, g, why);
}
inline void trace_yield(M& m, G& g) {
  if (trace::on()) [[unlikely]]
    traced::stop(m, g, trace::text::yielded);
}
inline void trace_give_way(M& m, G& g) {
  if (trace::on()) [[unlikely]]
    traced::stop(m, g, trace::text::preempted);
}
inline void trace_preempt(M& m, G& g, const os::signal_event& at) {
  if (trace::on()) [[unlikely]]
    traced::stop_at(m, g, at);
}
inline void trace_destroy(M& m, G& g) {
  if (trace::on()) [[unlikely]]
    traced::destroy(m, g);
}
// m: the caller's, or null for "see for yourself".
inline void trace_unblock(M* m, G& g) {
  if (trace::on()) [[unlikely]]
    traced::unblock(m, g);
}
// Those whose unblocking is told next become runnable at one go.
inline void trace_begin_moment(M* m) {
  if (m != nullptr && trace::on()) [[unlikely]]
    m->trace.begin_moment();
}
inline void trace_end_moment(M* m) {
  if (m != nullptr && trace::on()) [[unlikely]]
    m->trace.moment_passed();
}

inline void trace_syscall_begin(M& m, G& g) {
  if (trace::on()) [[unlikely]]
    traced::syscall_begin(m, g);
}
inline void trace_syscall_end(M& m, G& g) {
  if (trace::on()) [[unlikely]]
    traced::syscall_end(m, g);
}
// It is runnable now; one that gets a P is started after that. Under the lock, and before the
// thread takes a P: one that has a P and is in a call is listed as if the P were beside the call.
inline void trace_syscall_end_blocked(M& m, G& g) {
  if (trace::on()) [[unlikely]]
    traced::syscall_end_blocked(m, g);
}
// Under the lock, by the one who took the P from beside a call.
inline void trace_lost_p_in_call(M& m, P& p) {
  if (trace::on()) [[unlikely]]
    traced::lost_p_in_call(m, p);
}
// Under the lock, by the one who took the P from a thread in user code.
inline void trace_found_asleep(M& m, P& p) {
  if (trace::on()) [[unlikely]]
    traced::found_asleep(m, p);
}

// The running goroutine has got a name.
inline void trace_name(M& m, G& g) {
  if (trace::on()) [[unlikely]]
    traced::name(m, g);
}

inline void trace_proc_start(M& m, P& p) {
  if (trace::on()) [[unlikely]]
    m.trace.proc_start(p.trace);
}
inline void trace_proc_stop(M& m, P& p) {
  if (trace::on()) [[unlikely]]
    m.trace.proc_stop(p.trace);
}

}  // namespace magpie::rt
