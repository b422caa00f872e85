// The bytes of a trace file: Go's execution trace, as `go tool trace` reads it.
//
// A file is a header of 16 bytes and then generations. A generation is a bag of batches, each
// written by one thread, and has tables of strings and stacks of its own. A batch of events is a
// run of them with rising times: a byte for the kind, then numbers as varints, the first of which
// is the time since the event before. Order across threads does not come from the times but from
// sequence numbers of goroutines and Ps, which start again at 0 in every generation.
//
// Here are the numbers and limits; batch.h writes with them, observe/trace_file.h reads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace magpie::rt::trace {

// The version that a header names says which events may follow.
enum class version : std::uint8_t {
  go122 = 22,
  go123 = 23,  // direct switches, statuses with stacks
  go125 = 25,  // a sync batch with the time of day
  go126 = 26,  // a byte ends each generation, so that a cut file is noticed
};

// What the recorder writes unless told otherwise: every Go since 1.23 reads it.
inline constexpr version k_default_version = version::go123;

enum class event : std::uint8_t {
  none = 0,

  // The frame of a file.
  event_batch = 1,
  stacks = 2,
  stack = 3,
  strings = 4,
  string = 5,
  cpu_samples = 6,
  cpu_sample = 7,
  frequency = 8,
  experimental_batch = 49,
  sync = 50,
  clock_snapshot = 51,
  end_of_generation = 52,

  // Ps.
  procs_change = 9,
  proc_start = 10,
  proc_stop = 11,
  proc_steal = 12,
  proc_status = 13,

  // Goroutines.
  go_create = 14,
  go_create_syscall = 15,
  go_start = 16,
  go_destroy = 17,
  go_destroy_syscall = 18,
  go_stop = 19,
  go_block = 20,
  go_unblock = 21,
  go_syscall_begin = 22,
  go_syscall_end = 23,
  go_syscall_end_blocked = 24,
  go_status = 25,
  go_switch = 45,
  go_switch_destroy = 46,
  go_create_blocked = 47,
  go_status_stack = 48,

  // Go's collector. magpie reads them and writes none but the pauses.
  stw_begin = 26,
  stw_end = 27,
  gc_active = 28,
  gc_begin = 29,
  gc_end = 30,
  gc_sweep_active = 31,
  gc_sweep_begin = 32,
  gc_sweep_end = 33,
  gc_mark_assist_active = 34,
  gc_mark_assist_begin = 35,
  gc_mark_assist_end = 36,
  heap_alloc = 37,
  heap_goal = 38,

  // What the program says about itself.
  go_label = 39,
  task_begin = 40,
  task_end = 41,
  region_begin = 42,
  region_end = 43,
  log = 44,

  // Go's experiment with allocations; read and passed over.
  first_experimental = 128,
  last_experimental = 136,
};

// Status of a goroutine in go_status and go_status_stack.
enum class g_status : std::uint8_t {
  runnable = 1,
  running = 2,
  syscall = 3,
  waiting = 4,
};

// Status of a P in proc_status. syscall_abandoned: in a call, by a thread that has let go of it.
enum class p_status : std::uint8_t {
  running = 1,
  idle = 2,
  syscall = 3,
  syscall_abandoned = 4,
};

// "No thread" and "no P" where a number is asked for.
inline constexpr std::uint64_t k_nobody = ~std::uint64_t{0};

inline constexpr std::size_t k_header_size = 16;
inline constexpr std::size_t k_max_batch_payload = 65536;
inline constexpr std::size_t k_max_string = 1024;
inline constexpr std::size_t k_max_frames = 128;
inline constexpr std::size_t k_max_arguments = 6;

struct event_facts {
  const char* name = nullptr;        // Go's word; null: no such event, or not one with a time
  std::uint8_t arguments = 0;        // the time included
  std::uint8_t strings[2] = {0, 0};  // which of them are string ids; 0 (the time) means none
  std::uint8_t stacks[2] = {0, 0};   // which are stack ids
  version since = version::go122;
};

namespace detail {

constexpr std::array<event_facts, 256> make_facts() {
  std::array<event_facts, 256> table{};
  const auto set = [&](event kind, event_facts facts) {
    table[static_cast<std::size_t>(kind)] = facts;
  };
  set(event::procs_change, {"ProcsChange", 3, {}, {2, 0}});
  set(event::proc_start, {"ProcStart", 3});
  set(event::proc_stop, {"ProcStop", 1});
  set(event::proc_steal, {"ProcSteal", 4});
  set(event::proc_status, {"ProcStatus", 3});
  set(event::go_create, {"GoCreate", 4, {}, {2, 3}});
  set(event::go_create_syscall, {"GoCreateSyscall", 2});
  set(event::go_start, {"GoStart", 3});
  set(event::go_destroy, {"GoDestroy", 1});
  set(event::go_destroy_syscall, {"GoDestroySyscall", 1});
  set(event::go_stop, {"GoStop", 3, {1, 0}, {2, 0}});
  set(event::go_block, {"GoBlock", 3, {1, 0}, {2, 0}});
  set(event::go_unblock, {"GoUnblock", 4, {}, {3, 0}});
  set(event::go_syscall_begin, {"GoSyscallBegin", 3, {}, {2, 0}});
  set(event::go_syscall_end, {"GoSyscallEnd", 1});
  set(event::go_syscall_end_blocked, {"GoSyscallEndBlocked", 1});
  set(event::go_status, {"GoStatus", 4});
  set(event::stw_begin, {"STWBegin", 3, {1, 0}, {2, 0}});
  set(event::stw_end, {"STWEnd", 1});
  set(event::gc_active, {"GCActive", 2});
  set(event::gc_begin, {"GCBegin", 3, {}, {2, 0}});
  set(event::gc_end, {"GCEnd", 2});
  set(event::gc_sweep_active, {"GCSweepActive", 2});
  set(event::gc_sweep_begin, {"GCSweepBegin", 2, {}, {1, 0}});
  set(event::gc_sweep_end, {"GCSweepEnd", 3});
  set(event::gc_mark_assist_active, {"GCMarkAssistActive", 2});
  set(event::gc_mark_assist_begin, {"GCMarkAssistBegin", 2, {}, {1, 0}});
  set(event::gc_mark_assist_end, {"GCMarkAssistEnd", 1});
  set(event::heap_alloc, {"HeapAlloc", 2});
  set(event::heap_goal, {"HeapGoal", 2});
  set(event::go_label, {"GoLabel", 2, {1, 0}, {}});
  set(event::task_begin, {"UserTaskBegin", 5, {3, 0}, {4, 0}});
  set(event::task_end, {"UserTaskEnd", 3, {}, {2, 0}});
  set(event::region_begin, {"UserRegionBegin", 4, {2, 0}, {3, 0}});
  set(event::region_end, {"UserRegionEnd", 4, {2, 0}, {3, 0}});
  set(event::log, {"UserLog", 5, {2, 3}, {4, 0}});
  set(event::go_switch, {"GoSwitch", 3, {}, {}, version::go123});
  set(event::go_switch_destroy, {"GoSwitchDestroy", 3, {}, {}, version::go123});
  set(event::go_create_blocked, {"GoCreateBlocked", 4, {}, {2, 3}, version::go123});
  set(event::go_status_stack, {"GoStatusStack", 5, {}, {4, 0}, version::go123});
  // Span, SpanAlloc, SpanFree; HeapObject...; GoroutineStack...
  constexpr std::uint8_t k_experimental[] = {4, 4, 2, 3, 3, 2, 3, 3, 2};
  for (std::size_t i = 0; i < sizeof k_experimental; ++i) {
    table[static_cast<std::size_t>(event::first_experimental) + i] = {
        "experimental event", k_experimental[i], {}, {}, version::go123};
  }
  return table;
}

inline constexpr std::array<event_facts, 256> k_facts = make_facts();

}  // namespace detail

// Any number is welcome: an unknown kind has no name.
constexpr const event_facts& facts_of(event kind) {
  return detail::k_facts[static_cast<std::size_t>(kind)];
}

}  // namespace magpie::rt::trace
