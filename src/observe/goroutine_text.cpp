#include "observe/goroutine_text.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "os/mapped_list.h"
#include "os/thread_view.h"

namespace magpie::rt {
namespace {

constexpr os::nanos k_minute = 60'000'000'000;

// So many calls of one function at one place are shown, of more one.
constexpr std::uint32_t k_most_equal = 10;

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

// Of what must be equal to share a block; two that differ are not taken for equal in a lifetime.
std::uint64_t likeness(const snapshot& s, const goroutine_record& g) {
  std::uint64_t hash =
      mix(static_cast<std::uint64_t>(g.state), static_cast<std::uint64_t>(g.reason));
  hash = mix(hash, static_cast<std::uint64_t>(g.view));
  hash = mix(hash, static_cast<std::uint64_t>(g.system_call));
  hash = mix(hash, (g.locked ? 1U : 0U) | (g.is_caller ? 2U : 0U));
  hash = mix(hash, reinterpret_cast<std::uintptr_t>(g.spawn_site));
  hash = mix(hash, g.left_out);
  for (const char c : s.name_of(g)) hash = mix(hash, static_cast<unsigned char>(c));
  for (std::uint32_t i = 0; i < g.frames; ++i) hash = mix(hash, s.frames_of(g)[i]);
  return hash;
}

}  // namespace

struct goroutine_text::group {
  const goroutine_record* first;
  std::uint64_t last_id = 0;
  std::size_t count = 1;
  os::nanos longest = 0;
  bool same_parent = true;
};

goroutine_text::goroutine_text(const snapshot& s, options o) : snapshot_(s), options_(o) {
  std::uintptr_t last = 0;  // most stacks begin like the one before
  for (const goroutine_record& g : s.goroutines()) {
    for (std::uint32_t i = 0; i < g.frames; ++i) {
      const std::uintptr_t at = s.frames_of(g)[i];
      if (at != last) names_.want(at);
      last = at;
    }
    names_.want_call(g.spawn_site);
  }
  names_.look_up(o.names);
}

namespace {

bool is_scheduler_frame(const code_names& names, std::uintptr_t inside) {
  const code_name* const n = names.find(inside);
  if (n == nullptr || n->function == nullptr) return false;
  const auto begins = [&](const char* with) {
    return std::strncmp(n->function, with, std::strlen(with)) == 0;
  };
  return begins("_ZN6magpie2rt") || begins("_ZNK6magpie2rt") || begins("magpie_fiber_");
}

}  // namespace

// Of functions that are equal g++ tells only once what is inlined into them: where that is the
// function of a goroutine, the others look like glue, and are all that the user has on the stack.
hidden_frames::hidden_frames(const code_names& names, std::span<const std::uintptr_t> frames)
    : names_(names) {
  const auto hidden = [this](std::uintptr_t at) { return (*this)(at); };
  for (const auto what : {kind::scheduler_and_glue, kind::scheduler}) {
    what_ = what;
    if (!std::all_of(frames.begin(), frames.end(), hidden)) return;
  }
  what_ = kind::nothing;
}

bool hidden_frames::operator()(std::uintptr_t inside) const {
  if (what_ == kind::nothing) return false;
  return is_scheduler_frame(names_, inside) ||
         (what_ == kind::scheduler_and_glue && names_.is_glue(inside));
}

hidden_frames goroutine_text::hidden_of(const goroutine_record& g) const {
  if (options_.runtime_frames) return hidden_frames(names_);
  return {names_, std::span(snapshot_.frames_of(g), g.frames)};
}

void goroutine_text::print_header(printer& out, const goroutine_record& g) const {
  const bool waits = g.state == goroutine_state::waiting;
  out << '[' << (waits ? wait_reason_text(g.reason) : state_text(g.state));
  if (g.waited >= k_minute) out << ", " << g.waited / k_minute << " minutes";
  if (g.locked) out << ", locked to thread";
  if (g.system_call >= 0) {
    out << ", blocks its thread in ";
    if (const char* const name = os::system_call_name(g.system_call)) {
      out << name;
    } else {
      out << "system call " << g.system_call;
    }
  }
  out << ']';
  print_name_of(out, g);
}

// Whoever named it may have had it from elsewhere.
void goroutine_text::print_name_of(printer& out, const goroutine_record& g) const {
  if (g.name_size == 0) return;
  out << " \"";
  print_safely(out, snapshot_.name_of(g));
  out << '"';
}

void goroutine_text::print_object(printer& out, const goroutine_record& g) const {
  out << g.object;
  if (g.held_by == holder_kind::thread) out << ", held by a thread that is no goroutine";
  if (g.held_by == holder_kind::ended) out << ", held by a goroutine that has ended";
  if (g.held_by != holder_kind::goroutine) return;
  out << ", held by goroutine " << g.holder;
  const auto& all = snapshot_.goroutines();
  const goroutine_record* holder =
      std::lower_bound(all.begin(), all.end(), g.holder,
                       [](const goroutine_record& r, std::uint64_t id) { return r.id < id; });
  // A lock may be shared by runtimes, but mostly is not.
  while (holder != all.end() && holder->id == g.holder && holder->runtime != g.runtime) ++holder;
  if (holder != all.end() && holder->id == g.holder) print_name_of(out, *holder);
}

void goroutine_text::print_short_place(printer& out, std::uintptr_t inside) const {
  const code_name* const n = names_.find_shown(inside);
  if (n == nullptr) {
    out << hex{inside};
    return;
  }
  print_short_place(out, *n);
}

void goroutine_text::print_short_place(printer& out, const code_name& n) {
  print_function(out, n);
  out << " at ";
  code_name plain = n;
  if (plain.source.file != nullptr) plain.function = nullptr;  // without the offset
  print_place(out, plain);
}

void goroutine_text::print_frames(printer& out, const goroutine_record& g) const {
  if (g.view == stack_view::unavailable) {
    out << "\tgoroutine running on other thread; stack unavailable\n";
    return;
  }
  const auto elide = [&](std::uint32_t count) {
    if (count != 0) out << "..." << count << " frames elided...\n";
  };
  const std::uintptr_t* const frames = snapshot_.frames_of(g);
  const hidden_frames hidden = hidden_of(g);
  for (std::uint32_t i = 0, next = 0; i < g.frames; i = next) {
    for (next = i + 1; next < g.frames && frames[next] == frames[i];) ++next;
    const bool has_gap = i < g.inner_frames && g.inner_frames < next;
    if (hidden(frames[i])) continue;
    // A recursion that has run away: what is missing between two equal ones is like them.
    if (next - i > k_most_equal) {
      print_frame(out, names_, frames[i]);
      elide(next - i - 1 + (has_gap ? g.left_out : 0));
    } else {
      for (std::uint32_t k = i; k < next; ++k) {
        if (has_gap && k == g.inner_frames) elide(g.left_out);
        print_frame(out, names_, frames[k]);
      }
    }
    if (next == g.inner_frames) elide(g.left_out);
  }
}

void print_frame(printer& out, const code_names& names, std::uintptr_t inside) {
  names.for_each(inside, [&out](const code_name& n) {
    print_function(out, n);
    out << "\n\t";
    print_place(out, n);
    out << '\n';
  });
}

void print_creator(printer& out, const code_names& names, const void* spawn_site,
                   std::uint64_t parent) {
  const code_name* const n = names.find_shown(reinterpret_cast<std::uintptr_t>(spawn_site) - 1);
  if (spawn_site == nullptr || n == nullptr) return;
  out << "created by ";
  print_function(out, *n);
  if (parent != 0) out << " in goroutine " << parent;
  out << "\n\t";
  print_place(out, *n);
  out << '\n';
}

void goroutine_text::print_block(printer& out, const group& of) const {
  goroutine_record g = *of.first;
  out << "goroutine " << g.id;
  if (of.count > 1) out << ".." << of.last_id << " (" << of.count << " goroutines)";
  out << ' ';
  g.waited = of.longest;
  print_header(out, g);
  out << ":\n";
  if (of.count == 1 && g.object != nullptr) {
    out << "  waits in ";
    print_object(out, g);
    out << '\n';
  }
  print_frames(out, g);
  print_creator(out, names_, g.spawn_site, of.same_parent ? g.parent : 0);
}

void goroutine_text::print(printer& out) const {
  const auto& all = snapshot_.goroutines();
  struct key {
    std::uint64_t likeness;
    std::size_t index;
  };
  os::mapped_list<key> keys;
  for (std::size_t i = 0; i < all.size(); ++i) keys.add({likeness(snapshot_, all[i]), i});
  std::sort(keys.begin(), keys.end(), [](const key& a, const key& b) {
    return a.likeness != b.likeness ? a.likeness < b.likeness : a.index < b.index;
  });
  os::mapped_list<group> groups;
  for (std::size_t i = 0; i < keys.size();) {
    std::size_t end = i + 1;
    while (end < keys.size() && keys[end].likeness == keys[i].likeness) ++end;
    const bool together = end - i > options_.group_above;
    for (std::size_t k = i; k < end; ++k) {
      const goroutine_record& g = all[keys[k].index];
      if (k == i || !together) {
        groups.add({.first = &g, .last_id = g.id, .longest = g.waited});
        continue;
      }
      group& mine = groups[groups.size() - 1];
      ++mine.count;
      mine.last_id = g.id;
      mine.longest = std::max(mine.longest, g.waited);
      mine.same_parent &= g.parent == mine.first->parent;
    }
    i = end;
  }
  std::sort(groups.begin(), groups.end(), [](const group& a, const group& b) {
    if (a.first->is_caller != b.first->is_caller) return a.first->is_caller;
    return a.first->id < b.first->id;
  });
  for (const group& g : groups) {
    if (&g != groups.begin()) out << '\n';
    print_block(out, g);
  }
}

}  // namespace magpie::rt
