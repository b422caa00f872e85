// trace_reader.cpp: of all threads' next events, which comes first.
//
// The threads' next events are in a heap by time. The earliest is tried; if it must wait, the
// next, and so on. Those that waited go back into the heap: whatever happened meanwhile may be
// what they waited for.

#include "observe/trace_reader.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/varint.h"
#include "observe/trace_order.h"

namespace magpie::rt {

using trace::event;

std::uint64_t trace_event::subject() const {
  switch (kind) {
    case event::go_create:
    case event::go_create_blocked:
    case event::go_create_syscall:
    case event::go_start:
    case event::go_unblock:
    case event::go_status:
    case event::go_status_stack:
      return arguments[0];
    default:
      return g;
  }
}

class trace_reader::inside {
 public:
  explicit inside(std::span<const std::uint8_t> bytes) : file(bytes) {}

  bool next(trace_event& event);

  trace_file file;
  trace_generation generation;
  std::size_t generations = 0;
  bool failed = false;
  trace_error error;

 private:
  // The events of one thread in this generation.
  struct cursor {
    std::uint64_t m;
    std::vector<std::uint32_t> batches;  // places in generation.batches
    std::size_t batch = 0;               // the next to be opened
    const std::uint8_t* at = nullptr;
    const std::uint8_t* end = nullptr;
    std::uint64_t units = 0;  // time of `event`
    trace_event event;
  };

  // Files are refused in which threads wait for each other more often than this for an event:
  // made to keep a reader busy for days.
  static constexpr std::uint64_t k_patience = 2000;

  bool begin_generation();
  void advance_somebody();
  void nobody_can_go_on();
  bool load(cursor& of, bool& over);
  bool read_event(cursor& of);
  bool check_ids(const trace_event& read);
  bool fail(std::size_t offset, std::string what);
  bool fail_missing(std::size_t offset, std::string what);

  static bool later(const cursor* a, const cursor* b) {
    return a->event.time != b->event.time ? a->event.time > b->event.time : a->m > b->m;
  }

  trace_order order_;
  std::vector<cursor> cursors_;
  std::vector<cursor*> heap_;
  std::vector<cursor*> waiting_;
  std::vector<trace_event> ready_;
  std::size_t given_ = 0;
  std::uint64_t last_time_ = 0;
  std::uint64_t tries_ = 0;
  std::uint64_t events_ = 0;
};

bool trace_reader::inside::fail(std::size_t offset, std::string what) {
  failed = true;
  error = {offset, std::move(what), false};
  return false;
}

bool trace_reader::inside::fail_missing(std::size_t offset, std::string what) {
  fail(offset, std::move(what));
  error.cut = file.may_be_cut();
  return false;
}

bool trace_reader::inside::next(trace_event& event) {
  while (given_ == ready_.size()) {
    if (failed) return false;
    ready_.clear();
    given_ = 0;
    if (heap_.empty()) {
      if (!begin_generation()) return false;
    } else {
      advance_somebody();
    }
  }
  event = ready_[given_++];
  // Clocks of different threads may disagree by a little; the order does not.
  if (event.time <= last_time_) event.time = last_time_ + 1;
  last_time_ = event.time;
  return true;
}

// Opens the next generation; it may turn out to have no events.
bool trace_reader::inside::begin_generation() {
  if (!file.next(generation)) {
    if (file.error() == nullptr) return false;
    failed = true;
    error = *file.error();
    return false;
  }
  ++generations;
  order_.begin_generation(generation);
  cursors_.clear();
  std::unordered_map<std::uint64_t, std::size_t> of_thread;
  for (std::size_t i = 0; i < generation.batches.size(); ++i) {
    const trace_batch& batch = generation.batches[i];
    const auto [place, fresh] = of_thread.try_emplace(batch.m, cursors_.size());
    if (fresh) cursors_.emplace_back().m = batch.m;
    cursors_[place->second].batches.push_back(static_cast<std::uint32_t>(i));
  }
  for (cursor& each : cursors_) {
    bool over = false;
    if (!load(each, over)) return false;
    if (!over) heap_.push_back(&each);
  }
  std::make_heap(heap_.begin(), heap_.end(), later);
  return true;
}

void trace_reader::inside::advance_somebody() {
  waiting_.clear();
  cursor* moved = nullptr;
  while (moved == nullptr) {
    if (heap_.empty()) return nobody_can_go_on();
    std::pop_heap(heap_.begin(), heap_.end(), later);
    cursor* const first = heap_.back();
    heap_.pop_back();
    trace_event tried = first->event;
    switch (order_.advance(tried, ready_)) {
      case trace_order::verdict::done:
        moved = first;
        break;
      case trace_order::verdict::broken:
        fail(tried.offset, order_.problem());
        return;
      case trace_order::verdict::not_yet:
        waiting_.push_back(first);
        if (++tries_ > k_patience * (events_ + 100'000)) {
          fail(tried.offset, "the events are too far out of order");
          return;
        }
        break;
    }
  }
  ++events_;
  bool over = false;
  if (!load(*moved, over)) return;
  if (!over) waiting_.push_back(moved);
  for (cursor* const each : waiting_) {
    heap_.push_back(each);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
}

void trace_reader::inside::nobody_can_go_on() {
  constexpr std::size_t k_shown = 5;
  std::string what = "no thread can go on in generation " + std::to_string(generation.number);
  for (std::size_t i = 0; i < waiting_.size() && i < k_shown; ++i) {
    const trace_event& stuck = waiting_[i]->event;
    what += i == 0 ? ": " : "; ";
    what += "thread " + (stuck.m == trace::k_nobody ? "-1" : std::to_string(stuck.m)) + " at " +
            std::to_string(stuck.offset) + ": " + trace::facts_of(stuck.kind).name + " waits for " +
            order_.what_it_waits_for(stuck);
  }
  if (waiting_.size() > k_shown) {
    what += "; and " + std::to_string(waiting_.size() - k_shown) + " more";
  }
  // Batches come before the tables: some may be missing only where there are none of these.
  if (generation.strings.entries().empty()) {
    fail_missing(waiting_.front()->event.offset, std::move(what));
  } else {
    fail(waiting_.front()->event.offset, std::move(what));
  }
}

// Makes the thread's next event the cursor's, if there is one.
bool trace_reader::inside::load(cursor& of, bool& over) {
  while (of.at == of.end) {
    if (of.batch == of.batches.size()) {
      over = true;
      return true;
    }
    const trace_batch& batch = generation.batches[of.batches[of.batch++]];
    of.at = batch.bytes.data();
    of.end = of.at + batch.bytes.size();
    of.units = batch.time;
  }
  return read_event(of);
}

bool trace_reader::inside::read_event(cursor& of) {
  trace_event& read = of.event;
  read.offset = file.offset_of(of.at);
  read.m = of.m;
  read.kind = static_cast<event>(*of.at++);
  const trace::event_facts& facts = trace::facts_of(read.kind);
  if (facts.name == nullptr || facts.since > file.version()) {
    return fail(read.offset, "byte " + std::to_string(static_cast<unsigned>(read.kind)) +
                                 " is not an event that can be here");
  }
  std::uint64_t since = 0;
  of.at = get_varint(of.at, of.end, since);
  for (std::size_t i = 0; of.at != nullptr && i + 1 < facts.arguments; ++i) {
    of.at = get_varint(of.at, of.end, read.arguments[i]);
  }
  if (of.at == nullptr) {
    return fail(read.offset, std::string(facts.name) + " runs over its batch");
  }
  of.units += since;
  read.time = generation.nanos(of.units);
  return check_ids(read);
}

bool trace_reader::inside::check_ids(const trace_event& read) {
  const trace::event_facts& facts = trace::facts_of(read.kind);
  for (const std::uint8_t which : facts.strings) {
    if (which == 0) break;
    const std::uint64_t id = read.arguments[which - 1U];
    if (generation.string(id) == nullptr) {
      return fail_missing(read.offset,
                          std::string(facts.name) + " with unknown string " + std::to_string(id));
    }
  }
  for (const std::uint8_t which : facts.stacks) {
    if (which == 0) break;
    const std::uint64_t id = read.arguments[which - 1U];
    if (!generation.has_stack(id)) {
      return fail_missing(read.offset,
                          std::string(facts.name) + " with unknown stack " + std::to_string(id));
    }
  }
  return true;
}

trace_reader::trace_reader(std::span<const std::uint8_t> bytes)
    : inside_(std::make_unique<inside>(bytes)) {}

trace_reader::~trace_reader() = default;

bool trace_reader::next(trace_event& event) { return inside_->next(event); }

const trace_error* trace_reader::error() const {
  return inside_->failed ? &inside_->error : nullptr;
}

trace::version trace_reader::version() const { return inside_->file.version(); }
const trace_generation& trace_reader::generation() const { return inside_->generation; }
std::size_t trace_reader::generations() const { return inside_->generations; }

std::string_view trace_reader::text(std::uint64_t id) const {
  const std::string_view* const found = inside_->generation.string(id);
  return found != nullptr ? *found : std::string_view();
}

}  // namespace magpie::rt
